//! Where an engine keeps its login and its sessions.

mod carrying;
mod following;
mod lineage;
mod operators;
mod refreshed;
mod signed;
mod standing;
mod turn;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Clock, Epoch, JobId};
use sandbox::{Account, Environment, EnvironmentConfig, make_private_folder};
use tracing::warn;

pub(super) use self::carrying::Carried;
use self::lineage::Lineage;
pub(super) use self::operators::may_be_there;
use self::operators::{Whose, bring_settings, look_at};
pub(super) use self::refreshed::{Grows, Refreshes};
use self::turn::{Turn, patiently};
use super::registry::SignInMethod;

/// An engine's own folders: one for each job, so that no job sees another's sessions, or runs what another has left in its
/// settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Room {
    below: PathBuf,
    /// An operator's folder, with settings or a login in it. No job works there.
    operators: Option<PathBuf>,
    whose: Whose,
    brings: Brings,
}

/// What of an operator's folder a job gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brings {
    /// Login and settings.
    Everything,
    /// A variable holds the login already: another one would only lie about.
    Settings,
}

impl Room {
    /// The rooms of an engine whose login is in the folder that its environment names, or else in its home. `open_way` is
    /// how to come to a folder that agents can change.
    pub(super) fn of(
        environment: &Environment,
        config: &EnvironmentConfig,
        login: &SignInMethod,
        below: &Path,
        open_way: impl Fn(&Path) -> Option<PathBuf>,
    ) -> Self {
        let named = environment.variable(login.folder_variable).map(PathBuf::from);
        let is_home = |folder: &Path| config.home.as_ref().is_some_and(|home| folder.starts_with(home));
        let operators = named.clone().or_else(|| config.home.as_ref().map(|home| home.join(login.folder)));
        let way = operators.as_deref().and_then(open_way);
        let whose = match (&named, &way) {
            (Some(folder), None) if !is_home(folder) => Whose::Operators,
            _ => Whose::Agents,
        };
        let brings = match login.is_in(environment) && !login.is_named_by(config) && config.home.is_none() {
            true => Brings::Settings,
            false => Brings::Everything,
        };
        Self { below: below.to_owned(), operators: way.or(operators), whose, brings }
    }

    /// Rooms without an operator's login.
    pub(super) fn own(below: PathBuf) -> Self {
        Self { below, operators: None, whose: Whose::Operators, brings: Brings::Everything }
    }

    /// What a file of the operator's holds.
    pub(super) fn operators_file(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(operators) = &self.operators else { return Ok(None) };
        Ok(look_at(operators, self.whose, name)?.map(|file| file.bytes))
    }

    /// The operator's folder, for a look at the login that is in it.
    pub(super) fn operators(&self) -> Vec<PathBuf> {
        self.operators.clone().into_iter().collect()
    }

    /// The folder for one job's run, made if it is not there.
    pub(super) fn open(&self, job: JobId) -> io::Result<PathBuf> {
        let folder = self.below.join(job.to_string());
        make_private_folder(&folder)?;
        Ok(folder)
    }

    /// Brings an operator's login and settings into a job's folder, when it is made ready otherwise. A login that an earlier
    /// run has left there is settled first; while it cannot be, no other takes its place.
    pub(super) fn carry(
        &self,
        job: JobId,
        folder: &Path,
        login: &'static SignInMethod,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<Option<Carried>> {
        let note = self.below.join(format!("{job}{}", lineage::SUFFIX));
        if self.operators.is_none() && !is_unsettled(folder) {
            return Ok(None);
        }
        patiently(|| self.carry_in_turn(&note, folder, login, clock))
    }

    fn carry_in_turn(
        &self,
        note: &Path,
        folder: &Path,
        login: &'static SignInMethod,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<Option<Carried>> {
        let turn = Turn::take(note)?;
        if let Some(lineage) = Lineage::found(note)? {
            Carried::of(lineage, folder.to_owned(), clock)?.settle_in(&turn)?;
        }
        match (&self.operators, self.brings) {
            (Some(operators), Brings::Everything) => {
                Carried::begin((operators, self.whose), (folder, note), (login, clock), &turn)
            }
            (Some(operators), Brings::Settings) => {
                bring_settings((operators, self.whose), folder, login)?;
                Ok(None)
            }
            (None, _) => Ok(None),
        }
    }

    /// Lets the account that the engine runs under have a job's folder, with what we have put there.
    pub(super) fn hand_over(&self, folder: &Path, account: Option<&Account>) -> io::Result<()> {
        let Some(account) = account else { return Ok(()) };
        let sessions = self.below.parent().unwrap_or(&self.below);
        let state = sessions.parent().unwrap_or(sessions);
        account.let_through(state, &[sessions.to_owned(), self.below.clone()]).map_err(io::Error::other)?;
        account.give(folder)
    }

    /// Whether the operator's folder holds a login that a job would get.
    pub(super) fn holds(&self, login: &SignInMethod) -> io::Result<bool> {
        Ok(self.operators_file(login.file)?.is_some_and(|file| signed::has_login(&file, login)))
    }
}

/// Settles the logins that ended runs have left in rooms below `sessions`: what was refreshed goes back, and none stays. A
/// room in which a run goes on is left alone, whichever process it is of, and so is one that cannot be settled now.
pub(crate) fn settle_rooms(sessions: &Path, clock: &Arc<dyn Clock>) {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for note in entries(sessions).flat_map(|engine| entries(&engine)) {
        if let Some(room) = room_of(&note)
            && let Err(error) = patiently(|| settle_room(&note, room, clock))
        {
            warn!(%error, "The login that {} tells of cannot be settled: everything stays as it is", note.display());
        }
    }
}

fn settle_room(note: &Path, room: PathBuf, clock: &Arc<dyn Clock>) -> io::Result<()> {
    let turn = Turn::take(note)?;
    match Lineage::left(note)? {
        Some(lineage) => Carried::of(lineage, room, clock)?.settle_in(&turn),
        None => Ok(()),
    }
}

/// Whether a login that was carried into a room is not settled, or that cannot be told.
pub(crate) fn is_unsettled(room: &Path) -> bool {
    let mut note = room.as_os_str().to_owned();
    note.push(lineage::SUFFIX);
    !fs::symlink_metadata(note).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether a file beside rooms is the note of a login.
pub(crate) fn is_note(path: &Path) -> bool {
    room_of(path).is_some()
}

/// The room that a note lies beside.
fn room_of(note: &Path) -> Option<PathBuf> {
    note.to_string_lossy().strip_suffix(lineage::SUFFIX).map(PathBuf::from)
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
    fn every_job_has_a_room_of_its_own_wherever_the_operators_login_is() {
        let below = Path::new("/state/sessions/claude");
        let home = EnvironmentConfig { home: Some("/home/ada".into()), ..EnvironmentConfig::default() };
        let set = Environment::default().with("CLAUDE_CONFIG_DIR", "/login");
        let of = |environment: &Environment, config: &EnvironmentConfig| {
            let open_way = |folder: &Path| folder.starts_with("/open").then(|| Path::new("/really").join("claude"));
            Room::of(environment, config, &crate::engine::claude::LOGIN, below, open_way)
        };
        let own = || Room::own(below.to_owned());
        let room = |operators: &str, whose| Room { operators: Some(operators.into()), whose, ..own() };

        assert_eq!(of(&set, &home), room("/login", Whose::Operators));
        assert_eq!(of(&Environment::default(), &home), room("/home/ada/.claude", Whose::Agents));
        let nothing = of(&Environment::default(), &EnvironmentConfig::default());
        assert_eq!(nothing, Room { whose: Whose::Agents, ..own() });
        for (folder, way) in [("/home/ada/.claude", "/home/ada/.claude"), ("/open/claude", "/really/claude")] {
            let named = Environment::default().with("CLAUDE_CONFIG_DIR", folder);
            assert_eq!(of(&named, &home), room(way, Whose::Agents), "a variable keeps no agent away");
        }
    }

    #[test]
    fn a_job_whose_key_is_in_a_variable_gets_the_settings_and_no_second_login() {
        let place = tempfile::tempdir().unwrap();
        let (operators, below) = (place.path().join("operators"), place.path().join("sessions/claude"));
        fs::create_dir(&operators).unwrap();
        fs::write(operators.join("CLAUDE.md"), "be brief").unwrap();
        let login = r#"{"claudeAiOauth":{"accessToken":"a1"}}"#;
        fs::write(operators.join(".credentials.json"), login).unwrap();
        let own = Environment::default().with("CLAUDE_CONFIG_DIR", &operators);
        let job: JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap();
        let names = |environment: &Environment| {
            let claude = &crate::engine::claude::LOGIN;
            let room = Room::of(environment, &EnvironmentConfig::default(), claude, &below, |_| None);
            let folder = room.open(job).unwrap();
            let clock: Arc<dyn Clock> = Arc::new(clock::SystemClock::new());
            let _carried = room.carry(job, &folder, claude, &clock).unwrap();
            let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
            names.sort();
            names
        };

        assert_eq!(names(&own), [".credentials.json", "CLAUDE.md"]);
        assert_eq!(names(&own.with("ANTHROPIC_API_KEY", "a")), ["CLAUDE.md"]);
    }
}
