//! The words in which every engine's stream is told.

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
    },
    /// What was used up since the last such event. A figure that is not known is absent.
    Usage {
        /// Tokens read.
        tokens_in: Option<u64>,
        /// Tokens written.
        tokens_out: Option<u64>,
        /// US dollars.
        cost_usd: Option<f64>,
    },
    /// The credential's usage window is near its end, or at it.
    RateLimit {
        /// When the window opens again.
        resets_at: Option<Timestamp>,
    },
    /// The agent needs a person.
    Question {
        /// What it asks.
        text: String,
    },
}
