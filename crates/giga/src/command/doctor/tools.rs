//! Programs that a factory on this machine needs.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ambient::SystemClock;
use factory::{DetectConfig, Environment, Launcher, Remote, detect};

use crate::config::FactoryConfig;
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
        None => Check::warn("git", format!("its version is not known: {}", domain::printable(&answer)), remedy),
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
    let check = |(name, engine): (&domain::EngineName, &factory::EngineConfig)| match engine.program(name) {
        None => {
            Check::fail("engine", format!("`{name}` has no command line"), format!("set factory.engines.{name}.argv"))
        }
        Some(program) => match programs::found(program) {
            Some(path) => Check::ok("engine", format!("`{name}` is {}", path.display())),
            None => {
                let text = format!("`{name}`: there is no program `{}`", domain::printable(program));
                Check::fail("engine", text, format!("install it, or change factory.engines.{name}"))
            }
        },
    };
    factory.engines.value.iter().map(check).collect()
}

/// Are the repositories on this machine there? Those behind a network are not asked.
pub(super) fn repositories(factory: &FactoryConfig) -> Vec<Check> {
    let missing = |(name, repo): (&domain::RepoName, &factory::RepoConfig)| {
        let remote = Remote::parse(&repo.url).ok()?;
        let folder = remote.folder().filter(|folder| !folder.is_dir())?;
        let found = format!("`{name}` is not offered: {} is not there", folder.display());
        Some(Check::warn("repository", found, format!("mend factory.repos.{name}.url, or make the repository")))
    };
    factory.repos.value.iter().filter_map(missing).chain(folder_of_repositories(factory)).collect()
}

fn folder_of_repositories(factory: &FactoryConfig) -> Option<Check> {
    let base = factory.repo_base.value.as_ref()?;
    Some(match std::fs::read_dir(base) {
        Ok(_) => Check::ok("repositories", format!("those in {} are offered", base.display())),
        Err(error) => {
            let text = format!("cannot read {}: {error}", base.display());
            Check::fail("repositories", text, format!("set by {}: mend it there", factory.repo_base.origin))
        }
    })
}

/// What would a factory here offer, engines aside?
pub(super) async fn capabilities(factory: &FactoryConfig) -> Check {
    let config = DetectConfig {
        repos: factory.repos.value.clone(),
        repo_base: factory.repo_base.value.clone(),
        custom: factory.capabilities.value.iter().cloned().collect(),
        tools: factory.tools.value.clone(),
    };
    let environment = Environment::cleared(std::env::vars_os(), Path::new("/"), &factory.environment.value);
    let launcher = Launcher::unguarded(Arc::new(SystemClock::new()));
    let found = detect(&config, &[], &environment, &launcher).await;
    let tokens: Vec<&str> = found.capabilities.iter().map(domain::Capability::as_str).collect();
    Check::ok("capabilities", tokens.join(" "))
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
