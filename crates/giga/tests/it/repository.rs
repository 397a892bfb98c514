//! Real repositories, as a forge would have them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a bare repository with one commit on `main`.
pub(crate) fn make(folder: &Path, name: &str) -> PathBuf {
    let (repo, seed) = (folder.join(format!("{name}.git")), folder.join("seed"));
    git(folder, &["init", "--quiet", "--bare", "--initial-branch=main", repo.to_str().unwrap()]);
    git(folder, &["init", "--quiet", "--initial-branch=main", seed.to_str().unwrap()]);
    std::fs::write(seed.join("README.md"), "work\n").unwrap();
    git(&seed, &["add", "README.md"]);
    git(&seed, &["commit", "--quiet", "--message", "begin"]);
    git(&seed, &["push", "--quiet", repo.to_str().unwrap(), "main"]);
    repo
}

/// Commits a file of a clone and pushes it.
pub(crate) fn commit(clone: &Path, file: &str) {
    git(clone, &["add", file]);
    git(clone, &["commit", "--quiet", "--message", file]);
    git(clone, &["push", "--quiet", "origin", "main"]);
}

/// The names of the files at the top of `main`.
pub(crate) fn files(repo: &Path) -> Vec<String> {
    let done = Command::new("git").current_dir(repo).args(["ls-tree", "--name-only", "main"]).output().unwrap();
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The text of a file at the top of a ref, if it is there.
pub(crate) fn text(repo: &Path, place: &str) -> Option<String> {
    let done = Command::new("git").current_dir(repo).args(["show", place]).output().unwrap();
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Every ref below a prefix with its commit.
pub(crate) fn refs(repo: &Path, prefix: &str) -> Vec<(String, String)> {
    let args = ["for-each-ref", "--format=%(refname) %(objectname)", prefix];
    let done = Command::new("git").current_dir(repo).args(args).output().unwrap();
    let lines = String::from_utf8(done.stdout).unwrap();
    let pairs = lines.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, sha)| (name.to_owned(), sha.to_owned())).collect()
}

/// Whether a commit is part of `main`.
pub(crate) fn is_on_main(repo: &Path, sha: &str) -> bool {
    let args = ["merge-base", "--is-ancestor", sha, "main"];
    Command::new("git").current_dir(repo).args(args).status().unwrap().success()
}

/// Which jobs were merged into `main`, each as often as it was.
pub(crate) fn merged_jobs(repo: &Path) -> Vec<String> {
    let args = ["log", "--first-parent", "--merges", "--format=%(trailers:key=Gigafactory-Job,valueonly)", "main"];
    let done = Command::new("git").current_dir(repo).args(args).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn git(dir: &Path, args: &[&str]) {
    let done = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false"])
        .args(args)
        .status()
        .unwrap();
    assert!(done.success(), "git {args:?}");
}
