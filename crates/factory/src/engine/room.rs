//! Where an engine keeps its login and its sessions.

use std::io;
use std::path::{Path, PathBuf};

use domain::{Epoch, JobId};

use crate::config::EnvironmentConfig;
use crate::disk::make_private_folder;
use crate::process::{Account, Environment};

/// An engine's own folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Room {
    /// An operator's, with a login in it: all jobs share it.
    Shared(PathBuf),
    /// One for each job below this folder, so that no job sees another's sessions.
    PerJob(PathBuf),
}

impl Room {
    /// The room of an engine that finds its folder in `variable`, or else as `folder` in its home.
    pub(super) fn of(
        environment: &Environment,
        config: &EnvironmentConfig,
        variable: &str,
        folder: &str,
        below: &Path,
    ) -> Self {
        match (environment.variable(variable), &config.home) {
            (Some(path), _) => Self::Shared(path.into()),
            (None, Some(home)) => Self::Shared(home.join(folder)),
            (None, None) => Self::PerJob(below.to_owned()),
        }
    }

    /// The folder that all jobs share, if there is one.
    pub(super) fn shared(&self) -> Vec<PathBuf> {
        match self {
            Self::Shared(folder) => vec![folder.clone()],
            Self::PerJob(_) => Vec::new(),
        }
    }

    /// The folder for one job's run, made if it is not there.
    pub(super) fn open(&self, job: JobId) -> io::Result<PathBuf> {
        let folder = match self {
            Self::Shared(folder) => folder.clone(),
            Self::PerJob(below) => below.join(job.to_string()),
        };
        make_private_folder(&folder)?;
        Ok(folder)
    }

    /// Lets the account that the engine runs under have a job's folder, with what we have put there. An operator's folder
    /// is the operator's to open.
    pub(super) fn hand_over(&self, folder: &Path, account: Option<&Account>) -> io::Result<()> {
        let (Self::PerJob(below), Some(account)) = (self, account) else { return Ok(()) };
        let sessions = below.parent().unwrap_or(below);
        let state = sessions.parent().unwrap_or(sessions);
        account.let_through(state, &[sessions.to_owned(), below.clone()]).map_err(io::Error::other)?;
        account.give(folder)
    }

    /// Whether a file is there before any job came.
    pub(super) fn holds(&self, file: &str) -> bool {
        matches!(self, Self::Shared(folder) if folder.join(file).is_file())
    }
}

/// Whether a session's name can be part of a path and of a command line.
pub(super) fn is_plain(session: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=128).contains(&session.len()) && !session.starts_with('-') && session.chars().all(plain)
}

/// A session's name for one run, in the shape of a UUID. Two runs of a job never share one.
pub(super) fn session_of(job: JobId, epoch: Epoch) -> String {
    const BELOW_THE_VARIANT: u128 = (1 << 62) - 1;
    let digits: String = job.to_string().chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).unwrap_or(0) ^ (u128::from(epoch.0) & BELOW_THE_VARIANT);
    let hex = format!("{number:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_of_a_job_has_a_session_of_its_own() {
        let job: JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap();

        assert_eq!(session_of(job, Epoch(1)), "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6b");
        assert_eq!(session_of(job, Epoch(u64::MAX)), "0190f3a4-7c1e-7b52-a2f5-e0d1c2b3a495");
    }

    #[test]
    fn a_session_that_could_be_a_path_or_an_option_is_none() {
        for session in ["", "..", "a/b", "-x", "a b", "é", &"x".repeat(129)] {
            assert!(!is_plain(session), "{session:?}");
        }
        assert!(is_plain("01a1e23c-4a07-7f52-9b13-3c70f1d5dbc2"));
    }

    #[test]
    fn a_login_of_the_operators_is_shared_and_without_one_each_job_has_its_own() {
        let below = Path::new("/state/sessions/claude");
        let home = EnvironmentConfig { home: Some("/home/ada".into()), ..EnvironmentConfig::default() };
        let set = Environment::default().with("CLAUDE_CONFIG_DIR", "/login");
        let of = |environment: &Environment, config: &EnvironmentConfig| {
            Room::of(environment, config, "CLAUDE_CONFIG_DIR", ".claude", below)
        };

        assert_eq!(of(&set, &home), Room::Shared("/login".into()));
        assert_eq!(of(&Environment::default(), &home), Room::Shared("/home/ada/.claude".into()));
        assert_eq!(of(&Environment::default(), &EnvironmentConfig::default()), Room::PerJob(below.to_owned()));
    }
}
