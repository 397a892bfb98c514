//! What an operator opens for agents, and what stays closed inside of it.

use std::path::{Path, PathBuf};

use super::{is_place, real, tools};
use crate::engine::login_folders;
use crate::process::{Enclosure, Reach};
use crate::station::StationSettings;

impl StationSettings {
    /// The same, with a home that one engine alone is given. What was marked because the home was closed is open with it.
    pub(in crate::station) fn with_home_open(&self, enclosure: Enclosure, home: &Path) -> Enclosure {
        let home = real(home);
        let is_below = |path: &PathBuf| path.starts_with(&home);
        let around = self.homes().into_iter().find(|closed| closed != &home && closed.starts_with(&home));
        let closed_still = |path: &PathBuf| around.as_ref().is_some_and(|around| path.starts_with(around));
        let marked = self.tools_in_homes().into_iter().chain(self.login_folders()).map(|path| real(&path));
        let secret: Vec<PathBuf> = self.secret_places().iter().map(|path| real(path)).collect();
        let marked = marked.filter(|path| is_below(path) && !closed_still(path) && !secret.contains(path));
        let enclosure = marked.fold(enclosure, |enclosure, path| enclosure.without(&path));
        let enclosure = enclosure.with(home.clone(), Reach::Everything);
        let fixed = self.unchanging().into_iter().map(|path| real(&path)).filter(is_below);
        fixed.fold(enclosure, |enclosure, path| enclosure.at_most(&path, Reach::Read))
    }

    /// What an operator gave all programs to write to.
    pub(super) fn written(&self) -> impl Iterator<Item = PathBuf> {
        self.writable.iter().cloned().chain(self.environment.home.clone())
    }

    /// The tools in homes that are there.
    pub(super) fn tools_in_homes(&self) -> Vec<PathBuf> {
        let (homes, path) = (self.homes(), self.path());
        let tools = homes.iter().flat_map(|home| tools::in_home(home, &path));
        tools.filter(|path| path.exists()).collect()
    }

    /// What runs later outside, and so must not be an agent's work, whatever is open around it.
    pub(super) fn unchanging(&self) -> Vec<PathBuf> {
        let (homes, path) = (self.homes(), self.path());
        let linked = homes.iter().flat_map(|home| tools::linked(home, &path));
        let is_given = |folder: &PathBuf| self.writable.iter().any(|open| real(open) == *folder);
        let programs = path.iter().filter(|folder| !is_given(folder)).cloned();
        let guard = self.guard.iter().flatten().take(1).map(PathBuf::from);
        programs.chain(linked).chain(guard).chain(self.fixed.iter().cloned()).collect()
    }

    /// Folders with logins that no agent is to find, other than those in closed homes. One inside of what agents can write
    /// to is as open as that: closing it would keep them from making files around it.
    pub(super) fn closed_logins(&self) -> Vec<PathBuf> {
        let is_open = |folder: &PathBuf| self.written().any(|open| folder.starts_with(real(&open)));
        let is_named = |folder: &PathBuf| self.readable.iter().any(|open| real(open) == *folder);
        let folders = self.login_folders().into_iter().map(|folder| real(&folder));
        folders.filter(|folder| !is_open(folder) && !is_named(folder)).collect()
    }

    fn login_folders(&self) -> Vec<PathBuf> {
        let variables: Vec<_> = std::env::vars_os().collect();
        let folders = login_folders(&self.engines, &variables);
        folders.into_iter().filter(|folder| is_place(folder)).collect()
    }
}
