//! A conversation beside which a login is carried to and fro.

use domain::RunInsights;
use sandbox::Line;
use serde_json::Value;

use super::carrying::Carried;
use crate::engine::{EngineEvent, Exit, Pending, Reply, RunVerdict, Session};

impl Carried {
    /// The same conversation, with both sides looked at whenever the engine says something.
    pub(crate) fn follow(carried: Option<Self>, session: Box<dyn Session>) -> Box<dyn Session> {
        match carried {
            Some(carried) => Box::new(Carrying { carried, session }),
            None => session,
        }
    }
}

struct Carrying {
    carried: Carried,
    session: Box<dyn Session>,
}

impl Session for Carrying {
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent> {
        if tells_refusal(&line.text) {
            self.carried.was_refused();
        }
        self.session.translate(line)
    }

    fn look(&mut self) {
        self.carried.look();
        self.session.look();
    }

    fn reply(&mut self) -> Reply {
        self.session.reply()
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        self.session.farewell()
    }

    fn settle(&mut self) {
        self.carried.settle();
        self.session.settle();
    }

    fn judge(&mut self, exit: Exit) -> RunVerdict {
        self.session.judge(exit)
    }

    fn insights(&self) -> RunInsights {
        self.session.insights()
    }

    fn pending(&self) -> Pending {
        self.session.pending()
    }
}

/// Whether an engine says by itself that its service did not take the login: Claude Code when it tries again, codex as an
/// error. What an agent or a tool says is in lines of other types.
fn tells_refusal(line: &str) -> bool {
    if !line.contains("401") {
        return false;
    }
    let said: Value = serde_json::from_str(line).unwrap_or_default();
    match (said["type"].as_str(), said["subtype"].as_str()) {
        (Some("system"), Some("api_retry")) => said["error_status"] == 401,
        (Some("error"), _) => said["message"].as_str().is_some_and(|message| message.contains("401 Unauthorized")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_what_the_engine_says_of_itself() {
        for line in [
            r#"{"type":"system","subtype":"api_retry","error_status":401,"error":"authentication_failed"}"#,
            r#"{"type":"error","message":"unexpected status 401 Unauthorized: token expired"}"#,
        ] {
            assert!(tells_refusal(line), "{line}");
        }
        for line in [
            r#"{"type":"system","subtype":"api_retry","error_status":529,"retry_delay_ms":401}"#,
            r#"{"type":"assistant","message":{"content":"401 Unauthorized"}}"#,
            "401 Unauthorized",
        ] {
            assert!(!tells_refusal(line), "{line}");
        }
    }
}
