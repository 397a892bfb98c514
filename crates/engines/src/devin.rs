//! Devin in its simple mode: `devin -p`, which prints its answer and ends.
//!
//! It reports neither its session nor its usage in the stream; both are in the trajectory that it exports after each
//! turn.

mod trajectory;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Clock, EngineName, FailureReason, RunInsights, RunKey};
use sandbox::{Environment, Line, Program, signal_name};

use super::descriptor::{EngineDescriptor, EngineMaker};
use super::error_patterns::{says_no_credit, says_signed_out, says_usage_limit};
use super::home::{EngineHomes, is_plain};
use super::registry::EngineContext;
use super::reset_time::reset_time;
use super::stream::{for_people, one_line};
use super::{
    Engine, EngineError, EngineEvent, EngineRequest, Exit, LoginState, Pending, Presence, Reply, RunVerdict, Session,
};
use crate::config::EngineConfig;
use crate::prompt::Memory;
use trajectory::Trajectory;

/// Runs `devin -p` for each job.
#[derive(Clone)]
pub struct DevinEngine {
    name: EngineName,
    config: EngineConfig,
    environment: Environment,
    homes: EngineHomes,
    bench: EngineContext,
}

/// The program, unless another is configured.
const PROGRAM: &str = "devin";

/// No person answers prompts; the sandbox restricts the agent, not its own permission mode.
const PERMISSION_MODE: &str = "dangerous";

/// Its entry in the table of engines. An engine called `devin` speaks the Agent Client Protocol unless this kind is
/// configured.
pub(super) const DESCRIPTOR: EngineDescriptor = EngineDescriptor {
    name: PROGRAM,
    engine_names: &[],
    program: Some(PROGRAM),
    takes_argv: false,
    reports_turns: |_| false,
    has_web_tools: false,
    prices: &[],
    maker: EngineMaker::Configured(|name, config, environment, bench| {
        Ok(Arc::new(DevinEngine::new(name, config, environment, bench)))
    }),
};

impl DevinEngine {
    /// The engine `name`, whose programs get `environment`.
    pub fn new(name: EngineName, config: &EngineConfig, environment: Environment, bench: &EngineContext) -> Self {
        let homes = EngineHomes::own(bench.sessions.join(name.as_str()));
        Self { name, config: config.clone(), environment, homes, bench: bench.clone() }
    }

    fn program(&self) -> &str {
        self.config.program.as_deref().unwrap_or(PROGRAM)
    }

    fn arguments(&self, request: &EngineRequest, papers: &ExchangeFiles, resumed: Option<&str>) -> Vec<OsString> {
        let mode = self.config.permission_mode.as_deref().unwrap_or(PERMISSION_MODE);
        let mut args: Vec<OsString> = ["-p", "--permission-mode", mode, "--prompt-file"].map(OsString::from).to_vec();
        args.push(papers.prompt.clone().into());
        args.push("--export".into());
        args.push(papers.export.clone().into());
        if let Some(model) = request.model.as_ref().or(self.config.model.as_ref()) {
            args.push(format!("--model={}", one_line(model)).into());
        }
        if let Some(session) = resumed {
            args.push(format!("--resume={session}").into());
        }
        args.extend(self.config.args.iter().map(OsString::from));
        args
    }
}

#[async_trait]
impl Engine for DevinEngine {
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
            Ok(answer) => Presence::Ready {
                version: answer.split_whitespace().last().map(domain::escape_for_terminal),
                login: LoginState::Unknown,
            },
            Err(why) => Presence::Missing { why },
        }
    }

    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError> {
        let resumed = request.session.as_deref().filter(|session| is_plain(session));
        let memory = if resumed.is_some() { Memory::Resumed } else { Memory::New };
        let folder = self.homes.open(request.job).map_err(EngineError::Disk)?;
        let papers = ExchangeFiles::lay_out(&folder, &request.prompt_with(memory)).map_err(EngineError::Disk)?;
        self.homes.hand_over(&folder, self.bench.launcher.account()).map_err(EngineError::Disk)?;
        let mut argv = vec![OsString::from(self.program())];
        argv.extend(self.arguments(request, &papers, resumed));
        let run = RunKey { job: request.job, epoch: request.epoch };
        let program = Program {
            argv,
            dir: request.worktree.clone(),
            environment: self.environment.clone().of_run(run, request.attempt),
            stdin: Vec::new(),
        };
        Ok((program, Box::new(DevinSession::new(papers.export, memory, Arc::clone(&self.bench.clock)))))
    }
}

/// The files exchanged with the program, outside the worktree so that they are never committed.
struct ExchangeFiles {
    prompt: PathBuf,
    export: PathBuf,
}

impl ExchangeFiles {
    fn lay_out(folder: &Path, prompt: &str) -> io::Result<Self> {
        let papers = Self { prompt: folder.join("prompt.md"), export: folder.join("trajectory.json") };
        // Remove what an earlier run left: it would be mistaken for this one's, and a link would lead elsewhere.
        for left in [&papers.prompt, &papers.export] {
            match fs::remove_file(left) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::File::create_new(&papers.prompt)?.write_all(prompt.as_bytes())?;
        Ok(papers)
    }
}

struct DevinSession {
    export: PathBuf,
    memory: Memory,
    clock: Arc<dyn Clock>,
    trajectory: Trajectory,
    /// The size at which the trajectory is read again.
    read_again_at: u64,
    told: bool,
    last_words: String,
}

impl DevinSession {
    fn new(export: PathBuf, memory: Memory, clock: Arc<dyn Clock>) -> Self {
        let (trajectory, last_words) = (Trajectory::default(), String::new());
        Self { export, memory, clock, trajectory, read_again_at: 0, told: false, last_words }
    }

    fn session_started(&mut self) -> Option<EngineEvent> {
        if self.told {
            return None;
        }
        // It is rewritten after each turn, and has to be read whole: again only once it has doubled, so that reading
        // stays linear in its size.
        let length = fs::symlink_metadata(&self.export).map_or(0, |found| found.len());
        if length == 0 || length < self.read_again_at {
            return None;
        }
        self.read_again_at = length.saturating_mul(2);
        self.trajectory = Trajectory::read(&self.export);
        let session = self.trajectory.session.clone().filter(|session| is_plain(session))?;
        self.told = true;
        Some(EngineEvent::SessionStarted { session })
    }
}

impl Session for DevinSession {
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent> {
        if !line.text.trim().is_empty() {
            self.last_words = one_line(&line.text);
        }
        self.session_started().into_iter().chain(for_people(&line.text)).collect()
    }

    fn reply(&mut self) -> Reply {
        Reply::HangUp
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll_files(&mut self) {}

    fn settle(&mut self) {
        self.trajectory = Trajectory::read(&self.export);
    }

    fn judge(&mut self, exit: Exit) -> RunVerdict {
        match exit {
            Exit::Code(0) => RunVerdict::EndedWell,
            Exit::Code(code @ 129..=192) => RunVerdict::may_pass(
                FailureReason::Crash,
                format!("it was ended by {}; its last words: {}", signal_name(code - 128), self.last_words),
            ),
            // Its stream has no field for either: only its last text shows it.
            Exit::Code(_) if says_signed_out(&self.last_words) => {
                RunVerdict::SignedOut { message: self.last_words.clone() }
            }
            Exit::Code(_) if says_no_credit(&self.last_words) => {
                RunVerdict::CreditExhausted { message: self.last_words.clone() }
            }
            Exit::Code(_) if says_usage_limit(&self.last_words) => {
                let resets_at = reset_time(&self.last_words, self.clock.now());
                RunVerdict::QuotaWindow { window: None, resets_at, message: self.last_words.clone() }
            }
            Exit::Code(code) => {
                RunVerdict::may_pass(FailureReason::EngineError, format!("exit code {code}: {}", self.last_words))
            }
            Exit::Lingered => RunVerdict::may_pass(FailureReason::EngineError, "it was ended".to_owned()),
        }
    }

    fn insights(&self) -> RunInsights {
        match self.memory {
            Memory::New => self.trajectory.insights.clone(),
            // A session's totals include all its runs, and the export does not separate this run's share.
            Memory::Resumed => RunInsights::default(),
        }
    }

    fn pending(&self) -> Pending {
        Pending::Answer
    }
}

#[cfg(test)]
mod tests {
    use clock::SystemClock;

    use super::*;
    use sandbox::Source;

    fn session(export: &Path) -> DevinSession {
        DevinSession::new(export.to_owned(), Memory::New, Arc::new(SystemClock::new()))
    }

    fn said(text: &str) -> Line {
        Line { source: Source::Err, text: text.to_owned() }
    }

    // [F2] [B1]
    #[test]
    fn a_limit_or_a_missing_login_is_told_by_its_last_words_alone() {
        let judged = |words: &str, code| {
            let mut session = session(Path::new("/nowhere"));
            session.translate(&said(words));
            session.judge(Exit::Code(code))
        };

        let limit = "Error: you have reached your usage limit, resets_at 1794804129";
        let resets_at = Some("2026-11-16T04:42:09Z".parse().unwrap());
        assert_eq!(judged(limit, 1), RunVerdict::QuotaWindow { window: None, resets_at, message: limit.to_owned() });
        let login = "Not logged in: run `devin auth login`";
        assert_eq!(judged(login, 1), RunVerdict::SignedOut { message: login.to_owned() });
        assert_eq!(judged("I raised the rate limit of the server.", 0), RunVerdict::EndedWell);
    }

    #[test]
    fn a_trajectory_without_a_session_is_not_read_for_every_line() {
        let folder = tempfile::tempdir().unwrap();
        let export = folder.path().join("trajectory.json");
        let steps = vec![r#"{"source":"agent"}"#; 20_000].join(",");
        fs::write(&export, format!(r#"{{"steps":[{steps}]}}"#)).unwrap();
        let length = fs::metadata(&export).unwrap().len();
        let mut session = session(&export);

        for _ in 0..20_000 {
            session.translate(&said("line"));
        }

        assert_eq!(session.read_again_at, 2 * length, "one look is enough until there is twice as much");
        fs::write(&export, format!(r#"{{"session_id":"quiet-harbour","steps":[{steps},{steps}]}}"#)).unwrap();
        let started = EngineEvent::SessionStarted { session: "quiet-harbour".to_owned() };
        assert_eq!(session.translate(&said("line"))[0], started);
    }

    #[test]
    fn the_prompt_and_the_trajectory_stay_out_of_the_worktree_and_of_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("trajectory.json"), r#"{"session_id":"old"}"#).unwrap();
        fs::write(folder.path().join("precious"), "canary").unwrap();
        std::os::unix::fs::symlink(folder.path().join("precious"), folder.path().join("prompt.md")).unwrap();

        let papers = ExchangeFiles::lay_out(folder.path(), "do it").unwrap();

        assert_eq!(fs::read_to_string(&papers.prompt).unwrap(), "do it");
        assert_eq!(fs::read_to_string(folder.path().join("precious")).unwrap(), "canary");
        assert_eq!(Trajectory::read(&papers.export), Trajectory::default());
    }

    #[test]
    fn a_session_is_told_once_and_figures_are_those_of_a_session_that_began_with_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let export = folder.path().join("trajectory.json");
        let text = include_str!("../tests/golden/devin/trajectory.json");
        let line = Line { source: Source::Out, text: "All done.".to_owned() };
        let play = |memory| {
            let mut session = DevinSession::new(export.clone(), memory, Arc::new(SystemClock::new()));
            let mut events = session.translate(&line);
            fs::write(&export, text).unwrap();
            events.extend(session.translate(&line));
            events.extend(session.translate(&line));
            session.settle();
            let judged = session.judge(Exit::Code(0));
            fs::remove_file(&export).unwrap();
            (events, judged, session.insights())
        };

        let (events, judged, insights) = play(Memory::New);

        let said = EngineEvent::Output { text: "All done.".to_owned() };
        let started = EngineEvent::SessionStarted { session: "quiet-harbour".to_owned() };
        assert_eq!(events, [said.clone(), started, said.clone(), said]);
        assert_eq!(judged, RunVerdict::EndedWell);
        let expected =
            RunInsights { tokens_in: Some(1200), tokens_out: Some(80), turns: Some(2), ..RunInsights::default() };
        assert_eq!(insights, expected, "a cost of nothing is a cost that is not known");
        assert_eq!(play(Memory::Resumed).2, RunInsights::default());
    }
}
