//! Whether agents of Claude Code have a credential, as far as that can be detected.
//!
//! An agent has its own configuration directory, and that decides: a keychain keeps a credential for each such
//! directory, so that the operator's own is not found there, and a helper program of the operator's home cannot be run.

use crate::LoginState;

/// The detected facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signs {
    /// A variable holds a key or a token.
    pub(super) has_key: bool,
    /// Another source may pay: another provider, or settings by an argument.
    pub(super) is_elsewhere: bool,
    /// A file holds a credential.
    pub(super) has_file: bool,
    /// The operator's settings name a program that prints a key.
    pub(super) has_helper: bool,
    /// The operating system, as Rust calls it.
    pub(super) os: &'static str,
}

/// Variables that select another provider.
pub(super) const PROVIDERS: [&str; 3] =
    ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];

const REMEDY: &str = "set CLAUDE_CODE_OAUTH_TOKEN (from `claude setup-token`) or ANTHROPIC_API_KEY for the factory";

impl Signs {
    pub(super) fn login(self) -> LoginState {
        let why = match self {
            Self { has_key: true, .. } => return LoginState::SignedIn,
            Self { is_elsewhere: true, .. } => return LoginState::Unknown,
            // A file is only a copy of the keychain there, and a refreshed credential never gets back into it.
            Self { os: "macos", .. } => {
                format!("on macOS the login is in the keychain, where agents do not find it: {REMEDY}")
            }
            Self { has_file: true, .. } => return LoginState::SignedIn,
            Self { has_helper: true, .. } => format!("its `apiKeyHelper` is not run for agents: {REMEDY}"),
            _ => REMEDY.to_owned(),
        };
        LoginState::SignedOut { why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [F2]
    #[test]
    fn only_what_an_agent_can_use_is_a_login() {
        let none = Signs { has_key: false, is_elsewhere: false, has_file: false, has_helper: false, os: "linux" };
        let signed_out = |why: &str| LoginState::SignedOut { why: format!("{why}{REMEDY}") };
        let keychain = || signed_out("on macOS the login is in the keychain, where agents do not find it: ");

        assert_eq!(none.login(), signed_out(""));
        assert_eq!(Signs { has_file: true, ..none }.login(), LoginState::SignedIn);
        assert_eq!(Signs { has_key: true, ..none }.login(), LoginState::SignedIn);
        assert_eq!(Signs { is_elsewhere: true, ..none }.login(), LoginState::Unknown);
        let helper = "its `apiKeyHelper` is not run for agents: ";
        assert_eq!(Signs { has_helper: true, ..none }.login(), signed_out(helper));
        let mac = Signs { os: "macos", ..none };
        assert_eq!(mac.login(), keychain());
        assert_eq!(Signs { has_file: true, has_helper: true, ..mac }.login(), keychain());
        assert_eq!(Signs { has_key: true, ..mac }.login(), LoginState::SignedIn);
    }
}
