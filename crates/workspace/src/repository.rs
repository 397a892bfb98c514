//! The remote and the identity of a configured repository [F3].
//!
//! A working clone stands for its `origin`. A bare repository, and a clone without a remote, are the remote themselves; in
//! the latter the operator works, so its checked-out branches are never pushed to.

mod git_config;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use domain::{BranchName, RepoIdentity};
use sha2::{Digest, Sha256};

use crate::config::RepoConfig;
use crate::remote::{Remote, RemoteError};
use git_config::GitConfigFile;

/// The longest chain of clones.
const CLONES_MAX: usize = 5;

/// A configured repository, as it is found on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    url: String,
    remote: Remote,
    identity: RepoIdentity,
    checkout: Option<GitDir>,
    clones: Vec<PathBuf>,
}

impl Repository {
    /// Finds the remote of `config`. Reads local files only.
    pub fn of(config: &RepoConfig) -> Result<Self, RemoteError> {
        let (mut url, mut clones) = (config.url.clone(), Vec::new());
        for _ in 0..CLONES_MAX {
            let remote = Remote::parse(&url)?;
            let Some(folder) = remote.folder().map(Path::to_owned) else {
                return Self::made_of(url, remote, None, clones, config);
            };
            let Some(checkout) = GitDir::of_clone(&folder) else {
                return Self::made_of(url, remote, None, clones, config);
            };
            match checkout.origin()? {
                Some(origin) => {
                    clones.push(folder.clone());
                    url = placed(&origin, &folder);
                }
                None => return Self::made_of(url, remote, Some(checkout), clones, config),
            }
        }
        Err(RemoteError { why: "it is a clone of a clone of a clone, too many times over" })
    }

    fn made_of(
        url: String,
        remote: Remote,
        checkout: Option<GitDir>,
        clones: Vec<PathBuf>,
        config: &RepoConfig,
    ) -> Result<Self, RemoteError> {
        let found = || match remote.folder() {
            Some(folder) => {
                let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
                RepoIdentity::local(host_id(), &folder.to_string_lossy())
            }
            None => RepoIdentity::of_url(remote.url()),
        };
        let identity = config.identity.clone().or_else(found);
        let identity = identity.ok_or(RemoteError { why: "it names no repository on its host" })?;
        Ok(Self { url, remote, identity, checkout, clones })
    }

    /// The configured URL of its remote, with a credential if it has one.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its remote.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Its identity.
    pub fn identity(&self) -> &RepoIdentity {
        &self.identity
    }

    /// The directory in which the operator works, if it is a clone without a remote.
    pub fn checkout(&self) -> Option<&Path> {
        self.checkout.as_ref().map(|checkout| checkout.folder.as_path())
    }

    /// Every directory of this machine on the way to it: working clones, and its remote.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.clones.iter().map(PathBuf::as_path).chain(self.remote.folder())
    }

    /// The settings files of the clones on the way to it, if its URL holds a credential.
    pub fn files_with_login(&self) -> Vec<PathBuf> {
        if self.remote.login().is_none() && self.remote.shown() == self.remote.url() {
            return Vec::new();
        }
        let clones = self.clones.iter().filter_map(|clone| GitDir::of_clone(clone));
        clones.map(|clone| clone.common.join("config")).collect()
    }

    pub(crate) fn into_parts(self) -> (Remote, RepoIdentity, Option<GitDir>) {
        (self.remote, self.identity, self.checkout)
    }
}

/// The git directory of a working clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitDir {
    folder: PathBuf,
    /// What all worktrees of the clone share.
    common: PathBuf,
}

impl GitDir {
    /// The git directory of the working clone at `folder`; `None` for a bare repository, and for anything else.
    fn of_clone(folder: &Path) -> Option<Self> {
        let inside = folder.join(".git");
        let own = if inside.is_dir() {
            inside
        } else if inside.is_file() {
            let text = fs::read_to_string(&inside).ok()?;
            folder.join(text.strip_prefix("gitdir:")?.trim())
        } else {
            folder.to_owned()
        };
        let common = fs::read_to_string(own.join("commondir")).map_or(own.clone(), |text| own.join(text.trim()));
        let settings = GitConfigFile::read(&common.join("config"));
        // A directory that is a repository itself is bare unless it is configured otherwise.
        let is_bare =
            settings.value("core", None, "bare").map_or(own == folder, |value| value.eq_ignore_ascii_case("true"));
        (!is_bare && common.join("objects").is_dir()).then(|| Self { folder: folder.to_owned(), common })
    }

    /// The URL of the remote that the clone stands for: that of `origin`, or of its only remote.
    fn origin(&self) -> Result<Option<String>, RemoteError> {
        let remotes = GitConfigFile::read(&self.common.join("config")).remotes();
        match (remotes.get("origin"), remotes.len()) {
            (Some(url), _) => Ok(Some(url.clone())),
            (None, 0 | 1) => Ok(remotes.into_values().next()),
            (None, _) => Err(RemoteError { why: "the clone has several remotes and none of them is `origin`" }),
        }
    }

    /// The worktree of the clone in which a branch is checked out.
    pub(crate) fn worktree_on(&self, branch: &BranchName) -> Option<PathBuf> {
        let is_on = |git_dir: &Path| {
            let head = fs::read_to_string(git_dir.join("HEAD")).unwrap_or_default();
            head.strip_prefix("ref: refs/heads/").is_some_and(|head| head.trim_end() == branch.as_str())
        };
        if is_on(&self.common) {
            return Some(self.folder.clone());
        }
        let linked = fs::read_dir(self.common.join("worktrees")).into_iter().flatten().flatten();
        let linked = linked.map(|entry| entry.path()).find(|git_dir| is_on(git_dir))?;
        let place = fs::read_to_string(linked.join("gitdir")).unwrap_or_default();
        Some(Path::new(place.trim()).parent().unwrap_or(&self.folder).to_owned())
    }
}

/// A remote's URL resolved against a clone in `folder`: a path without a scheme is relative to the clone.
fn placed(url: &str, folder: &Path) -> String {
    let is_path = !url.contains("://") && url.split('/').next().is_some_and(|first| !first.contains(':'));
    match is_path {
        true => {
            let path = folder.join(url);
            path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
        }
        false => url.to_owned(),
    }
}

/// A unique name of this machine: a digest of its machine id, or of its host name if it has none.
fn host_id() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let files = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
        let mut ids = files.iter().filter_map(|file| fs::read_to_string(file).ok());
        let id = ids.find(|id| !id.trim().is_empty());
        let id = id.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
        let digest = Sha256::digest(format!("gigafactory host {}", id.trim()).as_bytes());
        digest[..6].iter().map(|byte| format!("{byte:02x}")).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> RepoConfig {
        RepoConfig::at(url, "main".parse().unwrap())
    }

    /// A working clone without a commit.
    fn clone_at(folder: &Path, settings: &str) -> PathBuf {
        fs::create_dir_all(folder.join(".git/objects")).unwrap();
        fs::write(folder.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(folder.join(".git/config"), format!("[core]\n\tbare = false\n{settings}")).unwrap();
        folder.to_owned()
    }

    fn of(folder: &Path) -> Result<Repository, RemoteError> {
        Repository::of(&config(folder.to_str().unwrap()))
    }

    #[test]
    fn a_working_clone_stands_for_its_origin() {
        let place = tempfile::tempdir().unwrap();
        let clone = clone_at(
            &place.path().join("notes"),
            "[remote \"upstream\"]\n\turl = https://github.com/other/notes\n\
             [remote \"origin\"]\n\turl = https://me:hunter2@github.com/acme/notes.git\n",
        );

        let found = of(&clone).unwrap();

        assert_eq!(found.remote().url(), "https://github.com/acme/notes.git");
        assert_eq!(found.remote().login(), Some(("me", "hunter2")));
        assert_eq!(found.identity().as_str(), "github.com/acme/notes");
        assert_eq!((found.checkout(), found.folders().collect::<Vec<_>>()), (None, vec![clone.as_path()]));
    }

    #[test]
    fn clones_of_one_name_on_two_machines_are_told_apart_by_their_origin() {
        let place = tempfile::tempdir().unwrap();
        let at = |machine: &str, url: &str| {
            let clone =
                clone_at(&place.path().join(machine).join("notes"), &format!("[remote \"origin\"]\nurl={url}\n"));
            of(&clone).unwrap().identity().clone()
        };

        assert_eq!(at("one", "git@github.com:acme/notes.git"), at("two", "https://github.com/acme/notes"));
        assert_ne!(at("one", "git@github.com:acme/notes.git"), at("two", "https://github.com/other/notes"));
    }

    #[test]
    fn a_clone_without_a_remote_is_its_own_and_knows_what_is_checked_out() {
        let place = tempfile::tempdir().unwrap();
        let clone = clone_at(&place.path().join("notes"), "");
        let linked = clone.join(".git/worktrees/review");
        fs::create_dir_all(&linked).unwrap();
        fs::write(linked.join("HEAD"), "ref: refs/heads/aq/job/1\n").unwrap();
        fs::write(linked.join("gitdir"), "/home/me/review/.git\n").unwrap();

        let found = of(&clone).unwrap();

        assert_eq!(found.checkout(), Some(clone.as_path()));
        assert!(found.identity().as_str().starts_with("file://"), "{}", found.identity());
        let on = |branch: &str| found.checkout.as_ref().unwrap().worktree_on(&branch.parse().unwrap());
        assert_eq!(on("main"), Some(clone));
        assert_eq!(on("aq/job/1"), Some(PathBuf::from("/home/me/review")));
        assert_eq!(on("aq/job/2"), None);
    }

    #[test]
    fn a_bare_repository_is_the_remote_itself_even_if_it_was_cloned() {
        let place = tempfile::tempdir().unwrap();
        let bare = place.path().join("notes.git");
        fs::create_dir_all(bare.join("objects")).unwrap();
        fs::write(bare.join("config"), "[core]\nbare = true\n[remote \"origin\"]\nurl = https://github.com/a/b\n")
            .unwrap();

        let found = of(&bare).unwrap();

        assert_eq!(found.remote().folder(), Some(bare.as_path()));
        assert_eq!(found.checkout(), None);
    }

    #[test]
    fn a_relative_origin_is_beside_the_clone_and_a_clone_of_a_clone_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        clone_at(&root.join("first"), "[remote \"origin\"]\nurl = https://github.com/acme/notes\n");
        let second = clone_at(&root.join("second"), "[remote \"only\"]\nurl = ../first\n");

        let found = of(&second).unwrap();

        assert_eq!(found.identity().as_str(), "github.com/acme/notes");
        assert_eq!(found.folders().collect::<Vec<_>>(), [second.as_path(), root.join("first").as_path()]);
    }

    #[test]
    fn an_origin_that_cannot_be_used_is_refused_without_its_password() {
        let place = tempfile::tempdir().unwrap();
        let plain = clone_at(&place.path().join("a"), "[remote \"origin\"]\nurl = http://me:hunter2@forge.example/a\n");
        let two = "[remote \"a\"]\nurl = https://a.example/a\n[remote \"b\"]\nurl = https://b.example/b\n";
        let several = clone_at(&place.path().join("b"), two);

        assert!(!of(&plain).unwrap_err().to_string().contains("hunter2"));
        assert!(of(&several).unwrap_err().to_string().contains("several remotes"));
    }

    #[test]
    fn the_configuration_can_say_which_repository_it_is() {
        let identity = RepoIdentity::of_url("https://github.com/acme/notes");
        let aliased = RepoConfig { identity: identity.clone(), ..config("git@github-work:acme/notes.git") };

        assert_eq!(Some(Repository::of(&aliased).unwrap().identity()), identity.as_ref());
    }
}
