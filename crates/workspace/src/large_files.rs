//! Large file storage: files of which a repository holds only pointers [F3].
//!
//! Git runs `git-lfs` for the contents at checkout and when it adds files. The factory chooses the server: a
//! repository's own `.lfsconfig` could send the credential anywhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use domain::CommitSha;
use sandbox::{DirFd, find_program, make_private_folder, replace_file};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::mirror::Mirror;
use crate::remote::{Remote, Transport};
use crate::worktree::Worktree;

/// Git's settings for it. The programs are the factory's, never a repository's.
pub(crate) const FILTERS: [(&str, &str); 4] = [
    ("process", "git-lfs filter-process"),
    ("clean", "git-lfs clean -- %f"),
    ("smudge", "git-lfs smudge -- %f"),
    ("required", "true"),
];

/// Names on one command line.
const PUSHED_AT_ONCE: usize = 100;

/// It is held in memory; servers accept little more.
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Attributes are a few lines; a longer file is ignored.
const ATTRIBUTES_MARK: &str = "filter=lfs";

impl Mirror {
    /// Whether the files of a commit need it, and it is installed. Logs a warning when they do and it is not.
    pub(crate) async fn needs_large_files(&self, commit: &CommitSha) -> Result<bool, Error> {
        let attributes = format!("{commit}:.gitattributes");
        let shown = self.call("cat-file").args(["blob", &attributes]).run().await?;
        let is_used = shown.code() == Some(0) && String::from_utf8_lossy(shown.stdout()).contains(ATTRIBUTES_MARK);
        if !is_used || !self.large_files {
            return Ok(false);
        }
        let is_here = find_program("git-lfs", Some(self.host.git.path())).is_some();
        if !is_here {
            tracing::warn!(
                "Repository `{}` uses large file storage and `git-lfs` is not installed here: its files stay pointers",
                self.repo
            );
        }
        Ok(is_here)
    }

    /// Uploads the contents of files that the work changed, before any ref shows a pointer to them.
    pub(crate) async fn push_large_files(&self, worktree: &Worktree, sha: &CommitSha) -> Result<(), Error> {
        if !worktree.has_large_files() {
            return Ok(());
        }
        let before = self.large_files_at(worktree.fork()).await?;
        let now = self.large_files_at(sha).await?;
        let mut made = Vec::new();
        for oid in now.difference(&before) {
            if self.take_in(worktree, oid)? {
                made.push(oid.clone());
            }
        }
        for some in made.chunks(PUSHED_AT_ONCE) {
            let mut push = self.large_file_call("push").args(["--object-id", "origin"]);
            for oid in some {
                push = push.arg(oid);
            }
            push.done().await?;
        }
        Ok(())
    }

    fn large_file_call(&self, verb: &'static str) -> crate::git::GitCommand<'_> {
        self.call("lfs").talking_to(self.remote()).large_files(self.remote()).arg(verb)
    }

    async fn large_files_at(&self, commit: &CommitSha) -> Result<BTreeSet<String>, Error> {
        let listing = self.large_file_call("ls-files").args(["--long", commit.as_str()]).output().await?;
        let listing = String::from_utf8_lossy(&listing).into_owned();
        let is_oid = |oid: &&str| oid.len() == 64 && oid.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(listing.lines().filter_map(|line| line.split(' ').next().filter(is_oid).map(str::to_owned)).collect())
    }

    /// Whether the mirror has the contents, copied from the agent's own repository if it committed them itself.
    fn take_in(&self, worktree: &Worktree, oid: &str) -> Result<bool, Error> {
        let ours = stored(self.path(), oid);
        if ours.exists() {
            return Ok(true);
        }
        let Some(bytes) = committed(worktree, oid) else { return Ok(false) };
        let folder = ours.parent().unwrap_or(self.path());
        make_private_folder(folder).map_err(Error::disk("make", folder))?;
        replace_file(&ours, &bytes).map_err(Error::disk("write", &ours))?;
        Ok(true)
    }
}

/// The content under a name in the agent's own repository, if its hash matches: the path could lead anywhere, and its
/// content could be anything.
fn committed(worktree: &Worktree, oid: &str) -> Option<Vec<u8>> {
    let mut folder = DirFd::open(worktree.path()).ok()?;
    for name in [".git", "lfs", "objects", &oid[..2], &oid[2..4]] {
        folder = folder.enter(name).ok()?;
    }
    let bytes = folder.read(oid, FILE_BYTES_MAX).ok()?;
    let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    (digest == oid).then_some(bytes)
}

fn stored(repository: &Path, oid: &str) -> PathBuf {
    repository.join("lfs/objects").join(&oid[..2]).join(&oid[2..4]).join(oid)
}

/// The settings of one git command that uses it with `remote`.
pub(crate) fn settings(remote: &Remote) -> Vec<String> {
    let server = server(remote);
    let filters = FILTERS.iter().map(|(key, value)| format!("filter.lfs.{key}={value}"));
    let ours = [
        format!("lfs.url={server}"),
        format!("lfs.pushurl={server}"),
        format!("remote.origin.url={}", remote.url()),
        "lfs.locksverify=false".to_owned(),
    ];
    filters.chain(ours).collect()
}

/// The URL of the contents, by the default rule of `git-lfs`.
fn server(remote: &Remote) -> String {
    let url = remote.url().trim_end_matches('/');
    match remote.transport() {
        Transport::Folder | Transport::None => format!("file://{}", url.strip_prefix("file://").unwrap_or(url)),
        Transport::Network if url.starts_with("https://") => {
            format!("{}.git/info/lfs", url.strip_suffix(".git").unwrap_or(url))
        }
        Transport::Network if url.starts_with("ssh://") => url.to_owned(),
        Transport::Network => format!("ssh://{}", url.replacen(':', "/", 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: hostile repository]
    #[test]
    fn the_server_follows_from_the_address_alone() {
        let of = |url: &str| server(&Remote::parse(url).unwrap());

        assert_eq!(of("https://me:x@forge.example/a/b"), "https://forge.example/a/b.git/info/lfs");
        assert_eq!(of("https://forge.example/a/b.git"), "https://forge.example/a/b.git/info/lfs");
        assert_eq!(of("git@forge.example:a/b.git"), "ssh://git@forge.example/a/b.git");
        assert_eq!(of("/srv/b.git"), "file:///srv/b.git");
    }
}
