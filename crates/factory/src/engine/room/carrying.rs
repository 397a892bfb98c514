//! An operator's login on its way into a job's own folder, and a refreshed one on its way back.
//!
//! An engine changes its login when it is about to expire, and the old one may be worth nothing then. So both sides are
//! looked at while it runs, and whatever is newer goes to the other. Nothing else of the job's folder ever comes back.
//! [`Carried::settle`] is the one end of it, whoever comes to it: the run, its next one, or a process after a crash.
//!
//! A login that may be the only one is not removed from the room, nor written over there, before it is on the disk where
//! the operator has it or beside the note for a person. Whatever goes wrong on the way, everything stays as it is.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::Clock;
use sandbox::{DirFd, FileAttributes, UNFINISHED_SUFFIX, replace_file};
use tracing::{info, warn};

use super::lineage::{Lineage, Origin};
use super::operators::{OperatorsFile, Whose, bring_settings, look_at};
use super::refreshed::{Moment, Service};
use super::signed::{essence, has_login, without_withheld};
use super::standing::{Elsewhere, Found, Refresh, Standing};
use super::turn::{Turn, patiently};
use crate::engine::registry::SignInMethod;

/// What the name of a login ends with that is kept for a person.
const REFUSED: &str = "refused-login";
/// So many of one job are kept; after that, the last one is the latest.
const REFUSED_MAX: u32 = 8;

/// So many files beside a login are looked at for one that was not put into its place. An engine leaves one.
const UNPLACED_MAX: usize = 64;

/// What the name of an operator's file ends with that a refreshed login has taken the place of.
const REPLACED: &str = "replaced-login";

/// One login in two places. Dropping it settles it.
pub(crate) struct Carried {
    /// The job's own folder, in which its agent may put anything.
    room: PathBuf,
    /// The folder of the operator's file, open: what somebody puts in its place later is not looked at. None where there is
    /// none, which may only be a disk that is not there yet.
    operators: Option<DirFd>,
    login: &'static SignInMethod,
    lineage: Lineage,
    clock: Arc<dyn Clock>,
    /// What the engine has heard of the login.
    service: Service,
    /// Whether the operator's file, as it was before the first refresh, is kept.
    is_kept: bool,
    is_settled: bool,
    /// Whether the log knows that something is wrong.
    is_troubled: bool,
}

impl Carried {
    /// Puts an operator's settings and login into a job's folder, in which nothing is left to settle. `None` where there is
    /// no login to carry.
    ///
    /// An operator may have links in a folder of their own. In one that agents can write to, a link is not followed: it
    /// could lead to any file of ours.
    pub(super) fn begin(
        (operators, whose): (&Path, Whose),
        (room, note): (&Path, &Path),
        (login, clock): (&'static SignInMethod, &Arc<dyn Clock>),
        turn: &Turn,
    ) -> io::Result<Option<Self>> {
        bring_settings((operators, whose), room, login)?;
        let Some(found) = look_at(operators, whose, login.file)? else { return Ok(None) };
        let OperatorsFile { folder, name: file, bytes: outside } = found;
        if !has_login(&outside, login) {
            return Ok(None);
        }
        let lineage = Lineage::begin(note, Origin { folder, file, name: login.file.to_owned() })?;
        let mut carried = Self::of(lineage, room.to_owned(), clock)?;
        if let Err(error) = carried.keep_stray(&outside).and_then(|()| carried.take_in(&outside, None)) {
            // Nothing was carried, so that there is nothing to lose.
            let _ = carried.settle_in(turn);
            return Err(error);
        }
        Ok(Some(carried))
    }

    /// What a note tells of a login that was carried.
    pub(super) fn of(lineage: Lineage, room: PathBuf, clock: &Arc<dyn Clock>) -> io::Result<Self> {
        let Origin { folder, name, .. } = lineage.origin();
        let login = SignInMethod::in_file(name).ok_or_else(|| io::Error::other("no engine has such a login"))?;
        let operators = match DirFd::open_straight(folder) {
            Ok(folder) => Some(folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (clock, service) = (Arc::clone(clock), Service::Silent);
        let carried = Self {
            room,
            operators,
            login,
            lineage,
            clock,
            service,
            is_kept: false,
            is_settled: false,
            is_troubled: false,
        };
        Ok(carried)
    }

    /// The service did not take the login, so that its engine may refresh it at any time.
    pub(super) fn was_refused(&mut self) {
        self.service = Service::Refused;
    }

    /// Takes over what was changed on either side.
    pub(super) fn look(&mut self) {
        let done = self.bring_together();
        if let Err(error) = &done
            && !self.is_troubled
        {
            warn!(%error, "The login in {} and the operator's cannot be brought together", self.room.display());
        }
        self.is_troubled = done.is_err();
    }

    fn bring_together(&mut self) -> io::Result<()> {
        // Mostly nothing has changed, and nobody has to wait for anybody.
        if !self.lineage.is_current()? || matches!(self.standing()?, Standing::Even | Standing::Refused { .. }) {
            return Ok(());
        }
        // Whoever has it does not keep the engine from being heard: the next look is soon.
        let Some(_turn) = Turn::take_if_free(self.lineage.path())? else { return Ok(()) };
        if !self.lineage.is_current()? {
            return Ok(());
        }
        match self.standing()? {
            Standing::Newer(refresh) => self.give_back(&refresh),
            Standing::Older { outside, inside, elsewhere } => {
                self.keep_only_one(&inside, elsewhere)?;
                self.take_in(&outside, Some(&inside))
            }
            Standing::Even | Standing::Refused { .. } => Ok(()),
        }
    }

    /// Gives a refreshed login back and leaves none in the room. What cannot be given back for its own sake is kept for a
    /// person, out of the agent's reach; where the disk refuses, everything stays for whoever comes next.
    pub(super) fn settle(&mut self) {
        if self.is_settled {
            return;
        }
        let settled = patiently(|| Turn::take(self.lineage.path()).and_then(|turn| self.settle_in(&turn)));
        self.is_settled = true;
        if let Err(error) = settled {
            warn!(%error, "A login cannot be settled: it stays in {}", self.room.display());
        }
    }

    /// The same, for who acts already.
    pub(super) fn settle_in(&mut self, _turn: &Turn) -> io::Result<()> {
        if std::mem::replace(&mut self.is_settled, true) || !self.lineage.is_current()? {
            return Ok(());
        }
        match self.standing()? {
            Standing::Newer(refresh) => self.give_back(&refresh)?,
            Standing::Older { inside, elsewhere, .. } => self.keep_only_one(&inside, elsewhere)?,
            Standing::Refused { inside: Some(inside), why } => self.set_aside(&inside, why)?,
            Standing::Refused { inside: None, why } => {
                warn!("What an engine left in the place of the login in {} is removed: {why}", self.room.display());
            }
            Standing::Even => {}
        }
        self.clear()
    }

    fn standing(&self) -> io::Result<Standing> {
        let outside = || match &self.operators {
            Some(folder) => Found::look(folder, &self.lineage.origin().file),
            None => {
                let folder = self.lineage.origin().folder.display();
                Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {folder} to give it back to")))
            }
        };
        let moment = Moment { now: self.clock.now(), service: self.service };
        Standing::of(self.inside()?, outside, &self.lineage, (self.login, moment))
    }

    fn inside(&self) -> io::Result<Found> {
        match DirFd::open(&self.room) {
            Ok(room) => Found::look(&room, self.login.file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Puts the operator's login into the room, over the one that was `seen` there.
    fn take_in(&mut self, outside: &[u8], seen: Option<&[u8]>) -> io::Result<()> {
        let carried = without_withheld(outside, self.login);
        self.lineage.hold(&self.essence(outside))?;
        let owner = fs::metadata(&self.room)?;
        let like = FileAttributes { owner: (owner.uid(), owner.gid()), mode: 0o600 };
        let room = DirFd::open(&self.room)?;
        let copy = room.prepare(self.unfinished(), &*carried, like)?;
        match (seen, Found::look(&room, self.login.file)?) {
            // The engine has just refreshed it, and the next look sees that.
            (Some(seen), Found::File(now)) if now != seen => Ok(()),
            _ => copy.install(self.login.file),
        }
    }

    fn give_back(&mut self, refresh: &Refresh) -> io::Result<()> {
        let Refresh { inside, outside, merged } = refresh;
        let login = self.essence(inside);
        self.lineage.foresee(&login, &self.essence(outside))?;
        if !self.is_kept {
            replace_file(&self.lineage.beside(REPLACED), outside)?;
            self.is_kept = true;
        }
        let operators = self.operators.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let Origin { folder, file, .. } = self.lineage.origin();
        let (_, before) = operators.file(file)?;
        let copy = operators.prepare(self.unfinished(), &**merged, FileAttributes::found(&before))?;
        if Found::look(operators, file)? != Found::File(outside.clone()) {
            return Err(io::Error::other("the operator's has changed at this very moment"));
        }
        copy.install(file)?;
        info!("An engine has refreshed the login in {}", folder.join(file).display());
        self.lineage.hold(&login)
    }

    /// What lies in the room of a job that has no note was left by nobody that we know.
    fn keep_stray(&self, outside: &[u8]) -> io::Result<()> {
        match self.inside()? {
            Found::File(inside) if self.essence(&inside) != self.essence(outside) => {
                self.set_aside(&inside, "nothing is known of it")
            }
            Found::Odd(_) => self.clear_room(),
            Found::File(_) | Found::Nothing => Ok(()),
        }
    }

    fn keep_only_one(&self, inside: &[u8], elsewhere: Elsewhere) -> io::Result<()> {
        match elsewhere {
            Elsewhere::Too => Ok(()),
            Elsewhere::Not => self.set_aside(inside, "the operator's was changed meanwhile, by somebody else"),
        }
    }

    fn set_aside(&self, inside: &[u8], why: &str) -> io::Result<()> {
        let names = (2..=REFUSED_MAX).map(|number| format!("{REFUSED}-{number}"));
        let mut places = std::iter::once(REFUSED.to_owned()).chain(names).map(|name| self.lineage.beside(&name));
        let is_free = |path: &PathBuf| {
            fs::read(path).map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |kept| kept == inside)
        };
        let last = || self.lineage.beside(&format!("{REFUSED}-{REFUSED_MAX}"));
        let kept = places.find(is_free).unwrap_or_else(last);
        replace_file(&kept, inside)?;
        let file = self.lineage.origin().folder.join(&self.lineage.origin().file);
        warn!(
            "What an engine left in the place of the login {} is not given back: {why}. It is kept as {}",
            file.display(),
            kept.display()
        );
        Ok(())
    }

    /// Leaves no login in the room, nor a part of one that somebody was writing, and no note of it.
    fn clear(&self) -> io::Result<()> {
        self.clear_room()?;
        if let Some(operators) = &self.operators {
            // A folder that cannot be written to has none of ours in it.
            let _ = operators.remove(self.unfinished());
        }
        self.lineage.end()
    }

    fn clear_room(&self) -> io::Result<()> {
        let room = match DirFd::open(&self.room) {
            Ok(room) => room,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut names = room.names()?;
        names.retain(|name| name.to_string_lossy().contains(self.login.file));
        for name in names.iter().filter(|name| !self.is_ours(name)).take(UNPLACED_MAX) {
            self.keep_unplaced(&room, name)?;
        }
        let now = self.clock.now().as_millis();
        for (number, name) in names.iter().enumerate() {
            match room.is_folder(name)? {
                // A folder is no login, and whatever is in it takes long to remove. It is only moved out of the way.
                true if self.is_ours(name) => room.rename(name, format!("folder-{now}-{number}"))?,
                true => {}
                false => remove(&room, name)?,
            }
        }
        room.sync()
    }

    /// An engine writes a refreshed login beside the one that it has. A kill before the file is in its place leaves the only
    /// one that is worth anything.
    fn keep_unplaced(&self, room: &DirFd, name: &OsStr) -> io::Result<()> {
        match Found::look(room, name)? {
            Found::File(found) if has_login(&found, self.login) && !self.lineage.was_held(&self.essence(&found)) => {
                self.set_aside(&found, "it was written, and not put there")
            }
            Found::File(_) | Found::Odd(_) | Found::Nothing => Ok(()),
        }
    }

    /// Whether something in the room has a name that we write to.
    fn is_ours(&self, name: &OsStr) -> bool {
        name == self.login.file || *name == *self.unfinished()
    }

    fn essence(&self, file: &[u8]) -> Vec<u8> {
        essence(file, self.login)
    }

    /// What a login is called, wherever this job is writing one.
    fn unfinished(&self) -> String {
        format!(".{}.{}{UNFINISHED_SUFFIX}", self.login.file, self.lineage.job())
    }
}

/// A run that is not followed to its end leaves no login either.
impl Drop for Carried {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Removes a file, also from a folder that an agent made read-only.
fn remove(room: &DirFd, name: &OsStr) -> io::Result<()> {
    match room.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            room.set_mode(0o700)?;
            room.remove(name)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
