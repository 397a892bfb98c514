//! An operator's login on its way into a job's own folder, and a refreshed one on its way back.
//!
//! An engine changes its login when it is about to expire, and the old one may be worth nothing then. So both sides are
//! looked at while it runs, and whatever is newer goes to the other. Nothing else of the job's folder ever comes back.
//! [`Carried::settle`] is the one end of it, whoever comes to it: the run, its next one, or a process after a crash.

use std::io;
use std::path::{Path, PathBuf};

use domain::Insights;
use tracing::{info, warn};

use super::lineage::{Lineage, Origin};
use super::operators::{Whose, bring_settings, place_of, put, read};
use super::refreshed::{is_same, object, refreshed};
use crate::disk::replace_file;
use crate::engine::bench::Login;
use crate::engine::{EngineEvent, Exit, Judgement, Reply, Session};
use crate::folder::Folder;
use crate::process::Line;

/// What the name of a login ends with that is kept for a person.
const REFUSED: &str = "refused-login";

/// One login in two places. Dropping it settles it.
pub(crate) struct Carried {
    /// The job's own folder, in which its agent may put anything.
    room: PathBuf,
    /// The folder of the operator's file, open: what somebody puts in its place later is not looked at. None where it is
    /// gone.
    operators: Option<Folder>,
    login: &'static Login,
    lineage: Lineage,
    is_settled: bool,
}

/// How what lies in the room stands to what the operator has.
enum Standing {
    /// Nothing is in the room, or the same login.
    Even,
    /// The engine has refreshed it. The operator's file would hold `merged`.
    Newer { inside: Vec<u8>, merged: Vec<u8> },
    /// Somebody else has changed the operator's.
    Older { outside: Vec<u8> },
    /// It was changed, and not by a refresh.
    Refused { inside: Vec<u8>, why: &'static str },
}

impl Carried {
    /// Puts an operator's settings and login into a job's folder. `None` where there is no login to carry.
    ///
    /// An operator may have links in a folder of their own. In one that agents can write to, a link is not followed: it
    /// could lead to any file of ours.
    pub(super) fn begin(
        (operators, whose): (&Path, Whose),
        (room, note): (&Path, &Path),
        login: &'static Login,
    ) -> io::Result<Option<Self>> {
        bring_settings((operators, whose), room, login)?;
        let Some((folder, file)) = place_of(operators, whose, login.file) else { return Ok(None) };
        let operators = Folder::open(&folder)?;
        let outside = read(&operators, &file)?;
        let lineage = Lineage::begin(note, Origin { folder, file, name: login.file.to_owned() })?;
        let mut carried = Self { room: room.to_owned(), operators: Some(operators), login, lineage, is_settled: false };
        carried.take_in(&outside)?;
        Ok(Some(carried))
    }

    /// What a note tells of a login that an earlier run has carried.
    pub(super) fn of(lineage: Lineage, room: PathBuf) -> Option<Self> {
        let login = Login::in_file(&lineage.origin().name)?;
        let operators = Folder::open(&lineage.origin().folder).ok();
        Some(Self { room, operators, login, lineage, is_settled: false })
    }

    /// The same conversation, with both sides looked at whenever the engine says something.
    pub(crate) fn follow(carried: Option<Self>, session: Box<dyn Session>) -> Box<dyn Session> {
        match carried {
            Some(carried) => Box::new(Carrying { carried, session }),
            None => session,
        }
    }

    /// Takes over what was changed on either side.
    fn look(&mut self) {
        if !self.lineage.is_current() {
            return;
        }
        let done = match self.standing() {
            Standing::Newer { inside, merged } => self.give_back(&inside, &merged),
            Standing::Older { outside } => self.take_in(&outside),
            Standing::Even | Standing::Refused { .. } => Ok(()),
        };
        if let Err(error) = done {
            warn!(%error, "The login in {} and the operator's cannot be brought together", self.room.display());
        }
    }

    /// Gives a refreshed login back and leaves none in the room. What cannot be given back for its own sake is kept for a
    /// person, out of the agent's reach; where the disk refuses, everything stays for whoever comes next.
    pub(super) fn settle(&mut self) {
        if std::mem::replace(&mut self.is_settled, true) || !self.lineage.is_current() {
            return;
        }
        let done = match self.standing() {
            Standing::Newer { inside, merged } => self.give_back(&inside, &merged),
            Standing::Refused { inside, why } => self.set_aside(&inside, why),
            Standing::Even | Standing::Older { .. } => Ok(()),
        };
        match done {
            Ok(()) => self.clear(),
            Err(error) => warn!(%error, "A refreshed login cannot be given back: it stays in {}", self.room.display()),
        }
    }

    fn standing(&self) -> Standing {
        let Ok(inside) = Folder::open(&self.room).and_then(|room| read(&room, self.login.file)) else {
            return Standing::Even;
        };
        let refreshes = &self.login.refreshes;
        let known_inside = self.lineage.position(&inside);
        let file = &self.lineage.origin().file;
        let Some(outside) = self.operators.as_ref().and_then(|folder| read(folder, file).ok()) else {
            return match known_inside {
                Some(_) => Standing::Even,
                None => Standing::Refused { inside, why: "the operator's is gone" },
            };
        };
        if is_same(&outside, &inside, refreshes) {
            return Standing::Even;
        }
        // A refresh begins with what was there. Whatever else the operator's file has become meanwhile is not undone by it.
        match self.lineage.position(&outside) {
            Some(known) if known_inside.is_none_or(|inside| inside > known) => {}
            _ => return Standing::Older { outside },
        }
        match refreshed(&outside, &inside, refreshes) {
            Ok(merged) => Standing::Newer { inside, merged },
            // What we have put there ourselves, though it is no login: a file may hold those of other services alone.
            Err(_) if known_inside.is_some() => Standing::Even,
            Err(why) => Standing::Refused { inside, why },
        }
    }

    fn take_in(&mut self, outside: &[u8]) -> io::Result<()> {
        let carried = without_withheld(outside, self.login);
        self.lineage.know(outside)?;
        if carried != outside {
            self.lineage.know(&carried)?;
        }
        put(&self.room, self.login.file, &carried)
    }

    fn give_back(&mut self, inside: &[u8], merged: &[u8]) -> io::Result<()> {
        self.lineage.know(inside)?;
        if merged != inside {
            self.lineage.know(merged)?;
        }
        let Origin { folder, file, .. } = self.lineage.origin();
        let operators = self.operators.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let (_, before) = operators.file(file)?;
        operators.put(file, merged, (before.st_uid, before.st_gid))?;
        info!("An engine has refreshed the login in {}", folder.join(file).display());
        Ok(())
    }

    fn set_aside(&self, inside: &[u8], why: &str) -> io::Result<()> {
        let kept = self.lineage.beside(REFUSED);
        replace_file(&kept, inside)?;
        let file = self.lineage.origin().folder.join(&self.lineage.origin().file);
        warn!(
            "What an engine left in the place of the login {} is not given back: {why}. It is kept as {}",
            file.display(),
            kept.display()
        );
        Ok(())
    }

    /// Leaves no login in the room, nor a part of one that somebody was writing beside it.
    fn clear(&self) {
        if let Ok(room) = Folder::open(&self.room) {
            let names = room.names().unwrap_or_default().into_iter();
            for name in names.filter(|name| name.to_string_lossy().contains(self.login.file)) {
                let _ = room.remove(name);
            }
        }
        self.lineage.end();
    }
}

/// A run that is not followed to its end leaves no login either.
impl Drop for Carried {
    fn drop(&mut self) {
        self.settle();
    }
}

/// A login without what is of no use to a job: tokens of other services.
fn without_withheld(file: &[u8], login: &Login) -> Vec<u8> {
    let Some(mut held) = object(file) else { return file.to_vec() };
    let count = held.len();
    held.retain(|name, _| !login.withheld.contains(&name.as_str()));
    if held.len() == count { file.to_vec() } else { serde_json::to_vec(&held).unwrap_or_default() }
}

/// A conversation beside which a login is carried to and fro.
struct Carrying {
    carried: Carried,
    session: Box<dyn Session>,
}

impl Session for Carrying {
    fn translate(&mut self, line: &Line) -> Vec<EngineEvent> {
        self.session.translate(line)
    }

    fn look(&mut self) {
        self.carried.look();
        self.session.look();
    }

    fn reply(&mut self) -> Reply {
        self.session.reply()
    }

    fn farewell(&mut self) -> Option<Vec<u8>> {
        self.session.farewell()
    }

    fn settle(&mut self) {
        self.carried.settle();
        self.session.settle();
    }

    fn judge(&mut self, exit: Exit) -> Judgement {
        self.session.judge(exit)
    }

    fn insights(&self) -> Insights {
        self.session.insights()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;
    use crate::engine::claude::LOGIN;

    const OLD: &str = r#"{"claudeAiOauth":{"accessToken":"a1","refreshToken":"r1","expiresAt":1}}"#;
    const NEW: &str = r#"{"claudeAiOauth":{"accessToken":"a2","refreshToken":"r2","expiresAt":2}}"#;
    const NEWER: &str = r#"{"claudeAiOauth":{"accessToken":"a3","refreshToken":"r3","expiresAt":3}}"#;

    struct Scene {
        operators: TempDir,
        sessions: TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let scene = Self { operators: tempfile::tempdir().unwrap(), sessions: tempfile::tempdir().unwrap() };
            fs::create_dir(scene.room()).unwrap();
            fs::write(scene.operators.path().join(".credentials.json"), OLD).unwrap();
            fs::write(scene.operators.path().join("settings.json"), "{}").unwrap();
            fs::write(scene.operators.path().join("history.jsonl"), "words of others").unwrap();
            scene
        }

        fn begin(&self) -> Carried {
            self.begin_in(Whose::Operators).unwrap()
        }

        fn begin_in(&self, whose: Whose) -> Option<Carried> {
            Carried::begin((self.operators.path(), whose), (&self.room(), &self.note()), &LOGIN).unwrap()
        }

        fn room(&self) -> PathBuf {
            self.sessions.path().join("j")
        }

        fn note(&self) -> PathBuf {
            self.sessions.path().join("j.login")
        }

        fn kept(&self) -> PathBuf {
            self.sessions.path().join("j.refused-login")
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
            drop(Carried::of(Lineage::left(&self.note()).unwrap(), self.room()).unwrap());
        }

        fn is_clear(&self) -> bool {
            !self.inside().exists() && !self.note().exists()
        }
    }

    impl Carried {
        /// As a process that is killed leaves it.
        fn die(mut self) {
            self.is_settled = true;
        }
    }

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

    #[test]
    fn a_file_without_a_login_that_nobody_touched_is_no_news() {
        let scene = Scene::new();
        let only_others = r#"{"mcpOAuth":{"t":"canary"}}"#;
        fs::write(scene.operators(), only_others).unwrap();
        let mut carried = scene.begin();

        carried.look();
        carried.settle();

        assert_eq!((scene.outside().as_str(), scene.kept().exists()), (only_others, false));
        assert!(scene.is_clear());
    }

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
        let secret = scene.sessions.path().join("secret-of-the-factory");
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
        }
    }

    #[test]
    fn a_run_that_was_killed_between_its_two_notes_is_made_good_for() {
        let scene = Scene::new();
        let mut carried = scene.begin();
        fs::write(scene.inside(), NEW).unwrap();
        carried.lineage.know(NEW.as_bytes()).unwrap();
        carried.die();

        scene.recover();

        assert_eq!(scene.outside(), NEW, "it was noted, and not yet given back");
        assert!(scene.is_clear());
    }

    #[test]
    fn nobody_settles_a_room_in_which_a_run_goes_on() {
        let scene = Scene::new();
        let carried = scene.begin();

        assert!(Lineage::left(&scene.note()).is_none());

        drop(carried);
        assert!(scene.is_clear(), "a run that nobody follows to its end leaves nothing");
    }

    #[test]
    fn the_next_run_of_a_job_finds_what_the_killed_one_refreshed_and_an_earlier_one_takes_nothing_from_it() {
        let scene = Scene::new();
        let earlier = scene.begin();
        fs::write(scene.inside(), NEW).unwrap();

        drop(Carried::of(Lineage::found(&scene.note()).unwrap(), scene.room()));
        let later = scene.begin();
        drop(earlier);

        assert_eq!((scene.outside().as_str(), fs::read_to_string(scene.inside()).unwrap().as_str()), (NEW, NEW));
        drop(later);
        assert!(scene.is_clear());
    }
}
