//! Codex, by `codex exec --json`.

mod refusals;
mod rollout;
mod session;
mod settings;
mod threads;

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{EngineName, JobId, RunInsights, RunKey};
use sandbox::{Environment, Program};
use toml::Value;

use super::descriptor::{EngineDescriptor, EngineMaker};
use super::home::{EngineHomes, RefreshedFields};
use super::price_list;
use super::registry::{self, EngineContext};
use super::stream::one_line;
use super::{Engine, EngineError, EngineRequest, LoginState, Presence, Session, Tokens, ToolServer};
use crate::config::EngineConfig;
use crate::prompt::Memory;
use rollout::Rollout;
use session::CodexSession;
use threads::Threads;

/// Runs `codex exec` for each job.
#[derive(Clone)]
pub struct CodexEngine {
    name: EngineName,
    config: EngineConfig,
    environment: Environment,
    homes: EngineHomes,
    bench: EngineContext,
}

/// The program, unless another is configured.
const PROGRAM: &str = "codex";

/// What it may change by itself: its worktree and temporary files.
const USUAL_SANDBOX: &str = "workspace-write";
const NO_SANDBOX: &str = "danger-full-access";

/// A checkpoint of a large repository takes minutes.
const TOOL_TIMEOUT_S: i64 = 300;

/// How it signs in.
pub(super) const LOGIN: registry::SignInMethod = registry::SignInMethod {
    variables: &["CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"],
    keys: &["CODEX_API_KEY", "OPENAI_API_KEY"],
    folder_variable: "CODEX_HOME",
    folder: ".codex",
    file: "auth.json",
    settings: &["config.toml", "AGENTS.md"],
    fit: settings::fit,
    refreshes: RefreshedFields {
        object: "tokens",
        beside: &["last_refresh"],
        tokens: &["id_token", "access_token", "refresh_token"],
        time: "/last_refresh",
        // Clocks differ.
        ahead_max: Duration::from_hours(1),
    },
    withheld: &[],
};

/// Its entry in the table of engines.
pub(super) const DESCRIPTOR: EngineDescriptor = EngineDescriptor {
    name: PROGRAM,
    engine_names: &[PROGRAM],
    program: Some(PROGRAM),
    takes_argv: false,
    reports_turns: |_| true,
    has_web_tools: true,
    prices: &price_list::CODEX,
    maker: EngineMaker::SignedIn {
        method: &LOGIN,
        make: |name, config, environment, bench| Arc::new(CodexEngine::new(name, config, environment, bench)),
    },
};

impl CodexEngine {
    /// The engine `name`, whose programs get `environment`.
    pub fn new(name: EngineName, config: &EngineConfig, environment: Environment, bench: &EngineContext) -> Self {
        let below = bench.sessions.join(name.as_str());
        let homes = EngineHomes::of(&environment, &config.environment, &LOGIN, &below, |folder| bench.open_way(folder));
        // Messages about a usage window give a clock time in the zone of this variable.
        let environment = environment.with("TZ", "UTC");
        let bench = bench.opening(homes.operator());
        Self { name, config: config.clone(), environment, homes, bench }
    }

    fn program(&self) -> &str {
        self.config.program.as_deref().unwrap_or(PROGRAM)
    }

    fn login(&self) -> LoginState {
        self.login_found().unwrap_or_else(|error| LoginState::Unreadable { why: error.to_string() })
    }

    fn login_found(&self) -> io::Result<LoginState> {
        // Checked in any case: without them no run starts.
        let settings = self.homes.operator_file("config.toml")?.unwrap_or_default();
        // A provider with a key of its own uses no other.
        if let Some((provider, key)) = settings::provider_key(&settings, &self.config.args) {
            let is_set = self.environment.variable(&key).is_some_and(|value| !value.is_empty());
            let (provider, key) = (domain::escape_for_terminal(&provider), domain::escape_for_terminal(&key));
            return Ok(match is_set {
                true => LoginState::SignedIn,
                false => LoginState::SignedOut {
                    why: format!(
                        "provider `{provider}` reads its key from `{key}` (its `env_key`), which is not set: set it for the \
                         factory and add it to `environment.pass` of the engine"
                    ),
                },
            });
        }
        if LOGIN.is_in(&self.environment) || self.homes.has_credential(&LOGIN)? {
            return Ok(LoginState::SignedIn);
        }
        let has_settings = self.config.args.iter().any(|arg| arg.contains("model_provider"));
        // Another provider has a key of its own, or needs none.
        Ok(match has_settings || settings::name_a_provider(&settings) {
            true => LoginState::Unknown,
            false => LoginState::SignedOut { why: "sign in with `codex login`, or set CODEX_API_KEY".to_owned() },
        })
    }

    /// Its own sandbox needs mounts, which the factory's sandbox prevents. The factory's sandbox allows no more than
    /// Codex's default one.
    fn sandbox(&self) -> &str {
        match self.config.sandbox.as_deref().unwrap_or(USUAL_SANDBOX) {
            USUAL_SANDBOX if self.bench.launcher.is_enclosed() => NO_SANDBOX,
            sandbox => sandbox,
        }
    }

    /// Its settings about the web. Its own sandbox blocks the network for commands by default.
    fn web(&self) -> &'static [&'static str] {
        match self.config.web {
            true => &["web_search=\"live\"", "sandbox_workspace_write.network_access=true"],
            false => &["web_search=\"disabled\""],
        }
    }

    fn model<'a>(&'a self, request: &'a EngineRequest) -> Option<&'a String> {
        request.model.as_ref().or(self.config.model.as_ref())
    }

    fn threads(&self, job: JobId) -> Threads {
        Threads::of(&self.bench.sessions.join(self.name.as_str()), job)
    }

    fn arguments(&self, request: &EngineRequest, resumed: Option<&str>) -> Vec<OsString> {
        let mut args: Vec<OsString> = ["exec", "--json", "-C"].map(OsString::from).to_vec();
        args.push(request.worktree.clone().into());
        args.extend(["-s", self.sandbox(), "--skip-git-repo-check"].map(OsString::from));
        args.extend(self.web().iter().flat_map(|setting| ["-c", setting]).map(OsString::from));
        if let Some(model) = self.model(request) {
            args.push(format!("--model={}", one_line(model)).into());
        }
        let tools = request.tools.iter().flat_map(tool_settings);
        args.extend(tools.flat_map(|setting| ["-c".to_owned(), setting]).map(OsString::from));
        args.extend(self.config.args.iter().map(OsString::from));
        if let Some(thread) = resumed {
            args.extend(["resume", thread].map(OsString::from));
        }
        args.push("-".into());
        args
    }
}

/// The run's own tools as settings.
fn tool_settings(tools: &ToolServer) -> Vec<String> {
    let server = |key: &str, value: Value| format!("mcp_servers.{}.{key}={value}", ToolServer::NAME);
    vec![
        server("command", tools.program.clone().into()),
        server("args", tools.args.clone().into()),
        server("tool_timeout_sec", Value::Integer(TOOL_TIMEOUT_S)),
        // No person is there to approve a call, and the factory checks each.
        server("default_tools_approval_mode", "approve".into()),
    ]
}

#[async_trait]
impl Engine for CodexEngine {
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
            // `codex-cli 0.166.0`
            Ok(answer) => Presence::Ready {
                version: answer.split_whitespace().last().map(domain::escape_for_terminal),
                login: self.login(),
            },
            Err(why) => Presence::Missing { why },
        }
    }

    fn left_behind(&self, job: JobId, thread: &str) -> Option<RunInsights> {
        let rollout = Rollout::below(&self.homes.open(job).ok()?);
        let threads = self.threads(job);
        let total = rollout.tokens_of(thread)?;
        let own = Some(threads.own_share(thread, total)).filter(|own| *own != Tokens::default())?;
        threads.remember(thread, total);
        let model = rollout.model_of(thread).or_else(|| self.config.model.clone());
        let cost_usd = self.bench.prices.cost(model.as_deref(), own);
        Some(RunInsights {
            tokens_in: Some(own.input),
            tokens_out: Some(own.output),
            cost_usd,
            ..RunInsights::default()
        })
    }

    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError> {
        let folder = self.homes.open(request.job).map_err(EngineError::Disk)?;
        let resumed = request.session.as_deref().filter(|thread| threads::is_here(&folder, thread));
        let memory = if resumed.is_some() { Memory::Resumed } else { Memory::New };
        self.homes.hand_over(&folder, self.bench.launcher.account()).map_err(EngineError::Disk)?;
        let credential = self.homes.copy_in(&folder, &LOGIN, &self.bench.clock).map_err(EngineError::Disk)?;
        let mut argv = vec![OsString::from(self.program())];
        argv.extend(self.arguments(request, resumed));
        let rollout = Rollout::below(&folder).resuming(resumed);
        let run = RunKey { job: request.job, epoch: request.epoch };
        let environment = self.environment.clone().of_run(run, request.attempt).with(LOGIN.folder_variable, folder);
        let program = Program {
            argv,
            dir: request.worktree.clone(),
            environment,
            stdin: request.prompt_with(memory).into_bytes(),
        };
        let threads = self.threads(request.job);
        let (model, prices) = (self.model(request).cloned(), self.bench.prices.clone());
        let mut session = CodexSession::new(model, prices, threads, rollout, self.bench.clock.clone());
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

    // [B11]
    #[test]
    fn the_tools_of_a_run_are_settings() {
        let tools = ToolServer { program: "/opt/giga".to_owned(), args: vec!["mcp".to_owned(), "a \"b\"".to_owned()] };

        let settings: toml::Table = tool_settings(&tools).join("\n").parse().unwrap();

        let server = &settings["mcp_servers"]["giga"];
        assert_eq!(server["command"].as_str(), Some("/opt/giga"));
        assert_eq!(server["args"], Value::from(vec!["mcp", "a \"b\""]));
    }

    #[test]
    fn a_thread_that_is_on_this_host_is_resumed_and_another_is_not() {
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
        let config = EngineConfig { model: Some("gpt-5".to_owned()), ..EngineConfig::default() };
        let engine = CodexEngine::new("codex".parse().unwrap(), &config, Environment::default(), &bench);
        let mut request = EngineRequest {
            job: "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap(),
            epoch: Epoch(4),
            attempt: 1,
            title: "x".to_owned(),
            prompt: Prompt::of_task("do it"),
            model: None,
            session: Some("t-1".to_owned()),
            worktree: "/w".into(),
            allowance: Allowance::default(),
            tools: None,
        };
        let threads = folder.path().join("codex").join(request.job.to_string()).join("sessions/2026/11/16");
        std::fs::create_dir_all(&threads).unwrap();
        std::fs::write(threads.join("rollout-2026-11-16T02-42-10-t-1.jsonl"), "").unwrap();

        let (resumed, _) = engine.command(&request).unwrap();
        request.session = Some("t-2".to_owned());
        let (new, _) = engine.command(&request).unwrap();

        let expected = [
            "codex",
            "exec",
            "--json",
            "-C",
            "/w",
            "-s",
            "workspace-write",
            "--skip-git-repo-check",
            "-c",
            "web_search=\"disabled\"",
            "--model=gpt-5",
            "resume",
            "t-1",
            "-",
        ];
        assert_eq!(resumed.argv, expected.map(OsString::from));
        assert!(!new.argv.contains(&OsString::from("resume")));
        assert_eq!(resumed.stdin, request.prompt_with(Memory::Resumed).into_bytes());
        assert_eq!(new.stdin, request.prompt_with(Memory::New).into_bytes());
    }
}
