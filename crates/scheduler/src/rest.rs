//! Why an engine of a factory gets no work for now.

use domain::UsageWindow;

/// Why an engine of a factory gets no work for now. The order puts what passes by itself soonest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rest {
    /// The usage window of its login is used up [B1].
    Window(UsageWindow),
    /// It is not signed in, or cannot be used for another reason [B9].
    Unusable {
        /// Which, in words.
        problem: String,
    },
}
