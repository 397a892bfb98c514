//! Why a command did not work: what happened, what to do about it, and the exit code for programs.

use std::fmt;
use std::process::ExitCode;

use client::ClientError;
use protocol::Problem;
use serde::Serialize;
use serde_json::Value;

/// Why a command did not work.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
    problem: Option<Box<Problem>>,
}

/// The documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The reader closed our output (broken pipe).
    HungUp,
    /// The operation failed.
    Failed,
    /// The command line or the configuration is wrong.
    Usage,
    /// The coordinator refused.
    Refused,
    /// The coordinator cannot be reached, or cannot answer now.
    Unreachable,
    /// Not found.
    NotFound,
    /// Unauthenticated or forbidden.
    Unauthorized,
    /// Time ran out.
    TimedOut,
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Self::HungUp => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unreachable => 4,
            Self::NotFound => 5,
            Self::Unauthorized => 6,
            Self::TimedOut => 124,
        }
    }

    /// The stable name in JSON, where the coordinator gave none.
    fn name(self) -> &'static str {
        match self {
            Self::HungUp => "hung_up",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::NotFound => "not_found",
            Self::Unauthorized => "unauthorized",
            Self::TimedOut => "timed_out",
        }
    }
}

/// A failure as one line of JSON: a problem as the coordinator gives them, with the exit code and the hint.
#[derive(Debug, Serialize)]
pub(crate) struct FailureView<'f> {
    #[serde(rename = "type")]
    kind: String,
    title: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    detail: &'f str,
    code: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<&'f Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'f str>,
    exit: u8,
}

impl Failure {
    /// A failure with an exit code.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, problem: None }
    }

    /// The operation failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// The command line or the configuration is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Not found.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, message)
    }

    /// Unauthenticated or forbidden.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(Exit::Unauthorized, message)
    }

    /// The same, with what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, with what to do about it where the coordinator refused for this reason.
    #[must_use]
    pub(crate) fn hint_at(self, code: &str, hint: impl FnOnce() -> String) -> Self {
        match self.problem.as_ref().is_some_and(|problem| problem.code == code) {
            true => self.hint(hint()),
            false => self,
        }
    }

    /// The same, with what programs can make of it.
    #[must_use]
    pub(crate) fn problem(mut self, code: &str, more: Value) -> Self {
        let kind = format!("urn:gigafactory:problem:{code}");
        let (title, detail) = (code.replace('_', " "), self.message.clone());
        self.problem = Some(Box::new(Problem { kind, title, status: 0, detail, code: code.to_owned(), more }));
        self
    }

    /// The exit code, for those who treat failures differently.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// The same with its message and hint made into others.
    pub(crate) fn with_texts(&self, change: impl Fn(&str) -> String) -> Self {
        let (exit, problem) = (self.exit, self.problem.clone());
        Self { exit, message: change(&self.message), hint: self.hint.as_deref().map(change), problem }
    }

    /// What happened.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Whether the output was closed, so that there is no reader left.
    pub(crate) fn is_hung_up(&self) -> bool {
        self.exit == Exit::HungUp
    }

    /// What programs see of it.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit.code())
    }

    /// The failure for programs.
    pub(crate) fn view(&self) -> FailureView<'_> {
        let problem = self.problem.as_deref();
        let code = problem.map_or(self.exit.name(), |problem| &problem.code);
        FailureView {
            kind: format!("urn:gigafactory:problem:{code}"),
            title: problem.map_or(code, |problem| &problem.title),
            status: problem.map(|problem| problem.status).filter(|status| *status > 0),
            detail: &self.message,
            code,
            more: problem.map(|problem| &problem.more).filter(|more| !more.is_null()),
            hint: self.hint_text(),
            exit: self.exit.code(),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Refused(problem) => refused(problem),
            ClientError::NoAnswer { .. } => Self::new(Exit::Unreachable, message)
                .hint("is a coordinator running? start one with `giga up`, or set its address with --api"),
            ClientError::Tls { remedy, .. } => Self::new(Exit::Unreachable, message).hint(remedy),
            ClientError::Unproven { .. } => Self::new(Exit::Unreachable, message)
                .hint("another program may be listening there: check the address and the token with `giga doctor`"),
            ClientError::Garbled { .. } => Self::new(Exit::Unreachable, message)
                .hint("something else may be listening there: check the address with `giga doctor`"),
            ClientError::Unusable(_) => Self::usage(message),
        }
    }
}

fn refused(problem: Box<Problem>) -> Failure {
    let exit = match problem.status {
        401 | 403 => Exit::Unauthorized,
        404 => Exit::NotFound,
        429 | 500.. => Exit::Unreachable,
        _ if problem.code == "bad_manifest" => Exit::Failed,
        _ => Exit::Refused,
    };
    let hint = match (exit, problem.code.as_str()) {
        (Exit::Unauthorized, "unauthenticated") => Some("`giga doctor` shows which token is used and where it is from"),
        (Exit::Unauthorized, "forbidden") => Some("ask an admin for a token: `giga token create --role …`"),
        (Exit::Unreachable, _) => Some("the coordinator is running but unavailable: try again later"),
        (_, "no_such_job") => Some("`giga jobs` lists the jobs that your token can see"),
        (_, "no_such_factory") => Some("`giga factory list` lists them"),
        (_, "no_such_run") => Some("`giga runs` lists the runs of a job"),
        (_, "no_such_token") => Some("`giga token list` shows the ids"),
        (_, "unknown_product") => Some("`giga product list` lists them, `giga product set NAME` makes one"),
        (_, "illegal_transition") => Some("`giga job` shows the stage of a job, and what can be done with it there"),
        _ => None,
    };
    let message = problem.to_string();
    Failure { exit, message, hint: hint.map(str::to_owned), problem: Some(problem) }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let exit = if error.kind() == std::io::ErrorKind::BrokenPipe { Exit::HungUp } else { Exit::Failed };
        Self::new(exit, error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast() {
            Ok(failure) => failure,
            Err(error) => Self::failed(format!("{error:#}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_of(status: u16, code: &str) -> Exit {
        let problem = Problem {
            kind: format!("urn:gigafactory:problem:{code}"),
            title: code.to_owned(),
            status,
            detail: "no".to_owned(),
            code: code.to_owned(),
            more: Value::Null,
        };
        Failure::from(ClientError::Refused(Box::new(problem))).exit
    }

    // [U3]
    #[test]
    fn every_refusal_has_its_documented_exit() {
        assert_eq!(exit_of(409, "illegal_transition"), Exit::Refused);
        assert_eq!(exit_of(422, "unknown_product"), Exit::Refused);
        assert_eq!(exit_of(422, "bad_manifest"), Exit::Failed);
        assert_eq!(exit_of(404, "no_such_job"), Exit::NotFound);
        assert_eq!(exit_of(401, "unauthenticated"), Exit::Unauthorized);
        assert_eq!(exit_of(403, "forbidden"), Exit::Unauthorized);
        assert_eq!(exit_of(503, "unavailable"), Exit::Unreachable);
        assert_eq!(exit_of(429, "rate_limited"), Exit::Unreachable);
    }

    #[test]
    fn a_failure_reads_as_a_problem() {
        let failure = Failure::not_found("no job `x`").hint("look again");

        let expected = serde_json::json!({
            "type": "urn:gigafactory:problem:not_found", "title": "not_found", "detail": "no job `x`",
            "code": "not_found", "hint": "look again", "exit": 5,
        });
        assert_eq!(serde_json::to_value(failure.view()).unwrap(), expected);
    }
}
