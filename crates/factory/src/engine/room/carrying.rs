//! An operator's login on its way into a job's own folder, and a refreshed one on its way back.
//!
//! An engine changes its login when it is about to expire, and the old one may be worth nothing then. So both sides are
//! looked at while it runs, and whatever is newer goes to the other. Nothing else of the job's folder ever comes back.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use domain::Insights;
use serde_json::Value;
use tracing::{info, warn};

use crate::engine::bench::Login;
use crate::engine::{EngineEvent, Exit, Judgement, Reply, Session};
use crate::folder::Folder;
use crate::process::Line;

/// Logins are a few tokens; settings are written by people.
const BYTES_MAX: u64 = 1024 * 1024;

/// One login in two places.
pub(crate) struct Carried {
    /// The job's own folder, in which its agent may put anything.
    room: PathBuf,
    /// The folder of the operator's file, open: what somebody puts in its place later is not looked at.
    operators: Folder,
    /// The operator's file in it.
    file: String,
    name: &'static str,
    /// What both held last.
    last: Vec<u8>,
}

impl Carried {
    /// Puts an operator's settings and login into a job's folder. A login that an earlier run refreshed and could not give
    /// back goes back first. `None` where there is no login to carry.
    ///
    /// An operator may have links in a folder of their own. In one that agents can write to, a link is not followed: it
    /// could lead to any file of ours.
    pub(super) fn begin(operators: &Path, whose: Whose, room: &Path, login: &Login) -> io::Result<Option<Self>> {
        for name in login.settings {
            if let Some((folder, file)) = found(operators, whose, name) {
                put(room, name, &folder, &file)?;
            }
        }
        let Some((operators, file)) = found(operators, whose, login.file) else { return Ok(None) };
        let last = operators.read(&file, BYTES_MAX)?;
        let mut carried = Self { room: room.to_owned(), operators, file, name: login.file, last };
        carried.give_back_what_is_newer();
        put(room, carried.name, &carried.operators, &carried.file)?;
        carried.last = carried.operators.read(&carried.file, BYTES_MAX)?;
        Ok(Some(carried))
    }

    /// The same conversation, with both sides looked at whenever the engine says something.
    pub(crate) fn follow(carried: Option<Self>, session: Box<dyn Session>) -> Box<dyn Session> {
        match carried {
            Some(carried) => Box::new(Carrying { carried, session }),
            None => session,
        }
    }

    /// Takes over what was changed on either side. The engine's own change counts more: it has used up what was there.
    fn look(&mut self) {
        let (Some(inside), Ok(outside)) = (self.inside(), self.operators.read(&self.file, BYTES_MAX)) else { return };
        if inside != self.last && is_refreshed(&self.last, &inside) {
            self.give_back(&inside);
            self.last = inside;
        } else if outside != self.last && put(&self.room, self.name, &self.operators, &self.file).is_ok() {
            self.last = outside;
        }
    }

    fn inside(&self) -> Option<Vec<u8>> {
        Folder::open(&self.room).and_then(|room| room.read(self.name, BYTES_MAX)).ok()
    }

    fn give_back_what_is_newer(&self) {
        let Ok((_, left)) = Folder::open(&self.room).and_then(|room| room.file(self.name)) else { return };
        let Ok((_, found)) = self.operators.file(&self.file) else { return };
        let is_newer = (left.st_mtime, left.st_mtime_nsec) > (found.st_mtime, found.st_mtime_nsec);
        if let Some(inside) = self.inside().filter(|inside| is_newer && is_refreshed(&self.last, inside)) {
            self.give_back(&inside);
        }
    }

    fn give_back(&self, login: &[u8]) {
        let owner = self.operators.file(&self.file).map(|(_, before)| (before.st_uid, before.st_gid));
        match owner.and_then(|owner| self.operators.put(&self.file, login, owner)) {
            Ok(()) => info!("An engine has refreshed the login in {}", self.file),
            Err(error) => warn!(%error, "A refreshed login cannot be put back to {}", self.file),
        }
    }

    /// Leaves no login where no engine runs any more, unless it is one that only this copy holds.
    fn end(&mut self) {
        self.look();
        if self.inside().is_some_and(|inside| inside != self.last) {
            warn!("A login in {} has another shape than the operator's: it is left there", self.room.display());
            return;
        }
        let _ = Folder::open(&self.room).and_then(|room| room.remove(self.name));
    }
}

/// Who can change what is in an operator's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The operator alone.
    Operators,
    /// Agents too: it is in the home that they were given.
    Agents,
}

/// An ordinary file of an operator's folder, with the folder that it is really in.
fn found(operators: &Path, whose: Whose, name: &str) -> Option<(Folder, String)> {
    let (folder, name) = match whose {
        Whose::Agents => (operators.to_owned(), name.to_owned()),
        Whose::Operators => {
            let file = operators.join(name).canonicalize().ok()?;
            (file.parent()?.to_owned(), file.file_name()?.to_str()?.to_owned())
        }
    };
    let folder = Folder::open(&folder).ok()?;
    folder.file(&name).ok()?;
    Some((folder, name))
}

/// Puts a copy of an operator's file into a job's folder; whoever has the folder has the copy.
fn put(room: &Path, name: &str, from: &Folder, file: &str) -> io::Result<()> {
    let ((file, mut found), owner) = (from.file(file)?, fs::metadata(room)?);
    (found.st_uid, found.st_gid) = (owner.uid(), owner.gid());
    Folder::open(room)?.copy_in(name, (file, found), BYTES_MAX)
}

/// Whether something can be a login that was refreshed: other values under the same names. What an agent makes up beyond
/// that is not carried anywhere.
fn is_refreshed(before: &[u8], after: &[u8]) -> bool {
    let parsed = |bytes| serde_json::from_slice::<Value>(bytes).ok().filter(Value::is_object);
    matches!((parsed(before), parsed(after)), (Some(before), Some(after)) if has_same_names(&before, &after))
}

fn has_same_names(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let same = |(name, value)| after.get(name).is_some_and(|other| has_same_names(value, other));
            before.len() == after.len() && before.iter().all(same)
        }
        (before, after) => std::mem::discriminant(before) == std::mem::discriminant(after),
    }
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
        self.carried.end();
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
    use std::fs::File;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    const OLD: &str = r#"{"oauth":{"access":"a1","refresh":"r1","expiresAt":1}}"#;
    const NEW: &str = r#"{"oauth":{"access":"a2","refresh":"r2","expiresAt":2}}"#;

    struct Scene {
        operators: TempDir,
        room: TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let scene = Self { operators: tempfile::tempdir().unwrap(), room: tempfile::tempdir().unwrap() };
            fs::write(scene.operators.path().join(".credentials.json"), OLD).unwrap();
            fs::write(scene.operators.path().join("settings.json"), "{}").unwrap();
            fs::write(scene.operators.path().join("history.jsonl"), "words of others").unwrap();
            scene
        }

        fn begin(&self) -> Carried {
            let login = &crate::engine::claude::LOGIN;
            Carried::begin(self.operators.path(), Whose::Operators, self.room.path(), login).unwrap().unwrap()
        }

        fn inside(&self) -> PathBuf {
            self.room.path().join(".credentials.json")
        }

        fn outside(&self) -> String {
            fs::read_to_string(self.operators.path().join(".credentials.json")).unwrap()
        }
    }

    #[test]
    fn a_job_finds_the_login_and_the_settings_and_nothing_else_of_the_operators() {
        let scene = Scene::new();

        let mut carried = scene.begin();

        let mut names: Vec<_> =
            fs::read_dir(scene.room.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".credentials.json", "settings.json"]);
        assert_eq!(fs::read_to_string(scene.inside()).unwrap(), OLD);
        carried.end();
        assert!(!scene.inside().exists(), "no login lies about where nobody works");
    }

    #[test]
    fn a_refreshed_login_goes_back_and_the_agents_settings_do_not() {
        let scene = Scene::new();
        let mut carried = scene.begin();

        fs::write(scene.room.path().join("settings.json"), r#"{"hooks":{}}"#).unwrap();
        fs::write(scene.room.path().join("new"), NEW).unwrap();
        fs::rename(scene.room.path().join("new"), scene.inside()).unwrap();
        carried.look();

        assert_eq!(scene.outside(), NEW);
        assert_eq!(fs::read_to_string(scene.operators.path().join("settings.json")).unwrap(), "{}");
    }

    #[test]
    fn a_login_that_somebody_else_refreshed_reaches_a_job_that_runs() {
        let scene = Scene::new();
        let mut carried = scene.begin();

        fs::write(scene.operators.path().join(".credentials.json"), NEW).unwrap();
        carried.look();

        assert_eq!(fs::read_to_string(scene.inside()).unwrap(), NEW);
        assert_eq!(scene.outside(), NEW);
    }

    #[test]
    fn what_cannot_be_a_refreshed_login_stays_where_it_is() {
        let made_up = [
            "",
            "not json",
            "[]",
            r#"{"oauth":{"access":"a2","refresh":"r2"}}"#,
            r#"{"oauth":{"access":"a2","refresh":"r2","expiresAt":2},"helper":"sh -c evil"}"#,
            r#"{"oauth":{"access":"a2","refresh":"r2","expiresAt":"2"}}"#,
        ];
        for text in made_up {
            let scene = Scene::new();
            let mut carried = scene.begin();
            fs::write(scene.inside(), text).unwrap();
            carried.look();
            assert_eq!(scene.outside(), OLD, "{text}");
        }
        let scene = Scene::new();
        let mut carried = scene.begin();
        fs::write(scene.room.path().join("elsewhere"), NEW).unwrap();
        fs::remove_file(scene.inside()).unwrap();
        symlink(scene.room.path().join("elsewhere"), scene.inside()).unwrap();
        carried.look();
        assert_eq!(scene.outside(), OLD, "a link");
    }

    #[test]
    fn a_link_in_a_folder_of_the_agents_leads_nowhere() {
        let scene = Scene::new();
        let secret = scene.room.path().join("../secret-of-the-factory");
        let login = &crate::engine::claude::LOGIN;
        let begin = || Carried::begin(scene.operators.path(), Whose::Agents, scene.room.path(), login).unwrap();
        let mut carried = begin().unwrap();
        fs::write(&secret, NEW).unwrap();
        for name in [".credentials.json", "settings.json"] {
            fs::remove_file(scene.operators.path().join(name)).unwrap();
            symlink(&secret, scene.operators.path().join(name)).unwrap();
        }

        carried.look();

        assert_eq!(fs::read_to_string(scene.inside()).unwrap(), OLD, "nothing is read through a link");
        fs::write(scene.inside(), NEW.replace("a2", "a3")).unwrap();
        carried.look();
        assert_eq!(fs::read_to_string(&secret).unwrap(), NEW, "nothing is written through a link");
        fs::remove_file(scene.inside()).unwrap();
        assert!(begin().is_none() && !scene.inside().exists());
        fs::remove_file(&secret).unwrap();
    }

    #[test]
    fn a_login_that_was_refreshed_in_a_run_that_died_goes_back_before_the_next() {
        let scene = Scene::new();
        drop(scene.begin());
        fs::write(scene.inside(), NEW).unwrap();
        let later = File::options().write(true).open(scene.inside()).unwrap();
        let written_at = fs::metadata(scene.operators.path().join(".credentials.json")).unwrap().modified().unwrap();
        later.set_modified(written_at + std::time::Duration::from_secs(60)).unwrap();

        drop(scene.begin());

        assert_eq!((scene.outside().as_str(), fs::read_to_string(scene.inside()).unwrap().as_str()), (NEW, NEW));
    }
}
