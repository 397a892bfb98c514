//! Programs on this machine.

use std::path::PathBuf;

use engines::EngineKind;
use sandbox::find_program;

use crate::config::FactoryConfig;

/// Where a program is, as a shell would look for it.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    find_program(program, std::env::var_os("PATH").as_deref())
}

/// The engines that a factory finds without configuration, each with its path.
pub(crate) fn engines_by_themselves() -> Vec<(&'static str, PathBuf)> {
    let kinds = EngineKind::offered_unconfigured().filter_map(EngineKind::program);
    kinds.filter_map(|name| found(name).map(|path| (name, path))).collect()
}

/// The hint to print at start when the configuration names no engine.
pub(crate) fn word_on_engines(factory: &FactoryConfig) -> Option<String> {
    if !factory.engines.value.is_empty() {
        return None;
    }
    let found: Vec<String> = engines_by_themselves().into_iter().map(|(name, _)| format!("`{name}`")).collect();
    Some(match found.is_empty() {
        true => "there is no engine yet: install claude or codex, or name a command line in giga.toml (`giga init` \
                 writes one); `giga doctor` checks it"
            .to_owned(),
        false => format!("found {} on the PATH: offered where they are signed in", found.join(" and ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        assert!(found("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(found("/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(found("no-such-program-here"), None);
        assert_eq!(found("/"), None);
    }
}
