//! Submodules, checked out for reading if configured [F3].
//!
//! Each is a repository of its own inside the worktree, like any that the agent could make: nothing in it is trusted
//! later, and the agent's changes there are not part of its work.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use domain::CommitSha;
use sandbox::make_private_folder;

use crate::error::Error;
use crate::git::GitError;
use crate::mirror::{Mirror, quiet};
use crate::remote::{Remote, Transport};
use crate::worktree::Worktree;

/// A submodule as the commit records it.
struct Submodule {
    path: String,
    sha: CommitSha,
    remote: Remote,
}

/// The initial content of such a repository.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";

impl Mirror {
    /// Checks out the submodules of `content` into a worktree, without nested submodules.
    pub(crate) async fn check_out_submodules(&self, worktree: &Worktree, content: &CommitSha) -> Result<(), Error> {
        if !self.submodules {
            return Ok(());
        }
        for submodule in self.submodules_of(content).await? {
            self.check_out_submodule(worktree, &submodule).await?;
        }
        Ok(())
    }

    async fn check_out_submodule(&self, worktree: &Worktree, submodule: &Submodule) -> Result<(), Error> {
        let refused =
            || Error::Submodule { repo: self.repo.clone(), path: domain::escape_for_terminal(&submodule.path) };
        let folder = place(worktree.path(), &submodule.path).ok_or_else(refused)?;
        let repository = folder.join(".git");
        for inner in ["objects", "refs"] {
            let inner = repository.join(inner);
            make_private_folder(&inner).map_err(Error::disk("make", &inner))?;
        }
        let head = format!("{}\n", submodule.sha);
        for (name, text) in [("config", CONFIG), ("HEAD", head.as_str())] {
            let path = repository.join(name);
            fs::write(&path, text).map_err(Error::disk("write", &path))?;
        }
        let git = &self.host.git;
        let fetch = quiet(git.call(&repository, "fetch").talking_to(&submodule.remote));
        let what = ["--depth=1", "--end-of-options", submodule.remote.url(), submodule.sha.as_str()];
        fetch.args(what).done().await?;
        let index = repository.join("index");
        let check_out = git.call(&repository, "read-tree").work_tree(&folder).index(&index);
        Ok(check_out.args(["--reset", "-u", submodule.sha.as_str()]).done().await?)
    }

    async fn submodules_of(&self, content: &CommitSha) -> Result<Vec<Submodule>, Error> {
        let listing = self.call("ls-tree").args(["-r", "-z", content.as_str()]).output().await?;
        let listing = String::from_utf8_lossy(&listing).into_owned();
        let links: Vec<(String, CommitSha)> = listing.split('\0').filter_map(link).collect();
        if links.is_empty() {
            return Ok(Vec::new());
        }
        let urls = self.submodule_urls(content).await?;
        let submodules = links.into_iter().filter_map(|(path, sha)| {
            // A link without a URL is no submodule, only committed by mistake.
            let url = urls.get(&path)?;
            Some(match self.remote().submodule(url) {
                Some(remote) => Ok(Submodule { path, sha, remote }),
                None => Err(Error::Submodule { repo: self.repo.clone(), path: domain::escape_for_terminal(&path) }),
            })
        });
        submodules.collect()
    }

    /// The URLs of `.gitmodules`, by path. Nothing else in it counts.
    pub(crate) async fn submodule_urls(&self, content: &CommitSha) -> Result<BTreeMap<String, String>, Error> {
        let blob = format!("--blob={content}:.gitmodules");
        let listing = match self.call("config").args(["--null", &blob, "--list"]).output().await {
            Ok(listing) => String::from_utf8_lossy(&listing).into_owned(),
            Err(GitError::Failed { .. }) => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let mut named: BTreeMap<&str, (Option<&str>, Option<&str>)> = BTreeMap::new();
        for (key, value) in listing.split('\0').filter_map(|entry| entry.split_once('\n')) {
            let Some((name, key)) = key.strip_prefix("submodule.").and_then(|key| key.rsplit_once('.')) else {
                continue;
            };
            let entry = named.entry(name).or_default();
            match key {
                "path" => entry.0 = Some(value),
                "url" => entry.1 = Some(value),
                _ => {}
            }
        }
        let whole = named.into_values().filter_map(|(path, url)| Some((path?.to_owned(), url?.to_owned())));
        Ok(whole.collect())
    }
}

impl Remote {
    /// The remote of a submodule with this URL. Relative ones are beside this one, with the same credential; only a
    /// local repository can name a local directory.
    fn submodule(&self, url: &str) -> Option<Self> {
        let is_relative = url.starts_with("./") || url.starts_with("../");
        let remote = if is_relative { self.beside(url)? } else { Self::parse(url).ok()? };
        let is_allowed = remote.transport() == Transport::Network || self.transport() == Transport::Folder;
        is_allowed.then_some(remote)
    }
}

/// `160000 commit <sha> TAB <path>` of a listing.
fn link(entry: &str) -> Option<(String, CommitSha)> {
    let (facts, path) = entry.split_once('\t')?;
    let sha = facts.strip_prefix("160000 commit ")?;
    Some((path.to_owned(), sha.parse().ok()?))
}

/// The directory of a submodule, if its path stays inside the worktree: no `..`, no repository, no link on the path.
fn place(worktree: &Path, path: &str) -> Option<PathBuf> {
    let mut folder = worktree.to_owned();
    for component in Path::new(path).components() {
        let Component::Normal(name) = component else { return None };
        let name = name.to_str()?;
        if name.to_ascii_lowercase().starts_with(".git")
            || name.starts_with('-')
            || !name.chars().all(domain::is_terminal_safe)
        {
            return None;
        }
        folder.push(name);
        match fs::symlink_metadata(&folder) {
            Ok(found) if !found.is_dir() => return None,
            Ok(_) | Err(_) => {}
        }
    }
    (folder != worktree).then_some(folder)
}
