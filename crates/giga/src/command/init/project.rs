//! What `giga init` finds in the working directory: the repository, its remote and how it is tested.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use domain::{BranchName, RepoName};

use crate::programs;

/// A repository and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Project {
    pub(super) root: PathBuf,
    pub(super) name: RepoName,
    /// The address of its `origin`, without a password.
    pub(super) remote: Option<String>,
    pub(super) base: BranchName,
    pub(super) has_commits: bool,
    pub(super) checks: Checks,
}

/// How a project is set up and tested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Checks {
    /// Makes a new worktree ready.
    pub(super) setup: Option<&'static str>,
    /// Tests it.
    pub(super) test: Option<&'static str>,
    /// The program that the two need and that is not installed.
    pub(super) missing: Option<&'static str>,
}

/// The repository that a directory is in.
pub(super) fn find(directory: &Path) -> Option<Project> {
    let root = PathBuf::from(git(directory, &["rev-parse", "--show-toplevel"])?);
    let remote = git(&root, &["remote", "get-url", "origin"]);
    let folder = root.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = remote.as_deref().and_then(last_part).and_then(repo_name);
    let name = configured_name(directory, &root).or(name);
    let name = name.or_else(|| folder.as_deref().and_then(repo_name)).or_else(|| repo_name("app"))?;
    // What is not committed is not in an agent's worktree.
    let tracked = [&["ls-tree", "--name-only", "HEAD"][..], &["ls-tree", "--name-only", "HEAD", "tests/", "test/"]];
    let tracked = tracked.map(|listing| git(&root, listing).unwrap_or_default()).join("\n");
    let tracked: BTreeSet<&str> = tracked.lines().collect();
    let default = git(&root, &["symbolic-ref", "--short", "refs/remotes/origin/HEAD"]);
    let default = default.and_then(|name| name.strip_prefix("origin/").map(str::to_owned));
    let base = default.or_else(|| git(&root, &["branch", "--show-current"])).and_then(|name| name.parse().ok());
    Some(Project {
        name,
        remote: remote.map(|url| without_password(&url)),
        base: base.or_else(|| "main".parse().ok())?,
        has_commits: git(&root, &["rev-parse", "--verify", "--quiet", "HEAD"]).is_some(),
        checks: checks(&root, &tracked, |program| programs::found(program).is_some()),
        root,
    })
}

/// The name that an existing giga.toml gives this repository: a job that is written beside it uses the same.
fn configured_name(directory: &Path, root: &Path) -> Option<RepoName> {
    let text = std::fs::read_to_string(directory.join("giga.toml")).ok()?;
    let settings: toml::Table = text.parse().ok()?;
    let root = root.canonicalize().ok()?;
    let is_here = |repo: &toml::Value| {
        let url = repo.as_str().or_else(|| repo.get("url")?.as_str());
        url.and_then(|url| directory.join(url).canonicalize().ok()).is_some_and(|path| path == root)
    };
    let mut repos = settings.get("factory")?.get("repos")?.as_table()?.iter();
    repos.find(|(_, repo)| is_here(repo)).and_then(|(name, _)| name.parse().ok())
}

fn git(directory: &Path, args: &[&str]) -> Option<String> {
    let answer = Command::new("git").current_dir(directory).args(args).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok().filter(|_| answer.status.success())?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn last_part(url: &str) -> Option<&str> {
    let last = url.trim_end_matches('/').rsplit(['/', ':']).next()?;
    Some(last.strip_suffix(".git").unwrap_or(last)).filter(|name| !name.is_empty())
}

fn repo_name(text: &str) -> Option<RepoName> {
    let plain: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' }).collect();
    text.parse().or_else(|_| plain.trim_matches(['-', '.']).parse()).ok()
}

/// An address of the form `https://user:password@host/…` is shown without the user.
fn without_password(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            format!("{scheme}://{}/{path}", host.rsplit('@').next().unwrap_or(host))
        }
        _ => url.to_owned(),
    }
}

/// The first way of testing that the files of a project show.
fn checks(root: &Path, tracked: &BTreeSet<&str>, is_installed: impl Fn(&str) -> bool) -> Checks {
    let has = |name: &str| tracked.contains(name);
    let read = |name: &str| match has(name) {
        true => std::fs::read_to_string(root.join(name)).unwrap_or_default(),
        false => String::new(),
    };
    let found: Option<(&'static str, Option<&'static str>, &'static str)> = if has("Cargo.toml") {
        Some(("cargo", None, "cargo test"))
    } else if has_npm_test(&read("package.json")) {
        Some(if has("pnpm-lock.yaml") {
            ("pnpm", Some("pnpm install --frozen-lockfile"), "pnpm test")
        } else if has("yarn.lock") {
            ("yarn", Some("yarn install --frozen-lockfile"), "yarn test")
        } else if has("package-lock.json") {
            ("npm", Some("npm ci"), "npm test")
        } else {
            ("npm", Some("npm install --no-package-lock"), "npm test")
        })
    } else if uses_pytest(&has, &read) {
        Some(("pytest", None, "pytest"))
    } else if has("go.mod") {
        Some(("go", None, "go test ./..."))
    } else if has_make_target(&read("Makefile")) || has_make_target(&read("makefile")) {
        Some(("make", None, "make test"))
    } else if has("gradlew") {
        Some(("java", None, "./gradlew test"))
    } else if has("pom.xml") {
        Some(("mvn", None, "mvn -q test"))
    } else if has("mix.exs") {
        Some(("mix", Some("mix deps.get"), "mix test"))
    } else {
        python_tests(tracked, &read).map(|test| (test.split(' ').next().unwrap_or(test), None, test))
    };
    let Some((program, setup, test)) = found else { return Checks::default() };
    let missing = (!is_installed(program)).then_some(program);
    Checks { setup, test: Some(test), missing }
}

/// Whether `npm test` runs something; what `npm init` writes there only fails.
fn has_npm_test(package: &str) -> bool {
    let package: serde_json::Value = serde_json::from_str(package).unwrap_or_default();
    package["scripts"]["test"].as_str().is_some_and(|script| !script.contains("no test specified"))
}

fn uses_pytest(has: &impl Fn(&str) -> bool, read: &impl Fn(&str) -> String) -> bool {
    let names_it = |name: &str| read(name).contains("pytest");
    has("pytest.ini")
        || has("conftest.py")
        || ["pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt", "requirements-dev.txt"]
            .iter()
            .any(|name| names_it(name))
}

/// The command for Python tests without any configuration: `unittest` where a test file uses it, otherwise `pytest`.
fn python_tests(tracked: &BTreeSet<&str>, read: &impl Fn(&str) -> String) -> Option<&'static str> {
    let directory = |path: &str| path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
    let is_test = |path: &&&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("test") && Path::new(name).extension().is_some_and(|kind| kind == "py")
    };
    let files: Vec<&str> = tracked.iter().filter(is_test).copied().collect();
    let file = files.iter().find(|file| read(file).contains("unittest"));
    let Some(file) = file else { return (!files.is_empty()).then_some("pytest") };
    // Discovery enters only directories that are packages.
    Some(match directory(file).as_str() {
        "tests" if !tracked.contains("tests/__init__.py") => "python3 -m unittest discover -s tests",
        "test" if !tracked.contains("test/__init__.py") => "python3 -m unittest discover -s test",
        _ => "python3 -m unittest discover",
    })
}

fn has_make_target(makefile: &str) -> bool {
    makefile.lines().any(|line| {
        line.split_once(':').is_some_and(|(targets, rest)| {
            !rest.starts_with('=')
                && !targets.starts_with(['\t', '.'])
                && targets.split_whitespace().any(|name| name == "test")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks_of(files: &[(&str, &str)]) -> (Option<&'static str>, Option<&'static str>) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = checks(root.path(), &files.iter().map(|(name, _)| *name).collect(), |_| true);
        (found.setup, found.test)
    }

    #[test]
    fn the_test_command_is_found_in_the_files_of_a_project() {
        let npm = r#"{"scripts": {"test": "node --test"}}"#;
        let untested = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;

        for (files, expected) in [
            (&[("Cargo.toml", "")][..], (None, Some("cargo test"))),
            (&[("package.json", npm), ("package-lock.json", "{}")], (Some("npm ci"), Some("npm test"))),
            (&[("package.json", npm), ("yarn.lock", "")], (Some("yarn install --frozen-lockfile"), Some("yarn test"))),
            (&[("package.json", untested), ("go.mod", "")], (None, Some("go test ./..."))),
            (&[("pyproject.toml", "[tool.pytest.ini_options]\n")], (None, Some("pytest"))),
            (&[("Makefile", "all:\n\ttrue\ntest: all\n\ttrue\n")], (None, Some("make test"))),
            (&[("Makefile", "tests:\n\ttrue\ntest := 3\n")], (None, None)),
            (&[("test_sums.py", "import unittest\n")], (None, Some("python3 -m unittest discover"))),
            (&[("tests/test_sums.py", "import unittest\n")], (None, Some("python3 -m unittest discover -s tests"))),
            (
                &[("tests/__init__.py", ""), ("tests/test_sums.py", "import unittest\n")],
                (None, Some("python3 -m unittest discover")),
            ),
            (&[("test_sums.py", "import unittest\n"), ("conftest.py", "")], (None, Some("pytest"))),
            (&[("test_sums.py", "def test_sum(): pass\n")], (None, Some("pytest"))),
            (&[("README.md", "")], (None, None)),
        ] {
            assert_eq!(checks_of(files), expected, "{files:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_installed_is_named() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("go.mod"), "").unwrap();

        assert_eq!(checks(root.path(), &["go.mod"].into(), |program| program != "go").missing, Some("go"));
    }

    #[test]
    fn a_repository_is_called_as_its_remote_is() {
        for (url, expected) in [
            ("https://forge.example/acme/notes.git", Some("notes")),
            ("git@forge.example:acme/notes", Some("notes")),
            ("/srv/git/notes.git/", Some("notes")),
            ("", None),
        ] {
            assert_eq!(last_part(url), expected, "{url}");
        }
        assert_eq!(without_password("https://ann:secret@forge.example/a.git"), "https://forge.example/a.git");
    }
}
