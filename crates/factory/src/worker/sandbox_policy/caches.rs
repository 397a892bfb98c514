//! Directories that build tools share between runs, read-only for agents.

use std::collections::BTreeSet;
use std::path::Path;

use sandbox::{EnvironmentConfig, PathAccess, Sandbox};

/// Variables that name a directory which a build tool writes to whenever it downloads something.
const CACHES: [&str; 24] = [
    "BUN_INSTALL_CACHE_DIR",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CCACHE_DIR",
    "COMPOSER_CACHE_DIR",
    "COMPOSER_HOME",
    "DENO_DIR",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GRADLE_USER_HOME",
    "HF_HOME",
    "NPM_CONFIG_CACHE",
    "NUGET_PACKAGES",
    "PIP_CACHE_DIR",
    "POETRY_CACHE_DIR",
    "SCCACHE_DIR",
    "TURBO_CACHE_DIR",
    "UV_CACHE_DIR",
    "XDG_CACHE_HOME",
    "YARN_CACHE_FOLDER",
    "npm_config_cache",
    "npm_config_store_dir",
    "pnpm_config_store_dir",
];

/// A variable, and the directory that it leads to.
pub(super) type Named = (&'static str, String);

/// The caches that programs with this environment find and cannot add to.
pub(super) fn only_readable(environment: &EnvironmentConfig, sandbox: &Sandbox) -> BTreeSet<Named> {
    let is_only_readable =
        |folder: &str| Path::new(folder).is_absolute() && sandbox.reach_at(Path::new(folder)) == PathAccess::Read;
    let named = CACHES.into_iter().filter_map(|name| Some((name, value(environment, name)?)));
    named.filter(|(_, folder)| is_only_readable(folder)).collect()
}

fn value(environment: &EnvironmentConfig, name: &str) -> Option<String> {
    let passed = || environment.pass.iter().any(|pass| pass == name).then(|| std::env::var(name).ok()).flatten();
    environment.set.get(name).cloned().or_else(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_can_be_read_and_not_written_to_is_told_and_others_are_not() {
        let set = [
            ("CARGO_HOME", "/opt/cargo"),
            ("GOMODCACHE", "/srv/open/mod"),
            ("GOCACHE", "/srv/closed"),
            ("SCCACHE_DIR", "relative"),
            ("JAVA_HOME", "/opt/java"),
        ];
        let set = set.map(|(name, folder)| (name.to_owned(), folder.to_owned())).into();
        let environment = EnvironmentConfig { set, ..EnvironmentConfig::default() };
        let sandbox = Sandbox::default()
            .with("/", PathAccess::Read)
            .with("/srv/open", PathAccess::Everything)
            .with("/srv/closed", PathAccess::Nothing);

        let told = only_readable(&environment, &sandbox);

        assert_eq!(told, BTreeSet::from([("CARGO_HOME", "/opt/cargo".to_owned())]));
    }
}
