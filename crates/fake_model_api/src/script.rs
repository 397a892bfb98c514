//! The script: what the model answers, turn by turn.

use serde_json::Value;

/// The name that a factory gives to the MCP server of a run.
pub(crate) const MCP_SERVER: &str = "giga";

/// One response of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub(crate) act: Act,
    pub(crate) usage: Usage,
}

/// The token usage that a response reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub tokens_in: u64,
    /// Input tokens read from the cache.
    pub tokens_cached: u64,
    /// Output tokens.
    pub tokens_out: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    Write { path: String, content: String },
    Run { command: String },
    Call { tool: String, input: Value },
    Say { text: String },
    Fail { status: u16, kind: &'static str, message: &'static str },
    UsageLimit { resets_at_s: i64 },
}

impl Turn {
    /// Writes a file with the tool that the program offers for it.
    pub fn write(path: &str, content: &str) -> Self {
        Self::of(Act::Write { path: path.to_owned(), content: content.to_owned() })
    }

    /// Runs a command in a shell.
    pub fn run(command: &str) -> Self {
        Self::of(Act::Run { command: command.to_owned() })
    }

    /// Calls a tool of the run's own MCP server.
    pub fn call(tool: &str, input: Value) -> Self {
        Self::of(Act::Call { tool: tool.to_owned(), input })
    }

    /// Returns text, which ends the agent's turn.
    pub fn text(text: &str) -> Self {
        Self::of(Act::Say { text: text.to_owned() })
    }

    /// Fails with an internal server error.
    pub fn server_error() -> Self {
        Self::of(Act::Fail { status: 500, kind: "api_error", message: "Internal server error" })
    }

    /// Fails with an overloaded error.
    pub fn overloaded() -> Self {
        Self::of(Act::Fail { status: 529, kind: "overloaded_error", message: "Overloaded" })
    }

    /// Rejects the API key.
    pub fn bad_key() -> Self {
        Self::of(Act::Fail { status: 401, kind: "authentication_error", message: "invalid x-api-key" })
    }

    /// Rejects the request: the account's usage limit is exhausted until this Unix time in seconds.
    pub fn usage_limit(resets_at_s: i64) -> Self {
        Self::of(Act::UsageLimit { resets_at_s })
    }

    /// Returns the turn with another reported usage.
    #[must_use]
    pub fn using(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    fn of(act: Act) -> Self {
        Self { act, usage: Usage { tokens_in: 100, tokens_cached: 0, tokens_out: 20 } }
    }
}
