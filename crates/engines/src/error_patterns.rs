//! Error messages of engines whose stream has no field for the error.

/// Whether a text reports an exhausted usage window. Only for the last output of a failed engine: an agent that writes
/// about limits does not report its own.
pub(super) fn says_usage_limit(text: &str) -> bool {
    const WORDS: [&str; 11] = [
        "usage limit",
        "usage_limit_reached",
        "usage_not_included",
        "resets_in_seconds",
        "quota exceeded",
        "exceeded your quota",
        "rate limit",
        "rate_limit",
        "429 too many requests",
        "out of credits",
        "out of acus",
    ];
    contains_any(text, &WORDS)
}

/// Whether a text reports that the account has no credit. Call before [`says_usage_limit`]: some of these phrases
/// mention a quota too.
pub(super) fn says_no_credit(text: &str) -> bool {
    const WORDS: [&str; 6] = [
        "credit balance is too low",
        "insufficient_quota",
        "exceeded your current quota",
        "check your plan and billing",
        "billing_hard_limit_reached",
        "out of credits",
    ];
    contains_any(text, &WORDS)
}

/// Whether a text reports that the provider does not know a model, or does not offer it to this credential.
pub(super) fn says_unknown_model(text: &str) -> bool {
    const WORDS: [&str; 5] = [
        "model_not_found",
        "issue with the selected model",
        "does not exist or you do not have access to it",
        "model is not supported when using",
        "model not found",
    ];
    contains_any(text, &WORDS)
}

/// Whether an engine's error reports that its provider is unavailable. Only for errors of an engine, and after all
/// other checks: many errors mention a closed connection.
pub(super) fn says_outage(text: &str) -> bool {
    const WORDS: [&str; 27] = [
        "500 internal server error",
        "502 bad gateway",
        "503 service unavailable",
        "504 gateway timeout",
        "status 529",
        "api error: 5",
        "overloaded",
        "at capacity",
        "experiencing high demand",
        "unable to connect",
        "connection refused",
        "connectionrefused",
        "connection reset",
        "connection closed",
        "connection error",
        "connection failed",
        "connection lost",
        "error sending request",
        "stream disconnected before completion",
        "waiting for network",
        "request timed out",
        "socket hang up",
        "fetch failed",
        "dns error",
        "enotfound",
        "econnre",
        "etimedout",
    ];
    contains_any(text, &WORDS)
}

/// Whether a text reports that the engine is not signed in, or that its credential was rejected.
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

    // [F2] [B1]
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
    fn an_account_without_credit_is_no_usage_window() {
        for text in [
            "Credit balance is too low",
            "Quota exceeded. Check your plan and billing details.",
            "You exceeded your current quota, please check your plan and billing details.",
            "Error: insufficient_quota",
        ] {
            assert!(says_no_credit(text) && !says_outage(text), "{text}");
        }
        for text in ["You've hit your usage limit. Try again at 4:42 AM.", "Your organization is out of ACUs."] {
            assert!(!says_no_credit(text), "{text}");
        }
    }

    #[test]
    fn an_outage_is_told_from_a_mistake_of_the_job() {
        for text in [
            "API Error: Unable to connect to API (ConnectionRefused)",
            "API Error: Connection refused \u{2014} a firewall or proxy may be blocking it",
            "unexpected status 503 Service Unavailable: The server is overloaded, url: http://127.0.0.1/v1/responses",
            "exceeded retry limit, last status: 500 Internal Server Error",
            "stream disconnected before completion: error sending request for url (http://127.0.0.1:9/v1/responses)",
            "Reconnecting... waiting for network (Connection failed: error sending request)",
        ] {
            assert!(says_outage(text) && !says_unknown_model(text) && !says_no_credit(text), "{text}");
        }
        for text in [
            "There's an issue with the selected model (x). It may not exist or you may not have access to it.",
            "unexpected status 404 Not Found: The model `x` does not exist or you do not have access to it., url: x",
            "{\"detail\":\"The 'x' model is not supported when using Codex with a ChatGPT account.\"}",
        ] {
            assert!(says_unknown_model(text) && !says_outage(text), "{text}");
        }
        assert!(!says_outage("unexpected status 400 Bad Request: prompt is too long"));
    }

    // [F2]
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
