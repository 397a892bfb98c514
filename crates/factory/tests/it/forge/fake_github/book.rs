//! The content of the fake, and what people, checks and merges do to it.

use std::path::PathBuf;
use std::process::Command;

use domain::CommitSha;
use testkit::host::git;

/// Everything about the one repository.
pub(crate) struct Book {
    pub(super) repo: PathBuf,
    pub(crate) pulls: Vec<Pull>,
    pub(crate) checks: Vec<Check>,
    /// Comments in conversations.
    pub(crate) comments: Vec<Said>,
    /// Comments on lines.
    pub(crate) on_lines: Vec<Said>,
    /// Reviews, each with its state in `place`.
    pub(crate) reviews: Vec<Said>,
    /// Checks that must have passed before anything is merged.
    pub(crate) required: bool,
    pub(super) last_id: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Pull {
    pub(crate) number: u64,
    pub(crate) branch: String,
    pub(crate) base: String,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) draft: bool,
    pub(crate) labels: Vec<String>,
    pub(crate) reviewers: Vec<String>,
    pub(crate) merged: Option<String>,
    pub(crate) closed: bool,
    /// The head when it was merged or closed.
    pub(crate) last_head: Option<String>,
    /// The head that GitHub may merge by itself.
    pub(crate) auto_merge: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Check {
    pub(crate) id: u64,
    pub(crate) sha: CommitSha,
    pub(crate) name: &'static str,
    /// `None` while it runs.
    pub(crate) conclusion: Option<&'static str>,
    pub(crate) summary: &'static str,
}

#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) id: u64,
    pub(crate) pull: u64,
    pub(crate) by: &'static str,
    pub(crate) association: &'static str,
    pub(crate) place: &'static str,
    pub(crate) text: String,
}

impl Book {
    pub(super) fn new(repo: PathBuf) -> Self {
        Self {
            repo,
            pulls: Vec::new(),
            checks: Vec::new(),
            comments: Vec::new(),
            on_lines: Vec::new(),
            reviews: Vec::new(),
            required: false,
            last_id: 100,
        }
    }

    pub(super) fn id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// A check of a commit starts, or ends.
    pub(crate) fn check(&mut self, sha: &CommitSha, name: &'static str, conclusion: Option<&'static str>) {
        self.checks.retain(|check| check.sha != *sha || check.name != name);
        let id = self.id();
        let summary = "assertion `left == right` failed";
        self.checks.push(Check { id, sha: sha.clone(), name, conclusion, summary });
        let waiting = self.pulls.iter().position(|pull| pull.auto_merge.is_some() && pull.merged.is_none());
        if let Some(at) = waiting
            && self.refusal(at).is_none()
        {
            self.merge(at, "merge", "Merged by itself", "");
        }
    }

    /// A user comments.
    pub(crate) fn comment(&mut self, by: &'static str, association: &'static str, text: &str) {
        let said = Said { id: self.id(), pull: 1, by, association, place: "", text: text.to_owned() };
        self.comments.push(said);
    }

    pub(crate) fn on_line(&mut self, by: &'static str, association: &'static str, text: &str) {
        let said = Said { id: self.id(), pull: 1, by, association, place: "done.md", text: text.to_owned() };
        self.on_lines.push(said);
    }

    pub(crate) fn review(&mut self, by: &'static str, state: &'static str, text: &str) {
        let said = Said { id: self.id(), pull: 1, by, association: "MEMBER", place: state, text: text.to_owned() };
        self.reviews.push(said);
    }

    /// A user merges the pull request.
    pub(crate) fn merge_by_hand(&mut self) {
        self.merge(0, "merge", "By hand", "");
    }

    pub(crate) fn close(&mut self) {
        self.pulls[0].last_head = self.head(0);
        self.pulls[0].closed = true;
    }

    /// The commit of the pull request's branch.
    pub(super) fn head(&self, at: usize) -> Option<String> {
        let pull = &self.pulls[at];
        pull.last_head.clone().or_else(|| self.shows(&pull.branch))
    }

    pub(super) fn shows(&self, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}");
        let shown = git(&self.repo, &["for-each-ref", "--format=%(objectname)", &name]);
        shown.lines().next().map(str::to_owned)
    }

    /// Why a pull request cannot be merged now.
    pub(super) fn refusal(&self, at: usize) -> Option<&'static str> {
        let head = self.head(at)?;
        let mut checks = self.checks.iter().filter(|check| check.sha.as_str() == head);
        if self.pulls[at].draft {
            Some("Pull Request is still a draft")
        } else if !self.merges(at) {
            Some("Pull Request is not mergeable")
        } else if self.required && !checks.all(|check| check.conclusion == Some("success")) {
            Some("Required status check is expected.")
        } else {
            None
        }
    }

    pub(super) fn merges(&self, at: usize) -> bool {
        self.tree(at).is_some()
    }

    fn tree(&self, at: usize) -> Option<String> {
        let (base, head) = (self.shows(&self.pulls[at].base)?, self.head(at)?);
        let merged = Command::new("git")
            .current_dir(&self.repo)
            .args(["merge-tree", "--write-tree", &base, &head])
            .output()
            .unwrap();
        let tree = String::from_utf8(merged.stdout).unwrap();
        merged.status.success().then(|| tree.trim().to_owned())
    }

    /// A real merge in the real repository.
    pub(super) fn merge(&mut self, at: usize, method: &str, title: &str, message: &str) -> String {
        let (base, head) = (self.shows(&self.pulls[at].base).unwrap(), self.head(at).unwrap());
        let tree = self.tree(at).unwrap();
        let text = format!("{title}\n\n{message}");
        let mut args = vec!["commit-tree", &tree, "-m", &text, "-p", &base];
        if method == "merge" {
            args.extend(["-p", &head]);
        }
        let merge = git(&self.repo, &args);
        let name = format!("refs/heads/{}", self.pulls[at].base);
        git(&self.repo, &["update-ref", &name, &merge, &base]);
        let pull = &mut self.pulls[at];
        pull.last_head = Some(head);
        pull.merged = Some(merge.clone());
        merge
    }
}
