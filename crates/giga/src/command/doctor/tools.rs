//! Programs that a factory on this machine needs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ambient::SystemClock;
use factory::{DetectConfig, Environment, Launcher, detect};

use factory::{Confine, Confinement, EngineKind};

use crate::config::FactoryConfig;

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
        let by_themselves = [EngineKind::Claude, EngineKind::Codex].into_iter().filter_map(EngineKind::program);
        let found: Vec<Check> = by_themselves
            .filter_map(|name| found(name).map(|path| (name, path)))
            .map(|(name, path)| Check::ok("engine", format!("`{name}` is {}, offered once signed in", path.display())))
            .collect();
        let remedy = "a factory here needs one: add [factory.engines.NAME] with argv to giga.toml (see `giga init`)";
        let none = || vec![Check::warn("engines", "none is configured", remedy)];
        return if found.is_empty() { none() } else { found };
    }
    let check = |(name, engine): (&domain::EngineName, &factory::EngineConfig)| match engine.program(name) {
        None => {
            Check::fail("engine", format!("`{name}` has no command line"), format!("set factory.engines.{name}.argv"))
        }
        Some(program) => match found(program) {
            Some(path) => Check::ok("engine", format!("`{name}` is {}", path.display())),
            None => {
                let text = format!("`{name}`: there is no program `{}`", domain::printable(program));
                Check::fail("engine", text, format!("install it, or change factory.engines.{name}"))
            }
        },
    };
    factory.engines.value.iter().map(check).collect()
}

/// Can the folder of repositories be read?
pub(super) fn repositories(factory: &FactoryConfig) -> Option<Check> {
    let base = factory.repo_base.value.as_ref()?;
    Some(match std::fs::read_dir(base) {
        Ok(_) => Check::ok("repositories", format!("those in {} are offered", base.display())),
        Err(error) => {
            let text = format!("cannot read {}: {error}", base.display());
            Check::fail("repositories", text, format!("set by {}: mend it there", factory.repo_base.origin))
        }
    })
}

/// What keeps agents from the factory's own files?
pub(super) fn confinement(factory: &FactoryConfig) -> Check {
    let account = factory.run_as.value.as_ref().map(|account| format!("account `{account}`"));
    match (factory.confine.value.in_force(), account) {
        (Confinement::Kernel(means), None) => Check::ok("agents", format!("confined by {means}")),
        (Confinement::Kernel(means), Some(account)) => {
            Check::ok("agents", format!("confined by {means}, and {account}"))
        }
        (Confinement::None(why), _) if factory.confine.value == Confine::Required => {
            Check::fail("agents", "they must be confined and cannot be: no factory starts here", why)
        }
        (Confinement::None(why), Some(account)) => Check::ok("agents", format!("confined by {account} alone: {why}")),
        (Confinement::None(why), None) => {
            Check::warn("agents", "not confined: they can read what this account can, tokens among it", why)
        }
    }
}

/// What would a factory here offer, engines aside?
pub(super) async fn capabilities(factory: &FactoryConfig) -> Check {
    let config = DetectConfig {
        repos: factory.repos.value.keys().cloned().collect(),
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

/// Where a program is, as a shell would look for it.
fn found(program: &str) -> Option<PathBuf> {
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| is_program(path))
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

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        assert!(found("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(found("/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(found("no-such-program-here"), None);
        assert_eq!(found("/"), None);
    }
}
