//! What engines say in words where their stream has no field for it.

/// Whether a text speaks of a usage window that is used up. For the last words of an engine that failed: an agent that
/// talks about limits says nothing about its own.
pub(super) fn says_usage_limit(text: &str) -> bool {
    const WORDS: [&str; 13] = [
        "usage limit",
        "usage_limit_reached",
        "usage_not_included",
        "resets_in_seconds",
        "insufficient_quota",
        "quota exceeded",
        "exceeded your current quota",
        "exceeded your quota",
        "rate limit",
        "rate_limit",
        "429 too many requests",
        "out of credits",
        "out of acus",
    ];
    contains_any(text, &WORDS)
}

/// Whether a text says that nobody is signed in, or that the login is no longer taken.
pub(super) fn says_signed_out(text: &str) -> bool {
    const WORDS: [&str; 10] = [
        "401 unauthorized",
        "status: 401",
        "not logged in",
        "not signed in",
        "please log in",
        "sign in again",
        "codex login",
        "devin auth login",
        "run /login",
        "oauth token",
    ];
    contains_any(text, &WORDS)
}

fn contains_any(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_no_failure_and_a_failure_is_no_limit() {
        for text in [
            "exceeded retry limit, last status: 429 Too Many Requests, request id: req_1",
            "You've hit your usage limit. Try again at 4:42 AM.",
            "Error: rate limit exceeded, try again in 20s",
            "Your organization is out of ACUs.",
        ] {
            assert!(says_usage_limit(text) && !says_signed_out(text), "{text}");
        }
        for text in ["exceeded retry limit, last status: 500 Internal Server Error", "the limit `turns_max` is 3", ""] {
            assert!(!says_usage_limit(text), "{text}");
        }
    }

    #[test]
    fn a_login_that_is_not_taken_is_recognised() {
        for text in [
            "unexpected status 401 Unauthorized: Incorrect API key provided",
            "exceeded retry limit, last status: 401 Unauthorized",
            "Not logged in. Run `codex login`.",
            "Your access token could not be refreshed. Please log out and sign in again.",
            "Error: run `devin auth login` first",
        ] {
            assert!(says_signed_out(text) && !says_usage_limit(text), "{text}");
        }
        assert!(!says_signed_out("unexpected status 403 Forbidden: no access to this model"));
    }
}
