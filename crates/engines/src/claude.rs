//! Claude Code, by its own stream of JSON.

mod record;
mod result_message;
mod session;
mod sessions;
mod settings;
mod standing;

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{EngineName, RunKey};
use sandbox::{Environment, Program};
use serde_json::json;

use super::descriptor::{EngineDescriptor, EngineMaker};
use super::home::{EngineHomes, RefreshedFields, session_of};
use super::price_list;
use super::registry::{self, EngineContext};
use super::{Engine, EngineError, EngineRequest, LoginState, Presence, Session, ToolServer};
use crate::config::EngineConfig;
use crate::prompt::Memory;
use record::SessionRecord;
use session::ClaudeSession;
use standing::{PROVIDERS, Signs};

/// Runs `claude -p` for each job.
#[derive(Clone)]
pub struct ClaudeEngine {
    name: EngineName,
    config: EngineConfig,
    environment: Environment,
    homes: EngineHomes,
    bench: EngineContext,
}

/// The program, unless another is configured.
const PROGRAM: &str = "claude";

/// The tool that waits for a person. None is present.
const ASKS_A_PERSON: &str = "AskUserQuestion";

/// The tools that read web pages. A tool that is disallowed is not offered to the model, so that no call of it is refused.
const WEB: &str = "WebFetch,WebSearch";

/// All tools of the run's own MCP server.
const OWN_TOOLS: &str = "mcp__giga";

/// How it signs in.
pub(super) const LOGIN: registry::SignInMethod = registry::SignInMethod {
    variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"],
    keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
    folder_variable: "CLAUDE_CONFIG_DIR",
    folder: ".claude",
    file: ".credentials.json",
    settings: &["settings.json", "CLAUDE.md"],
    fit: settings::fit,
    refreshes: RefreshedFields {
        object: "claudeAiOauth",
        beside: &[],
        tokens: &["accessToken", "refreshToken"],
        time: "/claudeAiOauth/expiresAt",
        // Its service grants hours or days.
        ahead_max: Duration::from_hours(30 * 24),
    },
    withheld: &["mcpOAuth", "mcpOAuthClientConfig", "mcpXaaIdp", "mcpXaaIdpConfig", "pluginSecrets"],
};

/// Its entry in the table of engines.
pub(super) const DESCRIPTOR: EngineDescriptor = EngineDescriptor {
    name: PROGRAM,
    engine_names: &[PROGRAM],
    program: Some(PROGRAM),
    takes_argv: false,
    reports_turns: |_| true,
    has_web_tools: true,
    prices: &price_list::CLAUDE,
    maker: EngineMaker::SignedIn {
        method: &LOGIN,
        make: |name, config, environment, bench| Arc::new(ClaudeEngine::new(name, config, environment, bench)),
    },
};

impl ClaudeEngine {
    /// The engine `name`, whose programs get `environment`.
    pub fn new(name: EngineName, config: &EngineConfig, environment: Environment, bench: &EngineContext) -> Self {
        let below = bench.sessions.join(name.as_str());
        let homes = EngineHomes::of(&environment, &config.environment, &LOGIN, &below, |folder| bench.open_way(folder));
        // Messages about a usage window give a clock time in the zone of this variable.
        let environment = environment.with("TZ", "UTC").with("DISABLE_AUTOUPDATER", "1");
        let bench = bench.opening(homes.operator());
        Self { name, config: config.clone(), environment, homes, bench }
    }

    fn program(&self) -> &str {
        self.config.program.as_deref().unwrap_or(PROGRAM)
    }

    fn login(&self) -> LoginState {
        self.signs().map_or_else(|error| LoginState::Unreadable { why: error.to_string() }, Signs::login)
    }

    fn signs(&self) -> io::Result<Signs> {
        let settings = self.homes.operator_file("settings.json")?.unwrap_or_default();
        let is_set = |variable: &&str| {
            let own = self.environment.variable(variable).is_some_and(|value| !value.is_empty());
            own || settings::set(&settings, variable)
        };
        let has_settings = self.config.args.iter().any(|arg| arg.starts_with("--settings"));
        Ok(Signs {
            has_key: LOGIN.keys.iter().any(is_set),
            is_elsewhere: has_settings || PROVIDERS.iter().any(is_set),
            has_file: self.homes.has_credential(&LOGIN)?,
            has_helper: settings::name_a_helper(&settings),
            os: std::env::consts::OS,
        })
    }

    fn arguments(&self, request: &EngineRequest, session: &str, memory: Memory) -> Vec<OsString> {
        let mut args: Vec<String> =
            ["-p", "--output-format", "stream-json", "--verbose", "--permission-mode"].map(str::to_owned).to_vec();
        args.push(self.config.permission_mode.clone().unwrap_or_else(|| "acceptEdits".to_owned()));
        // Files of the worktree and shell commands, inside the factory's sandbox.
        let shell = self.config.permission_mode.is_none().then_some("Bash");
        let web = self.config.web.then_some(WEB);
        let own = request.tools.as_ref().map(|_| OWN_TOOLS);
        let allowed: Vec<&str> = shell.into_iter().chain(web).chain(own).collect();
        if !allowed.is_empty() {
            args.push(format!("--allowedTools={}", allowed.join(",")));
        }
        args.push(match self.config.web {
            true => format!("--disallowedTools={ASKS_A_PERSON}"),
            false => format!("--disallowedTools={ASKS_A_PERSON},{WEB}"),
        });
        if let Some(model) = request.model.as_ref().or(self.config.model.as_ref()) {
            args.push(format!("--model={}", super::stream::one_line(model)));
        }
        if let Some(turns) = request.allowance.turns.or(self.config.turns_max) {
            args.push(format!("--max-turns={turns}"));
        }
        if let Some(usd) = request.allowance.usd {
            args.push(format!("--max-budget-usd={usd:.4}"));
        }
        match memory {
            Memory::Resumed => args.push(format!("--resume={session}")),
            Memory::New => args.push(format!("--session-id={session}")),
        }
        args.extend(request.tools.as_ref().into_iter().flat_map(tool_arguments));
        args.extend(self.config.args.iter().cloned());
        args.into_iter().map(OsString::from).collect()
    }
}

/// The run's own tools, and no other MCP server: neither the repository nor the operator's settings add one. Servers of
/// an operator's own `--mcp-config` in `args` are started as well.
fn tool_arguments(tools: &ToolServer) -> [String; 2] {
    let server = json!({ "command": tools.program, "args": tools.args });
    let config = json!({ "mcpServers": { ToolServer::NAME: server } });
    [format!("--mcp-config={config}"), "--strict-mcp-config".to_owned()]
}

#[async_trait]
impl Engine for ClaudeEngine {
    fn name(&self) -> &EngineName {
        &self.name
    }

    fn credential(&self) -> Option<&str> {
        self.config.credential.as_deref()
    }

    fn billing(&self) -> Option<domain::Billing> {
        self.config.billing
    }

    async fn detect(&self) -> Presence {
        match self.bench.version(self.program(), &self.environment).await {
            // `2.1.197 (Claude Code)`
            Ok(answer) => Presence::Ready {
                version: answer.split_whitespace().next().map(domain::escape_for_terminal),
                login: self.login(),
            },
            Err(why) => Presence::Missing { why },
        }
    }

    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError> {
        let folder = self.homes.open(request.job).map_err(EngineError::Disk)?;
        let carried = request.session.as_deref().filter(|id| sessions::carry(&folder, id, &request.worktree));
        let (session, memory) = match carried {
            Some(session) => (session.to_owned(), Memory::Resumed),
            None => (session_of(request.job, request.epoch), Memory::New),
        };
        let before = carried.and_then(|id| sessions::cost_state(&folder, id, &request.worktree)).unwrap_or_default();
        let record = SessionRecord::resuming(&folder, &request.worktree, &session);
        self.homes.hand_over(&folder, self.bench.launcher.account()).map_err(EngineError::Disk)?;
        let credential = self.homes.copy_in(&folder, &LOGIN, &self.bench.clock).map_err(EngineError::Disk)?;
        let mut argv = vec![OsString::from(self.program())];
        argv.extend(self.arguments(request, &session, memory));
        let run = RunKey { job: request.job, epoch: request.epoch };
        let environment = self.environment.clone().of_run(run, request.attempt).with(LOGIN.folder_variable, folder);
        let program = Program {
            argv,
            dir: request.worktree.clone(),
            environment,
            stdin: request.prompt_with(memory).into_bytes(),
        };
        let allowance = &request.allowance;
        let limits = session::Limits { turns: allowance.turns.or(self.config.turns_max), usd: allowance.usd };
        let mut session =
            ClaudeSession::new(limits, self.bench.prices.clone(), self.bench.clock.clone(), before, record);
        session.credential = credential;
        Ok((program, Box::new(session)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clock::SystemClock;
    use domain::{Clock, Epoch};

    use super::*;
    use crate::prompt::Prompt;
    use crate::{Allowance, Prices};
    use sandbox::Launcher;

    fn arguments(config: &EngineConfig, allowance: Allowance) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let bench = EngineContext {
            launcher: Launcher::unguarded(Arc::clone(&clock)),
            clock,
            sessions: folder.path().to_owned(),
            prices: Prices::default(),
            empty_home: folder.path().to_owned(),
            open: Vec::new(),
        };
        let engine = ClaudeEngine::new("claude".parse().unwrap(), config, Environment::default(), &bench);
        let request = EngineRequest {
            job: "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap(),
            epoch: Epoch(4),
            attempt: 1,
            title: "x".to_owned(),
            prompt: Prompt::of_task("do it"),
            model: Some("--yolo".to_owned()),
            session: Some("unknown-here".to_owned()),
            worktree: folder.path().to_owned(),
            allowance,
            tools: None,
        };

        let (program, _) = engine.command(&request).unwrap();

        assert_eq!(program.stdin, request.prompt_with(Memory::New).into_bytes());
        program.argv.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn the_prompt_is_on_standard_input_and_everything_else_in_single_arguments() {
        let allowance = Allowance { usd: Some(1.25), ..Allowance::default() };
        let config = EngineConfig { turns_max: Some(30), ..EngineConfig::default() };

        let expected = [
            "claude",
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "acceptEdits",
            "--allowedTools=Bash",
            "--disallowedTools=AskUserQuestion,WebFetch,WebSearch",
            "--model=--yolo",
            "--max-turns=30",
            "--max-budget-usd=1.2500",
            "--session-id=0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6e",
        ];
        assert_eq!(arguments(&config, allowance), expected);
    }

    #[test]
    fn web_pages_are_read_only_where_that_is_configured() {
        let tools = |config: EngineConfig| {
            let arguments = arguments(&config, Allowance::default());
            arguments.into_iter().filter(|arg| arg.contains("llowedTools")).collect::<Vec<_>>()
        };
        let mode = Some("bypassPermissions".to_owned());
        let (on, off) = (EngineConfig { web: true, ..EngineConfig::default() }, EngineConfig::default());

        let asks = "--disallowedTools=AskUserQuestion";
        assert_eq!(tools(on.clone()), ["--allowedTools=Bash,WebFetch,WebSearch", asks]);
        assert_eq!(
            tools(EngineConfig { permission_mode: mode.clone(), ..on }),
            ["--allowedTools=WebFetch,WebSearch", asks]
        );
        assert_eq!(tools(EngineConfig { permission_mode: mode, ..off }), [format!("{asks},WebFetch,WebSearch")]);
    }

    // [B11]
    #[test]
    fn the_tools_of_a_run_are_its_only_mcp_server() {
        let tools = ToolServer { program: "/opt/giga".to_owned(), args: vec!["mcp".to_owned(), "a \"b\"".to_owned()] };

        let [config, strict] = tool_arguments(&tools);

        let config: serde_json::Value = serde_json::from_str(config.strip_prefix("--mcp-config=").unwrap()).unwrap();
        assert_eq!(config["mcpServers"]["giga"], json!({ "command": "/opt/giga", "args": ["mcp", "a \"b\""] }));
        assert_eq!(strict, "--strict-mcp-config");
    }

    #[test]
    fn an_operators_permission_mode_and_arguments_are_taken_as_they_are() {
        let config = EngineConfig {
            program: Some("/opt/claude".to_owned()),
            permission_mode: Some("bypassPermissions".to_owned()),
            args: vec!["--strict-mcp-config".to_owned()],
            ..EngineConfig::default()
        };

        let arguments = arguments(&config, Allowance::default());

        assert_eq!(arguments[0], "/opt/claude");
        assert_eq!(arguments[5..7], ["--permission-mode", "bypassPermissions"]);
        assert!(!arguments.iter().any(|arg| arg.starts_with("--allowedTools")));
        assert_eq!(arguments.last().map(String::as_str), Some("--strict-mcp-config"));
    }
}
