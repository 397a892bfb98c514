//! The environment of a program: an allow-list, and the operator's additions [T8].

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use domain::RunKey;
use serde::Deserialize;

use crate::toolchains;

/// Additions to the cleared environment of the programs that a factory runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct EnvironmentConfig {
    /// The home directory; an empty one of the factory's own when absent.
    #[serde(default)]
    pub home: Option<PathBuf>,
    /// Names of variables that are passed on from the factory's own environment, such as an engine's credential.
    #[serde(default)]
    pub pass: Vec<String>,
    /// Variables with their values.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

/// The whole environment of a program.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

/// Variables about places and formats, never about identity. Those of toolchains are passed too.
const PASSED: [&str; 5] = ["PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR"];
const PASSED_PREFIX: &str = "LC_";
/// The factory's own settings, its token among them. The operator cannot pass these on either.
const OURS: [&str; 4] = ["GIGA_", "AQ_", "FLEET_", "POLL_SECONDS"];

impl Environment {
    /// The part of `variables` for an untrusted program.
    pub fn cleared(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        empty_home: &Path,
        config: &EnvironmentConfig,
    ) -> Self {
        let passed = |name: &OsStr| {
            name.to_str().is_some_and(|name| {
                let asked_for = config.pass.iter().any(|asked| asked == name) && !is_ours(name);
                PASSED.contains(&name) || name.starts_with(PASSED_PREFIX) || asked_for
            })
        };
        let given: BTreeMap<OsString, OsString> = variables.into_iter().collect();
        let mut kept: BTreeMap<OsString, OsString> = toolchains::variables(&given, config.home.as_deref()).collect();
        kept.extend(given.into_iter().filter(|(name, _)| passed(name)));
        kept.insert("TERM".into(), "dumb".into());
        kept.insert("HOME".into(), config.home.as_deref().unwrap_or(empty_home).into());
        let set = config.set.iter().filter(|(name, _)| !is_ours(name));
        kept.extend(set.map(|(name, value)| (name.into(), value.into())));
        Self { variables: kept }
    }

    /// The same with one more variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// The same with the variables that name a program's run, and by which [`crate::kill_leftovers`] finds it.
    #[must_use]
    pub fn of_run(self, run: RunKey, attempt: u32) -> Self {
        self.with("GIGA_JOB_ID", run.job.to_string())
            .with("GIGA_EPOCH", run.epoch.to_string())
            .with("GIGA_ATTEMPT", attempt.to_string())
    }

    /// One variable.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// All variables.
    pub fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }
}

/// Names only: a value may be an engine's credential.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

fn is_ours(name: &str) -> bool {
    OURS.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    // [T8]
    #[test]
    fn only_the_listed_variables_remain() {
        let variables = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("HOME", "/nonexistent"),
            ("RUSTUP_HOME", "/opt/rustup"),
            ("CARGO_HOME", "/opt/cargo"),
            ("TERM", "xterm"),
            ("AQ_FLEET_TOKEN", "secret"),
            ("SSH_AUTH_SOCK", "/agent"),
            ("GH_TOKEN", "secret"),
            ("API_KEY", "wanted"),
        ];
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let config = EnvironmentConfig {
            pass: vec!["API_KEY".to_owned(), "AQ_FLEET_TOKEN".to_owned()],
            set: BTreeMap::from([("CI".to_owned(), "1".to_owned()), ("GIGA_TOKEN".to_owned(), "x".to_owned())]),
            ..EnvironmentConfig::default()
        };

        let environment = Environment::cleared(variables, Path::new("/empty"), &config);

        let shown: Vec<(&str, &str)> = environment
            .variables()
            .iter()
            .map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap()))
            .collect();
        let expected = [
            ("API_KEY", "wanted"),
            ("CI", "1"),
            ("HOME", "/empty"),
            ("LC_ALL", "C"),
            ("PATH", "/bin"),
            ("RUSTUP_HOME", "/opt/rustup"),
            ("TERM", "dumb"),
        ];
        assert_eq!(shown, expected);
    }

    // [attack: a prompt-injected agent steals secrets]
    #[test]
    fn printing_an_environment_shows_no_value() {
        let environment = Environment::default().with("API_KEY", "hunter2");

        assert!(!format!("{environment:?}").contains("hunter2"));
    }
}
