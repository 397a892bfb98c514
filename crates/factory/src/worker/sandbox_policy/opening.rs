//! What the operator opens for agents, and what stays closed inside of it.

use std::path::{Path, PathBuf};

use engines::login_folders;
use sandbox::{PathAccess, Sandbox};

use super::{is_place, real, surroundings, tools};
use crate::worker::WorkerSettings;

impl WorkerSettings {
    /// The same, with a home that only one engine gets. Marks inside the closed home are opened with it.
    pub(in crate::worker) fn with_home_open(&self, sandbox: Sandbox, home: &Path) -> Sandbox {
        let (is_led, home) = (self.is_led_by_agents(home), real(home));
        let kept: Vec<PathBuf> = self.secret_places().iter().chain([&self.state]).map(|path| real(path)).collect();
        // The target of a link in the home's place stays closed.
        if is_led || kept.iter().any(|kept| home.starts_with(kept)) {
            return sandbox;
        }
        let is_below = |path: &PathBuf| path.starts_with(&home);
        let mut within = self.homes();
        within.retain(|closed| closed != &home && closed.starts_with(&home));
        let closed_still = |path: &PathBuf| within.iter().any(|closed| path.starts_with(closed));
        let marked = self.tools_in_homes().into_iter().chain(self.login_folders()).map(|path| real(&path));
        let marked = marked.filter(|path| is_below(path) && !closed_still(path) && !kept.contains(path));
        let sandbox = marked.fold(sandbox, |sandbox, path| sandbox.without(&path));
        let sandbox = sandbox.with(home.clone(), PathAccess::Everything);
        let fixed = self.unchanging().into_iter().map(|path| real(&path)).filter(is_below);
        fixed.fold(sandbox, |sandbox, path| sandbox.at_most(&path, PathAccess::Read))
    }

    /// What the operator made writable for all programs.
    pub(super) fn written(&self) -> impl Iterator<Item = PathBuf> {
        self.writable.iter().cloned().chain(self.environment.home.clone())
    }

    /// All that agents can write to, whatever their engine.
    pub fn open_to_agents(&self) -> Vec<PathBuf> {
        let homes = self.environments().filter_map(|environment| environment.home.clone());
        homes.chain(self.writable.iter().cloned()).chain(surroundings::temporary()).chain(self.temporary()).collect()
    }

    /// Whether a path leads to a target that agents chose, by a link that they could have made.
    pub(super) fn is_led_by_agents(&self, path: &Path) -> bool {
        let Some((parent, name)) = path.parent().zip(path.file_name()) else { return false };
        if path.symlink_metadata().is_err() {
            return false;
        }
        let (unlinked, found) = (real(parent).join(name), real(path));
        self.open_to_agents().iter().any(|open| {
            let way = path.strip_prefix(open).ok().map(|rest| real(open).join(rest));
            let is_within = unlinked.starts_with(real(open));
            way.is_some_and(|way| way != found) || (is_within && unlinked != found)
        })
    }

    /// The installed tools in homes.
    pub(super) fn tools_in_homes(&self) -> Vec<PathBuf> {
        let (homes, path) = (self.homes(), self.path());
        let tools = homes.iter().flat_map(|home| tools::in_home(home, &path));
        let named = sandbox::toolchain_directories(&std::env::vars_os().collect())
            .into_iter()
            .map(|directory| real(&directory));
        let named = named.filter(|directory| homes.iter().any(|home| directory != home && directory.starts_with(home)));
        tools.chain(named).filter(|path| path.exists()).collect()
    }

    /// What runs later outside the sandbox, and so must not be writable for agents, whatever is open around it.
    pub(super) fn unchanging(&self) -> Vec<PathBuf> {
        let (homes, path) = (self.homes(), self.path());
        let linked = homes.iter().flat_map(|home| tools::linked(home, &path));
        let is_given = |folder: &PathBuf| self.writable.iter().any(|open| real(open) == *folder);
        let programs = path.iter().filter(|folder| !is_given(folder)).cloned();
        let guard = self.guard.iter().flatten().take(1).map(PathBuf::from);
        programs.chain(linked).chain(guard).chain(self.fixed.iter().cloned()).collect()
    }

    /// Directories with credentials that no agent may read, other than those in closed homes. One inside of a writable
    /// directory is as open as that: closing it would keep agents from creating files around it.
    pub(super) fn closed_logins(&self) -> Vec<PathBuf> {
        let written: Vec<PathBuf> = self.written().filter(|open| !self.is_led_by_agents(open)).collect();
        let is_open = |folder: &PathBuf| written.iter().any(|open| folder.starts_with(real(open)));
        let is_named = |folder: &PathBuf| self.readable.iter().any(|open| real(open) == *folder);
        self.login_folders().into_iter().filter(|folder| !is_open(folder) && !is_named(folder)).collect()
    }

    fn login_folders(&self) -> Vec<PathBuf> {
        let variables: Vec<_> = std::env::vars_os().collect();
        let folders = login_folders(&self.engines, &variables).into_iter();
        // Hiding a directory hides all that is below it, in every run: the target of an agent's link is not hidden.
        let folders = folders.filter(|folder| folder.is_absolute() && !self.is_led_by_agents(folder));
        folders.map(|folder| real(&folder)).filter(|folder| is_place(folder)).collect()
    }
}
