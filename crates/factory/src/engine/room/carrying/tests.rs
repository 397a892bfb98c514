use std::os::unix::fs::{PermissionsExt, symlink};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use clock::SystemClock;
use domain::JobId;
use tempfile::TempDir;

use super::*;
use crate::engine::claude::LOGIN;
use crate::engine::room::{is_unsettled, settle_rooms};

const OLD: &str = r#"{"claudeAiOauth":{"accessToken":"a1","refreshToken":"r1","expiresAt":1}}"#;
const NEW: &str = r#"{"claudeAiOauth":{"accessToken":"a2","refreshToken":"r2","expiresAt":2}}"#;
const NEWER: &str = r#"{"claudeAiOauth":{"accessToken":"a3","refreshToken":"r3","expiresAt":3}}"#;

const JOB: &str = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";

struct Scene {
    operators: TempDir,
    state: TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { operators: tempfile::tempdir().unwrap(), state: tempfile::tempdir().unwrap() };
        fs::create_dir_all(scene.room()).unwrap();
        fs::write(scene.operators.path().join(".credentials.json"), OLD).unwrap();
        fs::write(scene.operators.path().join("settings.json"), "{}").unwrap();
        fs::write(scene.operators.path().join("history.jsonl"), "words of others").unwrap();
        scene
    }

    fn begin(&self) -> Carried {
        self.begin_in(Whose::Operators).unwrap()
    }

    fn begin_in(&self, whose: Whose) -> Option<Carried> {
        self.try_begin(whose).unwrap()
    }

    /// As the next run of the job does.
    fn try_begin(&self, whose: Whose) -> io::Result<Option<Carried>> {
        let below = self.beside("").parent().unwrap().to_owned();
        let rooms = crate::engine::room::Room {
            below,
            operators: Some(self.operators.path().to_owned()),
            whose,
            brings: crate::engine::room::Brings::Everything,
        };
        rooms.carry(JOB.parse().unwrap(), &self.room(), &LOGIN, &clock())
    }

    fn room(&self) -> PathBuf {
        self.beside("")
    }

    fn note(&self) -> PathBuf {
        self.beside(".login")
    }

    fn beside(&self, end: &str) -> PathBuf {
        self.state.path().join(format!("sessions/claude/{JOB}{end}"))
    }

    fn replaced(&self) -> Option<String> {
        fs::read_to_string(self.beside(".replaced-login")).ok()
    }

    fn kept(&self) -> PathBuf {
        self.beside(".refused-login")
    }

    fn inside(&self) -> PathBuf {
        self.room().join(".credentials.json")
    }

    fn operators(&self) -> PathBuf {
        self.operators.path().join(".credentials.json")
    }

    fn outside(&self) -> String {
        fs::read_to_string(self.operators()).unwrap()
    }

    /// As the process that comes after one that was killed.
    fn recover(&self) {
        settle_rooms(&self.state.path().join("sessions"), &clock());
    }

    fn is_clear(&self) -> bool {
        !self.inside().exists() && !self.note().exists()
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

impl Carried {
    /// As a process that is killed leaves it.
    fn die(mut self) {
        self.is_settled = true;
    }
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[test]
fn a_job_finds_the_login_and_the_settings_and_nothing_else_of_the_operators() {
    let scene = Scene::new();

    let mut carried = scene.begin();

    let mut names: Vec<_> = fs::read_dir(scene.room()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".credentials.json", "settings.json"]);
    assert_eq!(fs::read_to_string(scene.inside()).unwrap(), OLD);
    carried.settle();
    assert!(scene.is_clear(), "no login lies about where nobody works");
}

#[test]
fn tokens_of_other_services_stay_with_the_operator() {
    let scene = Scene::new();
    let with = |login: &str| format!(r#"{{"mcpOAuth":{{"t":"canary"}},{}"#, &login[1..]);
    fs::write(scene.operators(), with(OLD)).unwrap();
    let mut carried = scene.begin();
    assert_eq!(fs::read_to_string(scene.inside()).unwrap(), OLD);

    fs::write(scene.inside(), NEW).unwrap();
    carried.settle();

    assert_eq!(scene.outside(), with(NEW));
}

// [T8]
#[test]
fn a_refreshed_login_goes_back_and_the_agents_settings_do_not() {
    let scene = Scene::new();
    let mut carried = scene.begin();

    fs::write(scene.room().join("settings.json"), r#"{"hooks":{}}"#).unwrap();
    fs::write(scene.room().join("new"), NEW).unwrap();
    fs::rename(scene.room().join("new"), scene.inside()).unwrap();
    carried.look();

    assert_eq!(scene.outside(), NEW);
    assert_eq!(fs::read_to_string(scene.operators.path().join("settings.json")).unwrap(), "{}");
    fs::write(scene.inside(), NEWER).unwrap();
    carried.look();
    assert_eq!(scene.outside(), NEWER, "and the next one as well");
}

// [T8] [B9]
#[test]
fn a_login_that_somebody_else_refreshed_reaches_a_job_that_runs() {
    let scene = Scene::new();
    let mut carried = scene.begin();

    fs::write(scene.operators(), NEW).unwrap();
    carried.look();

    assert_eq!(fs::read_to_string(scene.inside()).unwrap(), NEW);
    assert_eq!(scene.outside(), NEW);
}

#[test]
fn an_operator_who_signs_in_anew_is_not_overruled() {
    let scene = Scene::new();
    let mut carried = scene.begin();

    fs::write(scene.inside(), NEWER).unwrap();
    fs::write(scene.operators(), NEW).unwrap();
    carried.settle();

    assert_eq!(scene.outside(), NEW);
    assert!(scene.is_clear());
    assert_eq!(fs::read_to_string(scene.kept()).unwrap(), NEWER, "nobody else has it");
}

#[test]
fn an_agent_that_puts_an_old_login_back_harms_nobody() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    fs::write(scene.inside(), NEW).unwrap();
    carried.look();

    fs::write(scene.inside(), OLD).unwrap();
    carried.look();

    assert_eq!((scene.outside().as_str(), fs::read_to_string(scene.inside()).unwrap().as_str()), (NEW, NEW));
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[test]
fn what_cannot_be_a_refreshed_login_is_kept_for_a_person_and_out_of_the_room() {
    for text in ["", "not json", "[]", r#"{"claudeAiOauth":{"accessToken":"a2"}}"#] {
        let scene = Scene::new();
        let mut carried = scene.begin();
        fs::write(scene.inside(), text).unwrap();

        carried.look();
        carried.settle();

        assert_eq!(scene.outside(), OLD, "{text}");
        assert!(scene.is_clear(), "{text}");
        assert_eq!(fs::read_to_string(scene.kept()).unwrap(), text);
    }
}

#[test]
fn a_link_in_the_place_of_a_login_is_removed_and_leads_nowhere() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    fs::write(scene.room().join("elsewhere"), NEW).unwrap();
    fs::remove_file(scene.inside()).unwrap();
    symlink(scene.room().join("elsewhere"), scene.inside()).unwrap();

    carried.settle();

    assert_eq!(scene.outside(), OLD);
    assert!(fs::symlink_metadata(scene.inside()).is_err() && scene.room().join("elsewhere").exists());
}

#[test]
fn a_link_in_a_folder_of_the_agents_leads_nowhere() {
    let scene = Scene::new();
    let secret = scene.state.path().join("secret-of-the-factory");
    let mut carried = scene.begin_in(Whose::Agents).unwrap();
    fs::write(&secret, NEW).unwrap();
    for name in [".credentials.json", "settings.json"] {
        fs::remove_file(scene.operators.path().join(name)).unwrap();
        symlink(&secret, scene.operators.path().join(name)).unwrap();
    }

    carried.look();

    assert_eq!(fs::read_to_string(scene.inside()).unwrap(), OLD, "nothing is read through a link");
    fs::write(scene.inside(), NEWER).unwrap();
    carried.settle();
    assert_eq!(fs::read_to_string(&secret).unwrap(), NEW, "nothing is written through a link");
    assert!(scene.begin_in(Whose::Agents).is_none() && scene.is_clear());
}

// [T8]
#[test]
fn a_link_on_the_way_to_a_login_leads_nowhere_also_after_a_crash() {
    let scene = Scene::new();
    let (home, ours) = (scene.operators.path().join("home"), scene.state.path().join("ours"));
    for folder in [&home, &ours] {
        fs::create_dir_all(folder.join(".claude")).unwrap();
        fs::write(folder.join(".claude/.credentials.json"), OLD).unwrap();
    }
    let room = crate::engine::room::Room {
        below: scene.room().parent().unwrap().to_owned(),
        operators: Some(home.join(".claude")),
        whose: Whose::Agents,
        brings: crate::engine::room::Brings::Everything,
    };
    let carry = || room.carry(JOB.parse().unwrap(), &scene.room(), &LOGIN, &clock());
    carry().unwrap().unwrap().die();
    fs::write(scene.inside(), NEW).unwrap();

    fs::rename(&home, scene.operators.path().join("moved")).unwrap();
    symlink(&ours, &home).unwrap();
    scene.recover();

    assert_eq!(fs::read_to_string(ours.join(".claude/.credentials.json")).unwrap(), OLD);
    assert!(scene.note().exists() && carry().is_err());
    assert!(room.operators_file(".credentials.json").unwrap().is_none());
}

#[test]
fn a_login_that_was_refreshed_in_a_run_that_was_killed_goes_back_and_leaves_the_room() {
    let scene = Scene::new();
    scene.begin().die();
    fs::write(scene.inside(), NEW).unwrap();
    fs::write(scene.room().join(".credentials.json.tmp.7"), NEW).unwrap();

    scene.recover();

    assert_eq!(scene.outside(), NEW);
    assert!(scene.is_clear());
    assert_eq!(fs::read_dir(scene.room()).unwrap().count(), 1, "only the settings");
}

#[test]
fn a_killed_run_does_not_overrule_what_became_of_the_operators_login_since() {
    for since in [Some(NEWER), Some(r#"{"another":"file"}"#), None] {
        let scene = Scene::new();
        scene.begin().die();
        fs::write(scene.inside(), NEW).unwrap();
        match since {
            Some(text) => fs::write(scene.operators(), text).unwrap(),
            None => fs::remove_file(scene.operators()).unwrap(),
        }

        scene.recover();

        assert_eq!(fs::read_to_string(scene.operators()).ok().as_deref(), since);
        assert!(scene.is_clear());
        assert_eq!(fs::read_to_string(scene.kept()).unwrap(), NEW, "it is kept for a person");
    }
}

#[test]
fn a_run_that_was_killed_between_its_two_notes_is_made_good_for() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    fs::write(scene.inside(), NEW).unwrap();
    let (new, old) = (carried.essence(NEW.as_bytes()), carried.essence(OLD.as_bytes()));
    carried.lineage.foresee(&new, &old).unwrap();
    carried.die();

    scene.recover();

    assert_eq!(scene.outside(), NEW, "it was noted, and not yet given back");
    assert!(scene.is_clear());
}

#[test]
fn nobody_settles_a_room_in_which_a_run_goes_on() {
    let scene = Scene::new();
    let carried = scene.begin();

    scene.recover();
    assert!(scene.inside().exists() && scene.note().exists());

    drop(carried);
    assert!(scene.is_clear(), "a run that nobody follows to its end leaves nothing");
}

// [T8]
#[test]
fn the_next_run_of_a_job_finds_what_the_killed_one_refreshed_and_an_earlier_one_takes_nothing_from_it() {
    let scene = Scene::new();
    let earlier = scene.begin();
    fs::write(scene.inside(), NEW).unwrap();

    let later = scene.begin();
    drop(earlier);

    assert_eq!((scene.outside().as_str(), fs::read_to_string(scene.inside()).unwrap().as_str()), (NEW, NEW));
    drop(later);
    assert!(scene.is_clear());
}

// [T8]
#[test]
fn a_login_that_cannot_be_given_back_stays_however_often_it_is_tried_and_goes_back_as_soon_as_it_can() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    fs::write(scene.inside(), NEW).unwrap();
    let unfinished = scene.operators.path().join(carried.unfinished());
    // A folder in the place of the file that is written first refuses root as well.
    fs::create_dir(&unfinished).unwrap();

    for _ in 0..100 {
        carried.look();
    }
    assert_eq!((scene.outside().as_str(), fs::read_to_string(scene.inside()).unwrap().as_str()), (OLD, NEW));
    assert!(fs::metadata(scene.note()).unwrap().len() < 1024, "trying again says nothing new");
    carried.settle();
    assert!(scene.try_begin(Whose::Operators).is_err(), "the next run does not take its place");
    scene.recover();
    assert_eq!(fs::read_to_string(scene.inside()).unwrap(), NEW);
    assert!(is_unsettled(&scene.room()), "nor does a clean-up");

    fs::remove_dir(&unfinished).unwrap();
    drop(carried);
    scene.recover();
    assert_eq!(scene.outside(), NEW);
    assert!(scene.is_clear() && !is_unsettled(&scene.room()));
}

#[test]
fn a_run_that_cannot_begin_its_note_takes_nothing_from_the_one_before() {
    let scene = Scene::new();
    scene.begin().die();
    fs::write(scene.inside(), NEW).unwrap();
    fs::create_dir_all(scene.beside(".note.unfinished/full")).unwrap();

    assert!(scene.try_begin(Whose::Operators).is_err());

    assert_eq!(scene.outside(), NEW, "what was left is settled all the same");
    assert!(scene.is_clear());
}

// [T8]
#[test]
fn a_refreshed_login_survives_that_something_else_of_the_operators_file_is_changed() {
    let scene = Scene::new();
    let with = |login: &str| format!(r#"{{"mcpOAuth":{{"t":"new"}},{}"#, &login[1..]);
    scene.begin().die();
    fs::write(scene.inside(), NEW).unwrap();
    fs::write(scene.operators(), with(OLD)).unwrap();

    scene.recover();

    assert_eq!(scene.outside(), with(NEW));
    assert!(scene.is_clear() && !scene.kept().exists());
}

#[test]
fn an_operator_who_goes_back_to_an_older_login_is_not_overruled_and_the_newer_is_kept() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    fs::write(scene.inside(), NEW).unwrap();
    carried.look();

    fs::write(scene.operators(), OLD).unwrap();
    carried.look();

    assert_eq!((scene.outside().as_str(), fs::read_to_string(scene.inside()).unwrap().as_str()), (OLD, OLD));
    assert_eq!(fs::read_to_string(scene.kept()).unwrap(), NEW);
}

#[test]
fn what_was_noted_and_never_given_back_is_kept_when_the_operators_is_gone() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    fs::write(scene.inside(), NEW).unwrap();
    let (new, old) = (carried.essence(NEW.as_bytes()), carried.essence(OLD.as_bytes()));
    carried.lineage.foresee(&new, &old).unwrap();
    fs::remove_file(scene.operators()).unwrap();

    carried.settle();

    assert_eq!(fs::read_to_string(scene.kept()).unwrap(), NEW);
    assert!(scene.is_clear());
}

#[test]
fn a_home_that_is_not_there_yet_gets_its_login_once_it_is() {
    let scene = Scene::new();
    scene.begin().die();
    fs::write(scene.inside(), NEW).unwrap();
    let away = scene.state.path().join("away");
    fs::rename(scene.operators.path(), &away).unwrap();

    scene.recover();
    assert!(scene.inside().exists() && scene.note().exists() && !scene.kept().exists());
    fs::rename(&away, scene.operators.path()).unwrap();
    scene.recover();

    assert_eq!(scene.outside(), NEW);
    assert!(scene.is_clear());
}

#[test]
fn a_login_that_cannot_be_read_stays_with_its_note() {
    let scene = Scene::new();
    scene.begin().die();
    fs::write(scene.inside(), NEW).unwrap();
    // As a file that may not be read; root may read those.
    let (room, away) = (scene.room(), scene.state.path().join("away"));
    fs::rename(&room, &away).unwrap();
    fs::write(&room, "").unwrap();

    scene.recover();
    assert!(scene.note().exists());
    assert!(scene.try_begin(Whose::Operators).is_err());
    fs::remove_file(&room).unwrap();
    fs::rename(&away, &room).unwrap();
    scene.recover();

    assert_eq!(scene.outside(), NEW);
    assert!(scene.is_clear());
}

#[test]
fn what_is_no_file_that_a_login_can_be_in_is_removed() {
    let folder = |path: &Path| fs::create_dir_all(path.join("deep")).unwrap();
    let long = |path: &Path| fs::write(path, vec![b' '; 2 * 1024 * 1024]).unwrap();
    let another_name = |path: &Path| fs::hard_link(path.with_file_name("settings.json"), path).unwrap();
    for make in [&folder as &dyn Fn(&Path), &long, &another_name] {
        let scene = Scene::new();
        let mut carried = scene.begin();
        fs::remove_file(scene.inside()).unwrap();
        make(&scene.inside());

        carried.look();
        carried.settle();

        assert_eq!(scene.outside(), OLD);
        assert!(scene.is_clear());
    }
}

#[test]
fn the_operators_file_keeps_its_mode_and_what_it_was_is_kept_for_a_while() {
    let scene = Scene::new();
    fs::set_permissions(scene.operators(), fs::Permissions::from_mode(0o640)).unwrap();
    let mut carried = scene.begin();

    for login in [NEW, NEWER] {
        fs::write(scene.inside(), login).unwrap();
        carried.look();
    }

    assert_eq!(scene.outside(), NEWER);
    assert_eq!(fs::metadata(scene.operators()).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(scene.replaced().as_deref(), Some(OLD), "as it was before the run");
    assert_eq!(fs::read_dir(scene.operators.path()).unwrap().count(), 3, "nothing half written is left");
}

#[test]
fn a_file_that_a_kill_left_half_written_beside_the_operators_goes() {
    let scene = Scene::new();
    let carried = scene.begin();
    let unfinished = scene.operators.path().join(carried.unfinished());
    fs::write(&unfinished, &NEW[..9]).unwrap();
    carried.die();

    scene.recover();

    assert!(scene.is_clear() && !unfinished.exists());
}

#[test]
fn each_login_that_is_kept_for_a_person_stays_though_others_follow() {
    let scene = Scene::new();
    for text in ["one", "other", "one"] {
        let mut carried = scene.begin();
        fs::write(scene.inside(), text).unwrap();
        carried.settle();
    }

    let kept = [".refused-login", ".refused-login-2", ".refused-login-3"]
        .map(|end| fs::read_to_string(scene.beside(end)).ok());
    assert_eq!(kept, [Some("one".to_owned()), Some("other".to_owned()), None]);
}

#[test]
fn a_login_that_lies_in_a_room_without_a_note_is_kept_for_a_person() {
    let scene = Scene::new();
    fs::write(scene.inside(), NEW).unwrap();

    let carried = scene.begin();

    assert_eq!(fs::read_to_string(scene.inside()).unwrap(), OLD);
    assert_eq!(fs::read_to_string(scene.kept()).unwrap(), NEW);
    drop(carried);
}

// [T8]
#[test]
fn a_sign_in_between_the_look_and_the_write_is_not_overwritten() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    fs::write(scene.inside(), NEW).unwrap();
    let Standing::Newer(refresh) = carried.standing().unwrap() else { panic!("it was refreshed") };

    fs::write(scene.operators(), NEWER).unwrap();
    let given = carried.give_back(&refresh);

    assert!(given.is_err());
    assert_eq!(scene.outside(), NEWER);
    assert_eq!(fs::read_dir(scene.operators.path()).unwrap().count(), 3, "nothing half written is left");
}

#[test]
fn a_refresh_between_the_look_and_the_write_is_not_overwritten() {
    let scene = Scene::new();
    let mut carried = scene.begin();

    fs::write(scene.inside(), NEWER).unwrap();
    carried.take_in(NEW.as_bytes(), Some(OLD.as_bytes())).unwrap();

    assert_eq!(fs::read_to_string(scene.inside()).unwrap(), NEWER);
}

#[test]
fn nobody_acts_while_another_does() {
    const LONG_ENOUGH: Duration = Duration::from_millis(100);
    let next = |scene: &Scene| drop(scene.begin());
    for act in [&Scene::recover as &(dyn Fn(&Scene) + Sync), &next] {
        let scene = Scene::new();
        scene.begin().die();
        fs::write(scene.inside(), NEW).unwrap();
        let (done, wait) = mpsc::channel();

        let turn = Turn::take(&scene.note()).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                act(&scene);
                done.send(()).unwrap();
            });
            assert!(wait.recv_timeout(LONG_ENOUGH).is_err(), "it has to wait");
            assert_eq!((scene.outside().as_str(), scene.inside().exists(), scene.note().exists()), (OLD, true, true));
            drop(turn);
            wait.recv().unwrap();
        });

        assert_eq!(scene.outside(), NEW);
    }
}

#[test]
fn a_look_waits_for_nobody_and_comes_to_it_the_next_time() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    fs::write(scene.inside(), NEW).unwrap();

    let turn = Turn::take(&scene.note()).unwrap();
    carried.look();
    assert_eq!(scene.outside(), OLD);
    drop(turn);
    carried.look();

    assert_eq!(scene.outside(), NEW);
}

// [T8]
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_run_that_waits_for_its_turn_keeps_no_other_task_waiting() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    let turn = Turn::take(&scene.note()).unwrap();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let mut tasks = tokio::task::JoinSet::new();

    tasks.spawn(async move {
        begun.send(()).unwrap();
        carried.settle();
    });
    has_begun.await.unwrap();
    tasks.spawn(async move { drop(turn) });
    tasks.join_all().await;

    assert!(scene.is_clear());
}

// [T8]
#[test]
fn a_refreshed_login_that_a_kill_kept_from_its_place_is_kept_for_a_person() {
    let scene = Scene::new();
    scene.begin().die();
    let unplaced = scene.room().join(".credentials.json.tmp.7");
    fs::write(&unplaced, NEW).unwrap();
    fs::create_dir_all(scene.beside(".refused-login.unfinished")).unwrap();

    scene.recover();
    assert!(unplaced.exists() && scene.inside().exists() && scene.note().exists(), "nothing goes before it is safe");
    fs::remove_dir(scene.beside(".refused-login.unfinished")).unwrap();
    scene.recover();

    assert_eq!(fs::read_to_string(scene.kept()).unwrap(), NEW);
    assert_eq!(scene.outside(), OLD);
    assert!(scene.is_clear() && !unplaced.exists());
}

#[test]
fn a_sign_out_that_leaves_logins_of_other_services_is_taken_over_once() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    fs::write(scene.operators(), r#"{"mcpOAuth":{"t":"canary"}}"#).unwrap();

    for _ in 0..3 {
        carried.look();
    }

    assert_eq!(fs::read_to_string(scene.inside()).unwrap(), "{}");
    assert!(matches!(carried.standing(), Ok(Standing::Even)));
    carried.settle();
    assert!(scene.is_clear() && !scene.kept().exists());
}

#[test]
fn folders_are_no_logins_and_are_left_with_all_that_is_in_them() {
    let scene = Scene::new();
    let mut carried = scene.begin();
    let (beside, unfinished) = (scene.room().join(".credentials.json.d"), scene.room().join(carried.unfinished()));
    fs::remove_file(scene.inside()).unwrap();
    for folder in [&scene.inside(), &beside, &unfinished] {
        fs::create_dir_all(folder.join("deep")).unwrap();
    }

    carried.settle();

    assert!(scene.is_clear() && !unfinished.exists() && beside.join("deep").exists());
    assert_eq!(fs::read_dir(scene.room()).unwrap().count(), 4, "the settings, and three folders");
    drop(scene.begin());
}

#[test]
fn a_clean_up_at_any_moment_takes_nothing_from_a_run_that_begins() {
    let scene = Scene::new();
    let is_over = AtomicBool::new(false);

    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                scene.recover();
            }
        });
        let mut earlier = scene.begin();
        for _ in 0..100 {
            // Once with the one before still at work, and once after its kill.
            let later = scene.begin();
            drop(earlier);
            assert!(scene.inside().exists() && scene.note().exists());
            later.die();
            earlier = scene.begin();
            assert!(scene.inside().exists() && scene.note().exists());
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

// [T8]
#[test]
fn jobs_that_refresh_at_once_leave_one_whole_login() {
    let scene = Scene::new();
    let clock = clock();
    let jobs: Vec<_> = (0..8).map(|number| JobId::from_str(&format!("{}{number}", &JOB[..35])).unwrap()).collect();
    let room = crate::engine::room::Room {
        below: scene.room().parent().unwrap().to_owned(),
        operators: Some(scene.operators.path().to_owned()),
        whose: Whose::Operators,
        brings: crate::engine::room::Brings::Everything,
    };
    let login = |number: usize| {
        let token = "x".repeat(20_000 + number);
        format!(r#"{{"claudeAiOauth":{{"accessToken":"{token}","refreshToken":"r","expiresAt":2}}}}"#)
    };

    std::thread::scope(|threads| {
        for (number, job) in jobs.iter().enumerate() {
            let (room, clock, login) = (&room, &clock, &login);
            threads.spawn(move || {
                let folder = room.open(*job).unwrap();
                let mut carried = room.carry(*job, &folder, &LOGIN, clock).unwrap().unwrap();
                fs::write(folder.join(LOGIN.file), login(number)).unwrap();
                carried.look();
            });
        }
    });

    assert!((0..jobs.len()).any(|number| scene.outside() == login(number)));
    assert_eq!(fs::read_dir(scene.operators.path()).unwrap().count(), 3);
}

#[test]
fn a_file_that_holds_only_logins_of_other_services_is_not_carried() {
    let scene = Scene::new();
    let only_others = r#"{"mcpOAuth":{"t":"canary"}}"#;
    fs::write(scene.operators(), only_others).unwrap();

    assert!(scene.begin_in(Whose::Operators).is_none());
    assert_eq!((scene.outside().as_str(), scene.kept().exists()), (only_others, false));
    assert!(scene.is_clear());
}
