//! The words in which every engine's stream is told. They are those of the Agent Client Protocol where it has any.

use domain::Timestamp;

/// Something that an engine's output says happened.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineEvent {
    /// It has a session that can be resumed.
    SessionStarted {
        /// The engine's own name for it.
        session: String,
    },
    /// The agent says something.
    Message {
        /// The text.
        text: String,
    },
    /// The agent uses a tool.
    ToolCall {
        /// Which one.
        tool: String,
        /// What on.
        target: Option<Target>,
    },
    /// A tool did not do what it was asked to.
    ToolFailed {
        /// What it said.
        text: String,
    },
    /// What the run has used up so far.
    Usage(Usage),
    /// How the credential's usage window stands.
    RateLimit(RateLimit),
    /// The agent needs a person.
    Question {
        /// What it asks.
        text: String,
    },
    /// The engine's closing word. The program should end now; one that does not is ended.
    Ended {
        /// In the engine's own words.
        why: String,
    },
    /// A line for people, as it came. It may hold anything, escape sequences included.
    Output {
        /// The line.
        text: String,
    },
}

/// What a tool is used on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file that is read or looked for.
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

/// What a run has used up so far. A figure that is not known is absent.
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

/// How a credential's usage window stands [B1].
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimit {
    /// Whether there is something left in it.
    pub state: WindowState,
    /// Which of the credential's windows: `five_hour`, `seven_day`, …
    pub window: Option<String>,
    /// When it opens again.
    pub resets_at: Option<Timestamp>,
    /// How much of it is used up, 0 to 1.
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
