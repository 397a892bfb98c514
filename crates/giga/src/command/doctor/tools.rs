//! Programs that a factory on this machine needs.

use std::process::Command;
use std::sync::Arc;

use clock::SystemClock;
use workspace::{Remote, Repository};

use crate::config::{Config, FactoryConfig};
use crate::programs;

use super::check::Check;

/// The oldest git that can do what mirrors and worktrees need.
const GIT_MIN: (u32, u32) = (2, 38);

/// Is git there, and new enough?
pub(super) fn git() -> Check {
    let remedy = format!("install git {}.{} or newer", GIT_MIN.0, GIT_MIN.1);
    let answer = match Command::new("git").arg("--version").output() {
        Ok(answer) if answer.status.success() => String::from_utf8_lossy(&answer.stdout).trim().to_owned(),
        Ok(_) | Err(_) => return Check::fail("git", "it is not there, or does not start", remedy),
    };
    match version(&answer) {
        Some(found) if found >= GIT_MIN => Check::ok("git", answer),
        Some(_) => Check::fail("git", format!("{answer} is too old"), remedy),
        None => {
            Check::warn("git", format!("its version is not known: {}", domain::escape_for_terminal(&answer)), remedy)
        }
    }
}

/// The first two numbers of `git version 2.43.0`.
fn version(answer: &str) -> Option<(u32, u32)> {
    let mut numbers = answer.split_whitespace().nth(2)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Which engines are configured or found, and is their program there?
pub(super) fn engines(factory: &FactoryConfig) -> Vec<Check> {
    if factory.engines.value.is_empty() {
        let found: Vec<Check> = programs::engines_by_themselves()
            .into_iter()
            .map(|(name, path)| Check::ok("engine", format!("`{name}` is {}, offered once signed in", path.display())))
            .collect();
        let remedy = "install claude or codex and sign in, or add [factory.engines.NAME] with argv to giga.toml (see `giga init`)";
        let none = || vec![Check::warn("engines", "there is none here", remedy)];
        return if found.is_empty() { none() } else { found };
    }
    let check = |(name, engine): (&domain::EngineName, &engines::EngineConfig)| match engine.program(name) {
        None => {
            Check::fail("engine", format!("`{name}` has no command line"), format!("set factory.engines.{name}.argv"))
        }
        Some(program) => match programs::found(program) {
            Some(path) => Check::ok("engine", format!("`{name}` is {}", path.display())),
            None => {
                let text = format!("`{name}`: program `{}` not found", domain::escape_for_terminal(program));
                Check::fail("engine", text, format!("install it, or change factory.engines.{name}"))
            }
        },
    };
    factory.engines.value.iter().map(check).collect()
}

/// Checks that the repositories on this machine exist. Remote ones are not contacted.
pub(super) fn repositories(factory: &FactoryConfig) -> Vec<Check> {
    let missing = |(name, repo): (&domain::RepoName, &workspace::RepoConfig)| {
        let remote = Remote::parse(&repo.url).ok()?;
        let folder = remote.folder().filter(|folder| !folder.is_dir())?;
        let found = format!("`{name}` is not offered: {} does not exist", folder.display());
        Some(Check::warn("repository", found, format!("fix factory.repos.{name}.url, or create the repository")))
    };
    let alone = |(name, repo): (&domain::RepoName, &workspace::RepoConfig)| {
        let repository = Repository::of(repo).ok()?;
        let found = format!("`{name}` is {}, which has no remote", repository.checkout()?.display());
        let remedy = "add a remote `origin`, or merge finished jobs yourself where their base branch is checked out";
        Some(Check::warn("repository", found, remedy))
    };
    let configured = factory.repos.value.iter();
    let found = configured.clone().filter_map(missing).chain(configured.filter_map(alone));
    found.chain(repository_directory(factory)).collect()
}

fn repository_directory(factory: &FactoryConfig) -> Option<Check> {
    let base = factory.repo_base.value.as_ref()?;
    Some(match std::fs::read_dir(base) {
        Ok(_) => Check::ok("repositories", format!("those in {} are offered", base.display())),
        Err(error) => {
            let text = format!("cannot read {}: {error}", base.display());
            Check::fail("repositories", text, format!("fix it in {}", factory.repo_base.origin))
        }
    })
}

/// What would a factory here offer, engines aside? Probed as agents would run it.
pub(super) async fn capabilities(config: &Config) -> Vec<Check> {
    let probed = match crate::compose::station_settings(config) {
        Ok(settings) => settings.probe(Arc::new(SystemClock::new())).await.map_err(anyhow::Error::from),
        Err(error) => Err(error),
    };
    let found = match probed {
        Ok(found) => found,
        Err(error) => {
            let text = format!("cannot be probed: {error:#}");
            return vec![Check::warn("capabilities", text, "fix the other findings first")];
        }
    };
    let tokens: Vec<&str> = found.capabilities.iter().map(domain::Capability::as_str).collect();
    let mut checks = vec![Check::ok("capabilities", tokens.join(" "))];
    checks.extend(found.broken_tools.iter().map(|(tool, broken)| {
        let (program, message) = (broken.program.display(), &broken.message);
        let text = format!("`{tool}` is not advertised: {program} fails as agents would run it: {message}");
        Check::warn("tool", text, broken.remedy.clone())
    }));
    checks.extend(found.unusable_repos.iter().map(|(repo, why)| {
        let remedy = format!("fix its `origin`, or set factory.repos.{repo}.url to the URL of its remote");
        Check::warn("repository", format!("`{repo}` is not offered: {why}"), remedy)
    }));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_every_gits_answer() {
        assert_eq!(version("git version 2.43.0"), Some((2, 43)));
        assert_eq!(version("git version 2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(version("hg 6"), None);
    }
}
