//! The files by which an agent leaves something for the factory.

/// The file in which an agent may leave the pull request's text. It is never committed.
pub const PR_BODY_FILE: &str = ".aq_pr.md";

/// The file in which an agent may leave a question to a person. It is never committed.
pub const QUESTION_FILE: &str = ".aq_question.md";
