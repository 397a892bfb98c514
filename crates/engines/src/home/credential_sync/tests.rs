use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use clock::SystemClock;
use domain::JobId;
use tempfile::TempDir;

use super::*;
use crate::claude::LOGIN;
use crate::home::{Copies, EngineHomes, has_credential_note, recover_credentials};

const OLD: &str = r#"{"claudeAiOauth":{"accessToken":"a1","refreshToken":"r1","expiresAt":1}}"#;
const NEW: &str = r#"{"claudeAiOauth":{"accessToken":"a2","refreshToken":"r2","expiresAt":2}}"#;
const NEWER: &str = r#"{"claudeAiOauth":{"accessToken":"a3","refreshToken":"r3","expiresAt":3}}"#;
const JOB: &str = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";

/// An operator's directory with a credential, and the home of a job.
struct TestHome {
    operator: TempDir,
    state: TempDir,
    homes: EngineHomes,
}

impl TestHome {
    fn new() -> Self {
        Self::with(Writers::Operator)
    }

    fn with(writers: Writers) -> Self {
        let (operator, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(operator.path().join(".credentials.json"), OLD).unwrap();
        fs::write(operator.path().join("settings.json"), "{}").unwrap();
        fs::write(operator.path().join("history.jsonl"), "private").unwrap();
        let homes = EngineHomes {
            below: state.path().join("sessions/claude"),
            operator: Some(operator.path().canonicalize().unwrap()),
            writers,
            copies: Copies::CredentialAndSettings,
        };
        Self { operator, state, homes }
    }

    fn try_start(&self) -> io::Result<Option<CredentialSync>> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        self.homes.copy_in(&self.homes.open(JOB.parse().unwrap()).unwrap(), &LOGIN, &clock)
    }

    fn start(&self) -> CredentialSync {
        self.try_start().unwrap().unwrap()
    }

    /// As a killed process leaves it.
    fn crash(&self) {
        std::mem::forget(self.start());
    }

    fn recover(&self) {
        recover_credentials(&self.state.path().join("sessions"), &SystemClock::new(), |_| false);
    }

    fn home(&self) -> PathBuf {
        self.state.path().join("sessions/claude").join(JOB)
    }

    fn inside(&self) -> PathBuf {
        self.home().join(".credentials.json")
    }

    fn operators_file(&self) -> PathBuf {
        self.operator.path().join(".credentials.json")
    }

    fn outside(&self) -> String {
        fs::read_to_string(self.operators_file()).unwrap()
    }

    fn is_clear(&self) -> bool {
        fs::symlink_metadata(self.inside()).is_err() && !has_credential_note(&self.home())
    }
}

#[test]
fn a_job_gets_the_credential_and_the_settings_only() {
    let test = TestHome::new();

    let sync = test.start();

    let mut names: Vec<_> = fs::read_dir(test.home()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".credentials.json", "settings.json"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&test.inside()), mode(&test.home()), mode(&sync.note)), (0o600, 0o700, 0o600));
    assert!(!fs::read_to_string(&sync.note).unwrap().contains("a1"), "a note holds no token");
    drop(sync);
    assert!(test.is_clear());
    assert_eq!(test.outside(), OLD);
}

#[test]
fn a_refreshed_credential_returns_to_the_operator() {
    let test = TestHome::new();
    fs::set_permissions(test.operators_file(), fs::Permissions::from_mode(0o640)).unwrap();
    let sync = test.start();
    fs::write(test.inside(), NEW).unwrap();
    fs::write(test.home().join("settings.json"), r#"{"hooks":{}}"#).unwrap();

    drop(sync);

    assert_eq!(test.outside(), NEW);
    assert!(test.is_clear());
    assert_eq!(fs::metadata(test.operators_file()).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_to_string(test.operator.path().join("settings.json")).unwrap(), "{}");
    assert_eq!(fs::read_dir(test.operator.path()).unwrap().count(), 3, "no temporary file is left");
}

#[test]
fn tokens_of_other_services_are_not_copied() {
    let test = TestHome::new();
    let with = |credential: &str| format!(r#"{{"mcpOAuth":{{"t":"canary"}},{}"#, &credential[1..]);
    fs::write(test.operators_file(), with(OLD)).unwrap();
    let sync = test.start();
    assert_eq!(fs::read_to_string(test.inside()).unwrap(), OLD);

    fs::write(test.inside(), NEW).unwrap();
    drop(sync);

    assert_eq!(test.outside(), with(NEW));
    fs::write(test.operators_file(), r#"{"mcpOAuth":{"t":"canary"}}"#).unwrap();
    assert!(test.try_start().unwrap().is_none() && test.is_clear());
}

#[test]
fn a_refresh_before_a_crash_returns_at_the_next_start() {
    for recover in [&TestHome::recover as &dyn Fn(&TestHome), &|test| drop(test.start())] {
        let test = TestHome::new();
        test.crash();
        fs::write(test.inside(), NEW).unwrap();
        fs::write(test.home().join(".credentials.json.tmp.7"), NEW).unwrap();

        recover(&test);

        assert_eq!(test.outside(), NEW);
        assert!(test.is_clear());
        assert_eq!(fs::read_dir(test.home()).unwrap().count(), 1, "only the settings");
    }
}

#[test]
fn a_crash_after_the_copy_back_is_repaired() {
    let test = TestHome::new();
    test.crash();
    fs::write(test.inside(), NEW).unwrap();
    fs::write(test.operators_file(), NEW).unwrap();

    test.recover();

    assert_eq!(test.outside(), NEW);
    assert!(test.is_clear());
}

#[test]
fn an_older_credential_does_not_overwrite() {
    let test = TestHome::new();
    fs::write(test.operators_file(), NEWER).unwrap();
    let sync = test.start();
    fs::write(test.inside(), NEW).unwrap();

    drop(sync);

    assert_eq!(test.outside(), NEWER);
    assert!(test.is_clear());
}

#[test]
fn a_sign_in_during_a_run_is_not_overwritten() {
    for since in [Some(NEW), Some(r#"{"another":"file"}"#), None] {
        let test = TestHome::new();
        let sync = test.start();
        fs::write(test.inside(), NEWER).unwrap();
        match since {
            Some(text) => fs::write(test.operators_file(), text).unwrap(),
            None => fs::remove_file(test.operators_file()).unwrap(),
        }

        drop(sync);

        assert_eq!(fs::read_to_string(test.operators_file()).ok().as_deref(), since);
        assert_eq!(fs::read_to_string(test.inside()).unwrap(), NEWER, "it may be the only one");
        assert!(!has_credential_note(&test.home()));
    }
}

#[test]
fn a_rejected_credential_stays_until_the_next_run() {
    for text in ["", "not json", r#"{"claudeAiOauth":{"accessToken":"a2"}}"#] {
        let test = TestHome::new();
        let sync = test.start();
        fs::write(test.inside(), text).unwrap();

        drop(sync);

        assert_eq!((test.outside().as_str(), fs::read_to_string(test.inside()).unwrap().as_str()), (OLD, text));
        let _sync = test.start();
        assert_eq!(fs::read_to_string(test.inside()).unwrap(), OLD);
    }
}

#[test]
fn an_irregular_file_is_removed_and_not_read() {
    let link = |path: &Path| symlink(path.with_file_name("planted"), path).unwrap();
    let hard_link = |path: &Path| fs::hard_link(path.with_file_name("planted"), path).unwrap();
    let long = |path: &Path| fs::write(path, vec![b' '; 2 * 1024 * 1024]).unwrap();
    for make in [&link as &dyn Fn(&Path), &hard_link, &long] {
        let test = TestHome::new();
        let sync = test.start();
        fs::write(test.home().join("planted"), NEW).unwrap();
        fs::remove_file(test.inside()).unwrap();
        make(&test.inside());

        drop(sync);

        assert_eq!(test.outside(), OLD);
        assert!(test.is_clear() && test.home().join("planted").exists());
    }
}

#[test]
fn a_link_in_a_directory_of_agents_is_not_followed() {
    let test = TestHome::with(Writers::Agents);
    let secret = test.state.path().join("secret");
    let sync = test.start();
    fs::write(&secret, OLD).unwrap();
    for name in [".credentials.json", "settings.json"] {
        fs::remove_file(test.operator.path().join(name)).unwrap();
        symlink(&secret, test.operator.path().join(name)).unwrap();
    }
    fs::write(test.inside(), NEW).unwrap();

    drop(sync);

    assert_eq!(fs::read_to_string(&secret).unwrap(), OLD);
    assert!(test.operators_file().is_symlink());
    assert!(test.try_start().unwrap().is_none(), "nothing is read through a link");
}

#[test]
fn a_link_on_the_path_is_not_followed_after_a_crash() {
    let mut test = TestHome::with(Writers::Agents);
    let (home, ours) = (test.operator.path().canonicalize().unwrap().join("home"), test.state.path().join("ours"));
    for folder in [&home, &ours] {
        fs::create_dir_all(folder.join(".claude")).unwrap();
        fs::write(folder.join(".claude/.credentials.json"), OLD).unwrap();
    }
    test.homes.operator = Some(home.join(".claude"));
    test.crash();
    fs::write(test.inside(), NEW).unwrap();

    fs::rename(&home, test.operator.path().join("moved")).unwrap();
    symlink(&ours, &home).unwrap();
    test.recover();

    assert_eq!(fs::read_to_string(ours.join(".claude/.credentials.json")).unwrap(), OLD);
    assert!(has_credential_note(&test.home()) && test.try_start().is_err());
    assert!(test.homes.operator_file(".credentials.json").unwrap().is_none());
}

#[test]
fn a_failed_copy_back_is_repeated() {
    let test = TestHome::new();
    let sync = test.start();
    fs::write(test.inside(), NEW).unwrap();
    // A directory at the name of the temporary file fails for root too.
    let obstacle = test.operator.path().join("..credentials.json.unfinished");
    fs::create_dir(&obstacle).unwrap();

    drop(sync);
    assert!(test.try_start().is_err(), "no other credential takes its place");
    assert_eq!((test.outside().as_str(), fs::read_to_string(test.inside()).unwrap().as_str()), (OLD, NEW));
    assert!(has_credential_note(&test.home()));
    fs::remove_dir(&obstacle).unwrap();
    test.recover();

    assert_eq!(test.outside(), NEW);
    assert!(test.is_clear());
}

#[test]
fn an_active_run_and_a_later_one_keep_their_credential() {
    let test = TestHome::new();
    let earlier = test.start();
    fs::write(test.inside(), NEW).unwrap();
    recover_credentials(&test.state.path().join("sessions"), &SystemClock::new(), |_| true);
    assert_eq!(test.outside(), OLD);

    let later = test.start();
    drop(earlier);

    assert_eq!((test.outside().as_str(), fs::read_to_string(test.inside()).unwrap().as_str()), (NEW, NEW));
    drop(later);
    assert!(test.is_clear());
}

#[test]
fn a_concurrent_sign_in_is_not_overwritten() {
    let test = TestHome::new();
    fs::write(test.operators_file(), NEWER).unwrap();
    let operators = DirFd::open(test.operator.path()).unwrap();

    assert!(replace(&operators, ".credentials.json", OLD.as_bytes(), NEW.as_bytes()).is_err());

    assert_eq!(test.outside(), NEWER);
    assert_eq!(fs::read_dir(test.operator.path()).unwrap().count(), 3, "no temporary file is left");
}

#[test]
fn factories_share_the_lock_of_the_operators_directory() {
    const LONG_ENOUGH: Duration = Duration::from_millis(200);
    let test = TestHome::new();
    let sync = test.start();
    fs::write(test.inside(), NEW).unwrap();
    let lock = DirFd::open(test.operator.path()).unwrap().try_lock().unwrap().unwrap();
    let (done, wait) = mpsc::channel();

    std::thread::scope(|threads| {
        threads.spawn(move || {
            drop(sync);
            done.send(()).unwrap();
        });
        assert!(wait.recv_timeout(LONG_ENOUGH).is_err());
        assert_eq!(test.outside(), OLD);
        drop(lock);
        wait.recv().unwrap();
    });

    assert_eq!(test.outside(), NEW);
}

#[test]
fn a_recovery_takes_no_credential_from_a_run_that_starts() {
    let test = TestHome::new();
    let (is_active, is_over) = (AtomicBool::new(false), AtomicBool::new(false));

    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let sessions = test.state.path().join("sessions");
                recover_credentials(&sessions, &SystemClock::new(), |_| is_active.load(Ordering::SeqCst));
            }
        });
        for _ in 0..50 {
            is_active.store(true, Ordering::SeqCst);
            let sync = test.start();
            let is_there = test.inside().exists();
            is_active.store(false, Ordering::SeqCst);
            std::mem::forget(sync);
            assert!(is_there);
        }
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn concurrent_refreshes_leave_one_complete_file() {
    let test = TestHome::new();
    let credential = |number: usize| {
        let token = "x".repeat(20_000 + number);
        format!(r#"{{"claudeAiOauth":{{"accessToken":"{token}","refreshToken":"r","expiresAt":2}}}}"#)
    };

    std::thread::scope(|threads| {
        for number in 0..8 {
            let (homes, credential) = (&test.homes, &credential);
            threads.spawn(move || {
                let job: JobId = format!("{}{number}", &JOB[..35]).parse().unwrap();
                let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
                let home = homes.open(job).unwrap();
                let sync = homes.copy_in(&home, &LOGIN, &clock).unwrap().unwrap();
                fs::write(home.join(LOGIN.file), credential(number)).unwrap();
                drop(sync);
            });
        }
    });

    assert!((0..8).any(|number| test.outside() == credential(number)));
    assert_eq!(fs::read_dir(test.operator.path()).unwrap().count(), 3);
}
