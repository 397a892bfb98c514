//! Errors with their causes.

use std::error::Error;

/// An error with all its causes in one line. A cause that the text already contains is not repeated.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let more = deeper.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = deeper.source();
    }
    text
}
