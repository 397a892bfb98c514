//! What a run changed, for people who look at it later [B4].

use domain::CommitSha;

use crate::error::Error;
use crate::mirror::Mirror;

/// Commits of one run that are listed; nobody reads more.
const COMMITS_MAX: &str = "--max-count=200";

impl Mirror {
    /// The difference between two commits as a patch, cut at `bytes_max` with a line that says so.
    pub async fn patch(&self, from: &CommitSha, to: &CommitSha, bytes_max: usize) -> Result<String, Error> {
        self.require(from).await?;
        self.require(to).await?;
        let options = ["-r", "-p", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"];
        let patch = self.call("diff-tree").args(options).args([from.as_str(), to.as_str()]).output().await?;
        let mut text = String::from_utf8_lossy(&patch).into_owned();
        if text.len() > bytes_max {
            let whole = text.len();
            let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push_str(&format!("\n[cut here: the whole patch has {whole} bytes]\n"));
        }
        Ok(text)
    }

    /// The commits between two, oldest first: `sha subject`.
    pub async fn commits(&self, from: &CommitSha, to: &CommitSha) -> Result<Vec<String>, Error> {
        let range = format!("{from}..{to}");
        let options = [COMMITS_MAX, "--reverse", "--no-commit-header", "--format=%H %s", "--end-of-options"];
        let listing = self.call("rev-list").args(options).arg(range).output().await?;
        let clean = |line: &str| line.chars().filter(|c| domain::is_harmless(*c)).collect();
        Ok(String::from_utf8_lossy(&listing).lines().map(clean).collect())
    }
}
