//! An engine's home directory for each job: its sessions, its settings and, during a run, its credential.

mod credential_file;
mod credential_sync;
mod operator_files;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Clock, Epoch, JobId};
use sandbox::{Account, Environment, EnvironmentConfig, make_private_folder};
use tracing::warn;

pub(super) use self::credential_file::RefreshedFields;
use self::credential_file::has_credential;
pub(super) use self::credential_sync::CredentialSync;
use self::credential_sync::{NOTE_SUFFIX, copy_back, note_of, run_of};
pub(super) use self::operator_files::may_be_there;
use self::operator_files::{Writers, copy_settings, read_operator_file};
use super::registry::SignInMethod;

/// An engine's homes: one directory for each job, so that no job reads another's sessions or runs programs that another has
/// put into its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineHomes {
    below: PathBuf,
    /// An operator's directory, with settings or a credential. No job runs in it.
    operator: Option<PathBuf>,
    writers: Writers,
    copies: Copies,
}

/// The files of an operator's directory that a job gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copies {
    CredentialAndSettings,
    /// An environment variable holds the credential.
    Settings,
}

impl EngineHomes {
    /// The homes of an engine whose credential is in the directory that its environment names, or else in its home.
    /// `open_way` returns the path to a directory that agents can change.
    pub(super) fn of(
        environment: &Environment,
        config: &EnvironmentConfig,
        method: &SignInMethod,
        below: &Path,
        open_way: impl Fn(&Path) -> Option<PathBuf>,
    ) -> Self {
        let named = environment.variable(method.folder_variable).map(PathBuf::from);
        let is_home = |folder: &Path| config.home.as_ref().is_some_and(|home| folder.starts_with(home));
        let operator = named.clone().or_else(|| config.home.as_ref().map(|home| home.join(method.folder)));
        let way = operator.as_deref().and_then(open_way);
        let writers = match (&named, &way) {
            (Some(folder), None) if !is_home(folder) => Writers::Operator,
            _ => Writers::Agents,
        };
        let copies = match method.is_in(environment) && !method.is_named_by(config) && config.home.is_none() {
            true => Copies::Settings,
            false => Copies::CredentialAndSettings,
        };
        Self { below: below.to_owned(), operator: way.or(operator), writers, copies }
    }

    /// Homes without an operator's credential.
    pub(super) fn own(below: PathBuf) -> Self {
        Self { below, operator: None, writers: Writers::Operator, copies: Copies::CredentialAndSettings }
    }

    /// The content of a file in the operator's directory.
    pub(super) fn operator_file(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(operator) = &self.operator else { return Ok(None) };
        Ok(read_operator_file(operator, self.writers, name)?.map(|file| file.bytes))
    }

    /// The operator's directory.
    pub(super) fn operator(&self) -> Vec<PathBuf> {
        self.operator.clone().into_iter().collect()
    }

    /// The home of one job, created if it is missing.
    pub(super) fn open(&self, job: JobId) -> io::Result<PathBuf> {
        let home = self.below.join(job.to_string());
        make_private_folder(&home)?;
        Ok(home)
    }

    /// Copies an operator's settings and credential into a home that is ready otherwise. A credential of an earlier run is
    /// copied back first; while that fails, the home gets no other.
    pub(super) fn copy_in(
        &self,
        home: &Path,
        method: &SignInMethod,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<Option<CredentialSync>> {
        copy_back(home, None, &**clock)?;
        let Some(operator) = &self.operator else { return Ok(None) };
        copy_settings((operator, self.writers), home, method)?;
        match self.copies {
            Copies::CredentialAndSettings => CredentialSync::start((operator, self.writers), home, (method, clock)),
            Copies::Settings => Ok(None),
        }
    }

    /// Gives a home and its content to the account that the engine runs under.
    pub(super) fn hand_over(&self, home: &Path, account: Option<&Account>) -> io::Result<()> {
        let Some(account) = account else { return Ok(()) };
        let sessions = self.below.parent().unwrap_or(&self.below);
        let state = sessions.parent().unwrap_or(sessions);
        account.let_through(state, &[sessions.to_owned(), self.below.clone()]).map_err(io::Error::other)?;
        account.give(home)
    }

    /// Whether the operator's directory holds a credential that a job would get.
    pub(super) fn has_credential(&self, method: &SignInMethod) -> io::Result<bool> {
        Ok(self.operator_file(method.file)?.is_some_and(|file| has_credential(&file, method)))
    }
}

/// Copies refreshed credentials back that ended runs left in homes below `sessions`, and removes them from the homes. Homes
/// of active runs are skipped. One that fails is logged and stays.
pub fn recover_credentials(sessions: &Path, clock: &dyn Clock, is_active: impl Fn(&Path) -> bool) {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let notes = entries(sessions).flat_map(|engine| entries(&engine));
    for home in notes.filter_map(|note| home_of(&note)) {
        let recover = || match run_of(&home)? {
            // The note is read first: a run that starts meanwhile has another one.
            Some(run) if !is_active(&home) => copy_back(&home, Some(&run), clock),
            _ => Ok(()),
        };
        if let Err(error) = recover() {
            warn!(%error, "Cannot copy the credential in {} back: it stays there", home.display());
        }
    }
}

/// Whether a home holds a credential that was not copied back, or that is unknown.
pub fn has_credential_note(home: &Path) -> bool {
    !fs::symlink_metadata(note_of(home)).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether a file beside the homes is the note of a credential.
pub fn is_credential_note(path: &Path) -> bool {
    home_of(path).is_some()
}

fn home_of(note: &Path) -> Option<PathBuf> {
    note.to_string_lossy().strip_suffix(NOTE_SUFFIX).map(PathBuf::from)
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
    fn every_job_has_a_home_of_its_own() {
        let below = Path::new("/state/sessions/claude");
        let home = EnvironmentConfig { home: Some("/home/ada".into()), ..EnvironmentConfig::default() };
        let set = Environment::default().with("CLAUDE_CONFIG_DIR", "/login");
        let of = |environment: &Environment, config: &EnvironmentConfig| {
            let open_way = |folder: &Path| folder.starts_with("/open").then(|| Path::new("/really").join("claude"));
            EngineHomes::of(environment, config, &crate::claude::LOGIN, below, open_way)
        };
        let own = || EngineHomes::own(below.to_owned());
        let homes = |operator: &str, writers| EngineHomes { operator: Some(operator.into()), writers, ..own() };

        assert_eq!(of(&set, &home), homes("/login", Writers::Operator));
        assert_eq!(of(&Environment::default(), &home), homes("/home/ada/.claude", Writers::Agents));
        let nothing = of(&Environment::default(), &EnvironmentConfig::default());
        assert_eq!(nothing, EngineHomes { writers: Writers::Agents, ..own() });
        for (folder, way) in [("/home/ada/.claude", "/home/ada/.claude"), ("/open/claude", "/really/claude")] {
            let named = Environment::default().with("CLAUDE_CONFIG_DIR", folder);
            assert_eq!(of(&named, &home), homes(way, Writers::Agents), "a variable keeps no agent away");
        }
    }

    #[test]
    fn an_environment_credential_copies_no_file() {
        let place = tempfile::tempdir().unwrap();
        let (operators, below) = (place.path().join("operators"), place.path().join("sessions/claude"));
        fs::create_dir(&operators).unwrap();
        fs::write(operators.join("CLAUDE.md"), "be brief").unwrap();
        let login = r#"{"claudeAiOauth":{"accessToken":"a1"}}"#;
        fs::write(operators.join(".credentials.json"), login).unwrap();
        let own = Environment::default().with("CLAUDE_CONFIG_DIR", &operators);
        let job: JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap();
        let names = |environment: &Environment| {
            let claude = &crate::claude::LOGIN;
            let homes = EngineHomes::of(environment, &EnvironmentConfig::default(), claude, &below, |_| None);
            let folder = homes.open(job).unwrap();
            let clock: Arc<dyn Clock> = Arc::new(clock::SystemClock::new());
            let _sync = homes.copy_in(&folder, claude, &clock).unwrap();
            let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
            names.sort();
            names
        };

        assert_eq!(names(&own), [".credentials.json", "CLAUDE.md"]);
        assert_eq!(names(&own.with("ANTHROPIC_API_KEY", "a")), ["CLAUDE.md"]);
    }
}
