//! A worktree per job and epoch [F3].
//!
//! A worktree is a repository of its own that borrows the mirror's objects. Its agent may change everything in it: it
//! has no remote to push to, shares no configuration, and the factory never runs git with its settings. The factory
//! keeps its own data about it (the start commit, an index) in a metadata directory (`metadata`), outside of the worktree.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{
    BranchName, Checkpoint, Clock, CommitAuthor, CommitSha, JobId, PR_BODY_FILE, QUESTION_FILE, RepoIdentity, RepoName,
    RunKey,
};
use sandbox::{DirFd, FileLock, make_private_folder, replace_file};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::error::Error;
use crate::mirror::Mirror;
use crate::refs::RefName;
use crate::snapshot::{Snapshot, copy_index};
use crate::state::{MirrorName, StateDir};

/// The files in the root of a worktree for the factory alone. They are never committed.
pub(crate) const FOR_THE_FACTORY: [&str; 2] = [PR_BODY_FILE, QUESTION_FILE];

/// The initial content of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeStart {
    /// The head of the base branch.
    Base,
    /// A commit of an earlier run, to build upon.
    Commit(CommitSha),
    /// Saved work: the agent finds its own commits, and its uncommitted files as it left them.
    Checkpoint(Checkpoint),
}

/// A complete worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    run: RunKey,
    path: PathBuf,
    metadata: PathBuf,
    notes: WorktreeNotes,
}

/// The metadata of a worktree, for a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WorktreeNotes {
    v: u32,
    repo: RepoName,
    base: BranchName,
    /// The head of the base branch when the worktree was made: the commit of `origin/<base>`. Absent in metadata of
    /// earlier versions, whose worktrees have the fork there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_head: Option<CommitSha>,
    /// Where the work branched off the base branch.
    fork: CommitSha,
    /// The commit that was checked out, before the agent.
    start: CommitSha,
    /// Whether some of its files are in large file storage.
    #[serde(default)]
    large_files: bool,
    /// The repository's identity; `None` in metadata of versions that kept mirrors by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<RepoIdentity>,
}

/// The last saved state of a worktree, so that nothing is pushed twice.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastSave {
    pub(crate) head: CommitSha,
    pub(crate) tree: CommitSha,
    /// The last commits of other branches.
    #[serde(default)]
    pub(crate) strays: Vec<CommitSha>,
    pub(crate) sha: CommitSha,
}

/// The file of that state.
const LAST_SAVED: &str = "saved.json";

/// The file of the untracked names before the agent.
const GIVEN: &str = "given";

/// The snapshot of a worktree that commands may write to without changing the work.
const FROZEN: &str = "frozen.json";

/// The holder of a metadata directory's lock reads one local repository, for which git times out sooner.
const LOCK_PATIENCE: Duration = Duration::from_secs(3 * 60);

/// Written last: a worktree without it is incomplete.
const NOTES: &str = "start.json";

impl Worktree {
    /// Where the agent works.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run it belongs to.
    pub fn run(&self) -> RunKey {
        self.run
    }

    /// Its repository.
    pub fn repo(&self) -> &RepoName {
        &self.notes.repo
    }

    /// The repository's identity, if it was recorded.
    pub(crate) fn identity(&self) -> Option<&RepoIdentity> {
        self.notes.identity.as_ref()
    }

    /// The mirror whose objects it borrows.
    pub(crate) fn mirror(&self) -> MirrorName {
        self.identity().map_or_else(|| MirrorName::by_repo(self.repo()), MirrorName::of)
    }

    /// The branch that the work started from.
    pub fn base(&self) -> &BranchName {
        &self.notes.base
    }

    /// The commit of the base branch that the work builds upon.
    pub fn fork(&self) -> &CommitSha {
        &self.notes.fork
    }

    /// The commit that `origin/<base>` shows in the worktree.
    pub fn base_head(&self) -> &CommitSha {
        self.notes.base_head.as_ref().unwrap_or(&self.notes.fork)
    }

    /// The agent's text for its pull request, truncated at `bytes_max`. Only a regular file holds one: neither a link
    /// nor a second hard link of another file.
    pub fn pr_body(&self, bytes_max: usize) -> Option<String> {
        let bytes = DirFd::open(&self.path).ok()?.read(PR_BODY_FILE, u64::try_from(bytes_max).ok()?).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn open(state: &StateDir, run: RunKey) -> Result<Option<Self>, Error> {
        let (path, metadata) = (state.worktree(run), state.metadata(run));
        let notes = match fs::read(metadata.join(NOTES)) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(Error::Disk { doing: "read", path: metadata.join(NOTES), source }),
        };
        Ok(notes.filter(|_| path.is_dir()).map(|notes| Self { run, path, metadata, notes }))
    }

    /// The commit that was checked out before the agent began.
    pub(crate) fn start(&self) -> &CommitSha {
        &self.notes.start
    }

    /// Whether some of its files are in large file storage.
    pub(crate) fn has_large_files(&self) -> bool {
        self.notes.large_files
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.metadata.join("index")
    }

    pub(crate) fn metadata(&self) -> &Path {
        &self.metadata
    }

    pub(crate) fn last_saved(&self) -> Option<LastSave> {
        serde_json::from_slice(&fs::read(self.metadata.join(LAST_SAVED)).ok()?).ok()
    }

    /// Records what is on the remote now. If that fails, the next save pushes once more.
    pub(crate) fn remember_saved(&self, saved: &LastSave) {
        let written = serde_json::to_vec(saved).unwrap_or_default();
        let _ = replace_file(&self.metadata.join(LAST_SAVED), &written);
    }

    /// The frozen snapshot of the worktree.
    pub(crate) fn frozen(&self) -> Result<Option<Snapshot>, Error> {
        let path = self.metadata.join(FROZEN);
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Disk { doing: "read", path, source }),
        }
    }

    pub(crate) fn freeze(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let path = self.metadata.join(FROZEN);
        let written = serde_json::to_vec(snapshot).map_err(|error| Error::disk("write", &path)(error.into()))?;
        replace_file(&path, &written).map_err(Error::disk("write", &path))
    }

    /// The untracked names before the agent, each terminated by NUL.
    pub(crate) fn given(&self) -> Vec<u8> {
        fs::read(self.metadata.join(GIVEN)).unwrap_or_default()
    }

    pub(crate) fn remember_given(&self, untracked: &[u8]) -> Result<(), Error> {
        let path = self.metadata.join(GIVEN);
        replace_file(&path, untracked).map_err(Error::disk("write", &path))
    }

    /// Git settings that only allow reading this worktree although it belongs to another account.
    pub(crate) fn trust(&self) -> PathBuf {
        self.metadata.join("trust.gitconfig")
    }

    /// Takes the lock around this run's own refs in the mirror.
    pub(crate) async fn lock(&self, clock: &dyn Clock) -> Result<FileLock, Error> {
        Ok(FileLock::take(&self.metadata.join("lock"), clock, LOCK_PATIENCE).await?)
    }

    /// The agent's own repository. Only ever read through git's server side, which trusts nothing in it.
    pub(crate) fn repository(&self) -> PathBuf {
        self.path.join(".git")
    }

    fn remote_branch(&self, branch: &RefName) -> PathBuf {
        self.repository().join("refs/remotes/origin").join(branch.short())
    }

    /// Whether the worktree shows a branch of another job as `origin/…`.
    pub fn shows(&self, branch: &RefName) -> bool {
        self.remote_branch(branch).is_file()
    }

    /// Keeps the agent's commits alive in the mirror.
    pub(crate) fn head_ref(&self) -> String {
        format!("refs/gigafactory/{}", self.run)
    }
}

impl Mirror {
    /// Creates the worktree of a run. A complete one is returned unchanged; an incomplete one is created again.
    pub async fn create(&self, run: RunKey, base: &BranchName, start: &WorktreeStart) -> Result<Worktree, Error> {
        self.create_showing(run, base, start, &[]).await
    }

    /// [`Mirror::create`] with the branches of other jobs, which the worktree shows as `origin/…` where the remote still
    /// has their commits.
    pub async fn create_showing(
        &self,
        run: RunKey,
        base: &BranchName,
        start: &WorktreeStart,
        jobs: &[(JobId, CommitSha)],
    ) -> Result<Worktree, Error> {
        if let Some(worktree) = self.host.worktree(run)? {
            return Ok(worktree);
        }
        self.host.remove_worktree(run).await?;
        self.seal()?;
        let layout = self.layout(run, base, start).await?;
        let large_files = self.needs_large_files(&layout.content).await?;
        let (repo, base) = (self.repo.clone(), base.clone());
        let (base_head, identity) = (Some(layout.base_head), Some(self.identity().clone()));
        let notes =
            WorktreeNotes { v: 1, repo, base, base_head, fork: layout.fork, start: layout.head, large_files, identity };
        let state = &self.host.state;
        let worktree = Worktree { run, path: state.worktree(run), metadata: state.metadata(run), notes };
        for folder in [&worktree.path, &worktree.metadata] {
            make_private_folder(folder).map_err(Error::disk("make", folder))?;
        }
        self.check_out(&worktree, &layout.content).await?;
        self.furnish(&worktree, &layout.content).await?;
        for (job, sha) in jobs {
            self.show_branch(&worktree, *job, sha).await?;
        }
        self.check_out_submodules(&worktree, &layout.content).await?;
        self.move_in(&worktree)?;
        let written = serde_json::to_vec_pretty(&worktree.notes).unwrap_or_default();
        let path = worktree.metadata.join(NOTES);
        replace_file(&path, &written).map_err(Error::disk("write", &path))?;
        Ok(worktree)
    }

    async fn layout(&self, run: RunKey, base: &BranchName, start: &WorktreeStart) -> Result<Layout, Error> {
        let base_head = self.head_of(base).await?;
        let (head, content) = match start {
            WorktreeStart::Base => (base_head.clone(), base_head.clone()),
            WorktreeStart::Commit(sha) => {
                self.require(sha).await?;
                (sha.clone(), sha.clone())
            }
            WorktreeStart::Checkpoint(saved) => {
                // The name is made here, not taken from the message: that only has a commit to look for.
                let shown = self.fetch_ref(&self.host.refs.wip(RunKey { job: run.job, epoch: saved.epoch })).await?;
                let sha = match (self.require(&saved.sha).await, shown) {
                    (Ok(()), _) => saved.sha.clone(),
                    // The run saved once more and died before it reported that. No other run writes to its ref.
                    (Err(Error::NoSuchCommit { .. }), Some(later)) => later,
                    (Err(error), _) => return Err(error),
                };
                let parent = format!("{sha}^1");
                let head = self.call("rev-parse").args(["--verify", "--end-of-options", &parent]).object().await?;
                (head, sha)
            }
        };
        let shared = self.call("merge-base").args([base_head.as_str(), head.as_str()]).object().await;
        let fork = shared.unwrap_or_else(|_| head.clone());
        if self.is_partial() && fork != base_head {
            // The agent cannot fetch: what a merge of the base branch needs has to be here. It works without until it
            // merges.
            let _ = self.diff(&fork, &base_head).await;
        }
        Ok(Layout { base_head, head, content, fork })
    }

    /// Fills the directory, and keeps the index of these very files in the metadata directory.
    async fn check_out(&self, worktree: &Worktree, content: &CommitSha) -> Result<(), Error> {
        let index = worktree.index();
        let check_out = self.call("read-tree").work_tree(&worktree.path).index(&index);
        let check_out = if worktree.has_large_files() {
            check_out.talking_to(self.remote()).large_files(self.remote())
        } else {
            check_out
        };
        Ok(check_out.args(["--reset", "-u", content.as_str()]).done().await?)
    }

    /// Creates the agent's repository with a branch of its own.
    async fn furnish(&self, worktree: &Worktree, content: &CommitSha) -> Result<(), Error> {
        let head = worktree.start();
        let branch = self.host.refs.run(worktree.run);
        let base = RefName::branch(&worktree.notes.base);
        let repository = worktree.repository();
        let objects = self.path().join("objects");
        let files = [
            ("HEAD".to_owned(), format!("ref: {branch}\n")),
            ("config".to_owned(), agent_config(self.host.git.identity(), worktree.has_large_files())),
            ("objects/info/alternates".to_owned(), format!("{}\n", objects.display())),
            ("info/exclude".to_owned(), FOR_THE_FACTORY.map(|file| format!("/{file}\n")).concat()),
            (branch.as_str().to_owned(), format!("{head}\n")),
            (format!("refs/remotes/origin/{}", base.short()), format!("{}\n", worktree.base_head())),
        ];
        for (name, text) in files {
            let path = repository.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&repository))
                .map_err(Error::disk("make the folder of", &path))?;
            fs::write(&path, text).map_err(Error::disk("write", &path))?;
        }
        let index = repository.join("index");
        copy_index(&worktree.index(), &index).map_err(Error::disk("write", &index))?;
        if content != head {
            // Files keep what was saved, the index is at the last commit: the differences are uncommitted again.
            let unstage = self.call("read-tree").work_tree(&worktree.path).index(&index);
            unstage.args(["-m", "-i", head.as_str()]).done().await?;
        }
        Ok(())
    }

    /// Shows the branch of another job. A branch that cannot be fetched is not shown.
    async fn show_branch(&self, worktree: &Worktree, job: JobId, sha: &CommitSha) -> Result<(), Error> {
        let branch = self.pr_branch(job);
        let fetched = match self.fetch_ref(&branch).await {
            Ok(_) => self.require(sha).await,
            Err(error) => Err(error),
        };
        if let Err(error) = fetched {
            warn!(job.id = %job, %error, "The branch `{}` cannot be shown to the agent of another job", branch.short());
            return Ok(());
        }
        if self.is_partial() {
            // The agent cannot fetch: what a merge of the branch needs has to be here.
            let _ = self.diff(worktree.fork(), sha).await;
        }
        let path = worktree.remote_branch(&branch);
        fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(Error::disk("make the folder of", &path))?;
        fs::write(&path, format!("{sha}\n")).map_err(Error::disk("write", &path))
    }
}

impl Mirror {
    /// Gives the worktree to the account that agents run under, and records that the factory may still read it: git
    /// reads no repository of another account unless a file of the factory's own allows it.
    fn move_in(&self, worktree: &Worktree) -> Result<(), Error> {
        if self.host.account.is_none() {
            return Ok(());
        }
        self.share()?;
        let folders = [worktree.path.clone(), worktree.repository()];
        let lines = folders.map(|folder| format!("\tdirectory = \"{}\"\n", folder.display()));
        let path = worktree.trust();
        replace_file(&path, format!("[safe]\n{}", lines.concat()).as_bytes()).map_err(Error::disk("write", &path))?;
        self.host.hand_over(&worktree.path)
    }
}

struct Layout {
    /// The commit of the base branch.
    base_head: CommitSha,
    /// The commit of the agent's branch.
    head: CommitSha,
    /// The commit whose files are checked out.
    content: CommitSha,
    fork: CommitSha,
}

fn agent_config(identity: &CommitAuthor, large_files: bool) -> String {
    let filters = crate::large_files::FILTERS.map(|(key, value)| format!("\t{key} = {value}\n")).concat();
    let filters = if large_files { format!("[filter \"lfs\"]\n{filters}") } else { String::new() };
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[user]\n\tname = \"{}\"\n\temail = \"{}\"\n{filters}",
        quoted(identity.name()),
        quoted(identity.email())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_without_an_identity_lead_to_a_mirror_by_name() {
        let sha = "0123456789012345678901234567890123456789";
        let notes = format!(r#"{{"v":1,"repo":"acme/notes","base":"main","fork":"{sha}","start":"{sha}"}}"#);
        let run = RunKey { job: "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap(), epoch: domain::Epoch(1) };
        let notes = serde_json::from_str(&notes).unwrap();

        let worktree = Worktree { run, path: PathBuf::new(), metadata: PathBuf::new(), notes };

        assert_eq!(worktree.mirror().to_string(), "acme+notes");
    }
}
