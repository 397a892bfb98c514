//! The engine that runs any command line: the prompt on its standard input, its exit code as the verdict, and its
//! metrics by configured patterns.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{EngineName, FailureReason, RunInsights, RunKey};
use sandbox::{Environment, Line, Program, exit_words, find_program};

use super::descriptor::{EngineDescriptor, EngineMaker};
use super::output_metrics::OutputMetrics;
use super::stream::one_line;
use super::{
    Engine, EngineError, EngineEvent, EngineRequest, Exit, LoginState, Pending, Presence, Reply, RunVerdict, Session,
};
use crate::config::EngineConfig;
use crate::prompt::Memory;

/// Runs a configured command line for each job.
#[derive(Debug, Clone)]
pub struct CommandEngine {
    name: EngineName,
    argv: Vec<Vec<Piece>>,
    retryable: Option<Vec<i32>>,
    model: Option<String>,
    credential: Option<String>,
    billing: Option<domain::Billing>,
    figures: OutputMetrics,
    environment: Environment,
}

/// An invalid engine configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// There is no program.
    #[error("the command line of engine `{0}` is empty")]
    Empty(EngineName),
    /// An unknown placeholder.
    #[error("`{{{0}}}` is not a placeholder: known are job_id, epoch, worktree, title and model")]
    Unknown(String),
    /// An invalid regular expression.
    #[error("engine `{engine}` cannot read its figures: {why}")]
    Reads {
        /// The engine.
        engine: EngineName,
        /// What is wrong with it.
        why: String,
    },
}

/// Titles come from people; an argument must be short.
const TITLE_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    JobId,
    Epoch,
    Worktree,
    Title,
    Model,
}

/// Its entry in the table of engines.
pub(super) const DESCRIPTOR: EngineDescriptor = EngineDescriptor {
    name: "command",
    engine_names: &[],
    program: None,
    takes_argv: true,
    reports_turns: |config| config.reads.turns.is_some(),
    has_web_tools: false,
    prices: &[],
    maker: EngineMaker::Configured(|name, config, environment, _| {
        Ok(Arc::new(CommandEngine::new(name, config, environment)?))
    }),
};

impl CommandEngine {
    /// The engine `name`, whose programs get `environment` and the names of their run.
    pub fn new(name: EngineName, config: &EngineConfig, environment: Environment) -> Result<Self, TemplateError> {
        let argv = config.argv.iter().map(|arg| parse(arg)).collect::<Result<Vec<_>, _>>()?;
        if argv.is_empty() {
            return Err(TemplateError::Empty(name));
        }
        let figures =
            OutputMetrics::new(&config.reads).map_err(|why| TemplateError::Reads { engine: name.clone(), why })?;
        let (retryable, model) = (config.retryable_exit_codes.clone(), config.model.clone());
        Ok(Self {
            name,
            argv,
            retryable,
            model,
            credential: config.credential.clone(),
            billing: config.billing,
            figures,
            environment,
        })
    }
}

#[async_trait]
impl Engine for CommandEngine {
    fn name(&self) -> &EngineName {
        &self.name
    }

    fn credential(&self) -> Option<&str> {
        self.credential.as_deref()
    }

    fn billing(&self) -> Option<domain::Billing> {
        self.billing
    }

    async fn detect(&self) -> Presence {
        let Some([Piece::Text(program)]) = self.argv.first().map(Vec::as_slice) else {
            return Presence::Ready { version: None, login: LoginState::Unknown };
        };
        match find_program(program, self.environment.variable("PATH")) {
            Some(_) => Presence::Ready { version: None, login: LoginState::Unknown },
            None => {
                Presence::Missing { why: format!("there is no program `{}`", domain::escape_for_terminal(program)) }
            }
        }
    }

    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError> {
        let model = plain(request.model.as_deref().or(self.model.as_deref()).unwrap_or_default());
        let title = plain(&request.title);
        let fill = |piece: &Piece| -> OsString {
            match piece {
                Piece::Text(text) => text.into(),
                Piece::JobId => request.job.to_string().into(),
                Piece::Epoch => request.epoch.to_string().into(),
                Piece::Worktree => request.worktree.clone().into(),
                Piece::Title => title.clone().into(),
                Piece::Model => model.clone().into(),
            }
        };
        let run = RunKey { job: request.job, epoch: request.epoch };
        let program = Program {
            argv: self.argv.iter().map(|pieces| pieces.iter().map(fill).collect()).collect(),
            dir: request.worktree.clone(),
            environment: self.environment.clone().of_run(run, request.attempt),
            stdin: request.prompt_with(Memory::New).into_bytes(),
        };
        let session = CommandSession {
            retryable: self.retryable.clone(),
            figures: self.figures.clone(),
            insights: RunInsights::default(),
            last_output: VecDeque::new(),
        };
        Ok((program, Box::new(session)))
    }
}

/// Lines that are kept for a failure message, which quotes the non-empty ones.
const LAST_LINES_MAX: usize = 16;

struct CommandSession {
    retryable: Option<Vec<i32>>,
    figures: OutputMetrics,
    insights: RunInsights,
    /// Its last non-empty lines.
    last_output: VecDeque<String>,
}

impl Session for CommandSession {
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent> {
        if !line.text.trim().is_empty() {
            if self.last_output.len() == LAST_LINES_MAX {
                self.last_output.pop_front();
            }
            self.last_output.push_back(domain::escape_for_terminal(&one_line(&line.text)));
        }
        let mut events = vec![EngineEvent::Output { text: line.text.clone() }];
        if let Some(usage) = self.figures.read(&line.text, &mut self.insights) {
            events.push(EngineEvent::Usage(usage));
        }
        events
    }

    fn reply(&mut self) -> Reply {
        Reply::HangUp
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll_files(&mut self) {}

    fn settle(&mut self) {}

    fn judge(&mut self, exit: Exit) -> RunVerdict {
        match exit {
            Exit::Code(0) | Exit::Lingered => RunVerdict::EndedWell,
            Exit::Code(code) => {
                let message = match domain::last_lines(self.last_output.make_contiguous().join("\n").as_str()) {
                    last if last.is_empty() => exit_words(code),
                    last => format!("{}: {last}", exit_words(code)),
                };
                match &self.retryable {
                    // A list of retryable exit codes implies that all others are permanent.
                    Some(listed) if !listed.contains(&code) => RunVerdict::stays(FailureReason::EngineError, message),
                    _ => RunVerdict::may_pass(FailureReason::EngineError, message),
                }
            }
        }
    }

    fn insights(&self) -> RunInsights {
        self.insights.clone()
    }

    fn pending(&self) -> Pending {
        Pending::Answer
    }
}

/// Splits `--id={job_id}` into its pieces.
fn parse(arg: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = arg;
    while let Some((before, word, after)) = next_placeholder(rest) {
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        pieces.push(piece(word)?);
        rest = after;
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// The text before the first placeholder, its name, and the text after it. Braces around anything but a lower-case word
/// are text, as in JSON.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(open, _)| {
        let (word, after) = text[open + 1..].split_once('}')?;
        is_word(word).then_some((&text[..open], word, after))
    })
}

fn piece(word: &str) -> Result<Piece, TemplateError> {
    Ok(match word {
        "job_id" => Piece::JobId,
        "epoch" => Piece::Epoch,
        "worktree" => Piece::Worktree,
        "title" => Piece::Title,
        "model" => Piece::Model,
        unknown => return Err(TemplateError::Unknown(domain::escape_for_terminal(unknown))),
    })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Text of a job as an argument: one line, and never an option.
fn plain(text: &str) -> String {
    let text = text.trim_start_matches(|c: char| c == '-' || c.is_whitespace() || !domain::is_terminal_safe(c));
    text.chars().take(TITLE_CHARS_MAX).map(|c| if domain::is_terminal_safe(c) { c } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use domain::Epoch;

    use super::*;
    use crate::Allowance;
    use crate::prompt::Prompt;

    fn engine(argv: &[&str]) -> CommandEngine {
        let argv: Vec<String> = argv.iter().map(|arg| (*arg).to_owned()).collect();
        let config: EngineConfig =
            serde_json::from_value(serde_json::json!({"argv": argv, "retryable_exit_codes": [75]})).unwrap();
        CommandEngine::new(EngineName::command(), &config, Environment::default()).unwrap()
    }

    fn request(title: &str) -> EngineRequest {
        EngineRequest {
            job: "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap(),
            epoch: Epoch(4),
            attempt: 2,
            title: title.to_owned(),
            prompt: Prompt::of_task("do it"),
            model: None,
            session: None,
            worktree: "/w".into(),
            allowance: Allowance::default(),
            tools: None,
        }
    }

    // [F2]
    #[test]
    fn placeholders_are_replaced_inside_single_arguments() {
        let engine = engine(&["tool", "--run={job_id}/{epoch}", "{worktree}", "{\"a\": 1}", "{title}"]);

        let (program, _) = engine.command(&request("fix; rm -rf {epoch}")).unwrap();

        let expected =
            ["tool", "--run=0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a/4", "/w", "{\"a\": 1}", "fix; rm -rf {epoch}"];
        assert_eq!(program.argv, expected.map(OsString::from));
        assert_eq!(program.stdin, request("x").prompt_with(Memory::New).into_bytes());
    }

    // [attack: hostile names]
    #[test]
    fn a_title_is_never_an_option() {
        let (program, _) = engine(&["tool", "{title}"]).command(&request("\u{1b} --yolo\n-x\0")).unwrap();

        assert_eq!(program.argv[1], OsString::from("yolo -x "));
    }

    #[test]
    fn an_unknown_placeholder_is_found_before_any_job_is() {
        assert_eq!(parse("{titel}"), Err(TemplateError::Unknown("titel".to_owned())));
    }

    #[test]
    fn exit_codes_are_judged() {
        let judged = |code| {
            let (_, mut session) = engine(&["tool"]).command(&request("x")).unwrap();
            session.translate(&Line { source: sandbox::Source::Err, text: "no luck".to_owned() });
            session.judge(Exit::Code(code))
        };
        let reason = FailureReason::EngineError;

        assert_eq!(judged(0), RunVerdict::EndedWell);
        assert_eq!(judged(75), RunVerdict::may_pass(reason, "exit code 75: no luck".to_owned()));
        assert_eq!(judged(1), RunVerdict::stays(reason, "exit code 1: no luck".to_owned()));
    }

    // [F2]
    #[test]
    fn without_a_list_every_exit_code_is_worth_another_attempt() {
        let config = EngineConfig { argv: vec!["tool".to_owned()], ..EngineConfig::default() };
        let engine = CommandEngine::new(EngineName::command(), &config, Environment::default()).unwrap();
        let (_, mut session) = engine.command(&request("x")).unwrap();

        let judged = session.judge(Exit::Code(1));

        assert_eq!(judged, RunVerdict::may_pass(FailureReason::EngineError, "exit code 1".to_owned()));
    }
}
