//! The events of every engine's stream. Their names are those of the Agent Client Protocol where it has any.

use domain::Timestamp;

/// An event in an engine's output.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineEvent {
    /// It has a session that can be resumed.
    SessionStarted {
        /// The engine's own name for it.
        session: String,
    },
    /// A message of the agent.
    Message {
        /// The text.
        text: String,
    },
    /// The agent uses a tool.
    ToolCall {
        /// Which one.
        tool: String,
        /// The tool's target.
        target: Option<Target>,
    },
    /// A tool call failed.
    ToolFailed {
        /// Its output.
        text: String,
    },
    /// The usage of the run so far.
    Usage(Usage),
    /// The state of the credential's usage window.
    RateLimit(RateLimit),
    /// The agent needs a person.
    Question {
        /// What it asks.
        text: String,
    },
    /// The engine's result message. The program should end now; otherwise it is killed.
    Ended {
        /// The engine's own text.
        why: String,
    },
    /// A line for people, unchanged. It may hold anything, escape sequences included.
    Output {
        /// The line.
        text: String,
    },
}

/// A tool's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file that is read or searched.
    File(String),
    /// A file that is changed.
    Edit(String),
    /// A command line.
    Command(String),
    /// Something else: a query, an address.
    Other(String),
}

impl Target {
    /// The text, whatever it names.
    pub fn text(&self) -> &str {
        match self {
            Self::File(text) | Self::Edit(text) | Self::Command(text) | Self::Other(text) => text,
        }
    }
}

/// The usage of a run so far. An unknown metric is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Tokens read, those from a cache included.
    pub tokens_in: Option<u64>,
    /// Tokens written.
    pub tokens_out: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Turns of the conversation.
    pub turns: Option<u32>,
}

/// The state of a credential's usage window [B1].
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimit {
    /// Whether there is something left in it.
    pub state: WindowState,
    /// Which of the credential's windows: `five_hour`, `seven_day`, …
    pub window: Option<String>,
    /// When it resets.
    pub resets_at: Option<Timestamp>,
    /// How much of it is used, 0 to 1.
    pub utilisation: Option<f64>,
}

/// Whether a usage window has something left in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowState {
    /// It has.
    Open,
    /// Not much.
    Nearing,
    /// Nothing.
    UsedUp,
}
