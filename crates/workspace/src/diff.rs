//! The diff of a run, shown later [B4].

use domain::CommitSha;

use crate::error::Error;
use crate::mirror::Mirror;

/// At most this many commits of one run are listed.
const COMMITS_MAX: &str = "--max-count=200";

/// A diff for people.
pub struct Diff {
    /// The patch.
    pub text: String,
    /// Whether it is truncated.
    pub is_cut: bool,
}

impl Mirror {
    /// The difference between two commits as a patch of at most `bytes_max`.
    pub async fn patch(&self, from: &CommitSha, to: &CommitSha, bytes_max: usize) -> Result<Diff, Error> {
        self.require(from).await?;
        self.require(to).await?;
        let options = ["-r", "-p", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"];
        let patch =
            self.call("diff-tree").args(options).args([from.as_str(), to.as_str()]).beginning(bytes_max).await?;
        let mut text = String::from_utf8_lossy(&patch.bytes).into_owned();
        let is_longer = text.len() > bytes_max;
        text.truncate(text.floor_char_boundary(bytes_max));
        Ok(Diff { text, is_cut: patch.is_cut || is_longer })
    }

    /// The commits between two with the first lines of their messages, oldest first.
    pub async fn commits(&self, from: &CommitSha, to: &CommitSha) -> Result<Vec<(CommitSha, String)>, Error> {
        let range = format!("{from}..{to}");
        let options = [COMMITS_MAX, "--reverse", "--no-commit-header", "--format=%H %s", "--end-of-options"];
        let listing = self.call("rev-list").args(options).arg(range).output().await?;
        let read = |line: &str| {
            let (sha, subject) = line.split_once(' ')?;
            let subject = domain::terminal_chars(subject).collect();
            Some((sha.parse().ok()?, subject))
        };
        Ok(String::from_utf8_lossy(&listing).lines().filter_map(read).collect())
    }
}
