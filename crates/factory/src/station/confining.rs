//! What the programs of a factory are kept from [T8].

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tracing::{info, warn};

use super::{StationError, StationSettings};
use crate::process::{Confine, Confinement, Enclosure, Reach};
use crate::remote::{Remote, Transport};
use crate::scrub::Scrubber;
use crate::state::StateDir;

/// Where people and programs keep credentials in a home folder.
const CREDENTIALS: [&str; 14] = [
    ".ssh",
    ".gnupg",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/gcloud",
    ".aws",
    ".azure",
    ".kube",
    ".docker/config.json",
    ".npmrc",
    ".pypirc",
    ".config/gigafactory",
];

impl StationSettings {
    /// Keeps programs from a file if it holds what would be taken out of a log.
    pub fn hide_secrets_in(&mut self, file: &Path) {
        let scrubber = Scrubber::new(self.known_secrets());
        if fs::read_to_string(file).is_ok_and(|text| scrubber.text(&text) != text) {
            self.hidden.push(file.to_owned());
        }
    }

    /// What keeps programs from this factory's own files, if something can. Says so.
    pub(super) fn enclosure(&self, state: &StateDir) -> Result<Option<Enclosure>, StationError> {
        let name = &self.name;
        let account = self.run_as.as_deref().map(|account| format!("account `{account}`"));
        match (settle(self.confine, self.confine.in_force())?, account) {
            (Confinement::None(why), None) => {
                warn!(factory.id = %name, "Agents of factory `{name}` can reach its own files, tokens among them: {why}");
                Ok(None)
            }
            (Confinement::None(why), Some(account)) => {
                info!(factory.id = %name, "Agents of factory `{name}` are confined by {account} alone: {why}");
                Ok(None)
            }
            (Confinement::Kernel(means), account) => {
                let by = account.map_or_else(|| means.clone(), |account| format!("{means}, and {account}"));
                info!(factory.id = %name, "Agents of factory `{name}` are confined by {by}");
                let enclosure = self.marks(state);
                self.say_what_is_narrow(&enclosure);
                Ok(Some(enclosure))
            }
        }
    }

    fn marks(&self, state: &StateDir) -> Enclosure {
        let hidden = self.hidden.iter().cloned().chain(self.forge.token_file.clone()).chain(self.credentials());
        let hidden = hidden.chain(disks());
        // An agent that could write to a repository on this disk could move any branch of it.
        let remotes = self.repos.values().filter_map(|repo| Remote::parse(&repo.url).ok());
        let remotes = remotes.filter(|remote| remote.transport() == Transport::Folder);
        let read =
            remotes.map(|remote| remote.url().trim_start_matches("file://").into()).chain(self.repo_base.clone());
        let marks = read.map(|path| (path, Reach::Read)).chain(hidden.map(|path| (path, Reach::Nothing)));
        let marks = marks.fold(Enclosure::default(), |enclosure, (path, reach)| enclosure.with(path, reach));
        // The home that stays empty is for the programs that are asked for their version.
        marks.with(state.root(), Reach::Nothing).with(state.empty_home(), Reach::Everything)
    }

    /// Credentials of whoever runs the factory, and those that its git uses. Whoever gives programs a home means what is
    /// in it.
    fn credentials(&self) -> Vec<PathBuf> {
        let given: Vec<&Path> = self.environments().filter_map(|environment| environment.home.as_deref()).collect();
        let own = std::env::home_dir().filter(|home| home.is_absolute());
        let homes = own.into_iter().chain(self.git.home.clone()).filter(|home| !given.contains(&home.as_path()));
        let all = homes.flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
        all.chain(self.git.askpass.clone()).filter(|path| path.exists()).collect()
    }

    /// Where something is hidden below a folder, programs can make nothing in it that was not there when they started.
    fn say_what_is_narrow(&self, enclosure: &Enclosure) {
        let homes = self.environments().filter_map(|environment| environment.home.clone());
        for folder in homes.chain([std::env::temp_dir()]).filter(|folder| enclosure.narrows(folder)) {
            warn!(
                factory.id = %self.name,
                "Agents can make no new files directly in {}, because something below it is kept from them: \
                 keep the factory's `state` and the coordinator's `data` elsewhere",
                folder.display()
            );
        }
    }
}

/// Root reads every file of a disk from the disk itself.
fn disks() -> Vec<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let is_disk = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_block_device());
    entries.filter(is_disk).map(|entry| entry.path()).collect()
}

/// What a wish comes to, unless it comes to nothing and must not.
pub(super) fn settle(wish: Confine, found: Confinement) -> Result<Confinement, StationError> {
    match found {
        Confinement::None(why) if wish == Confine::Required => Err(StationError::NotConfined(why)),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factory_that_must_confine_its_agents_and_cannot_does_not_work() {
        let none = || Confinement::None("no Landlock".to_owned());
        let kernel = || Confinement::Kernel("landlock".to_owned());

        let refused = settle(Confine::Required, none()).unwrap_err();

        let expected = "`confine` is \"required\", and agents cannot be confined: no Landlock";
        assert_eq!(refused.to_string(), expected);
        assert_eq!(settle(Confine::Required, kernel()).unwrap(), kernel());
        assert_eq!(settle(Confine::Auto, none()).unwrap(), none());
    }
}
