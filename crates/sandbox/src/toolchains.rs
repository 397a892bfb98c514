//! The operator's toolchains for programs in the sandbox: their variables, the directories that have to be readable,
//! and the caches that they write to.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::find_program::find_program;

/// Variables that name the directory of a toolchain or of a version manager, with its default place in a home. A
/// program whose `HOME` is the run's own finds it by nothing else.
///
/// Not among them are directories that a tool also writes to (`CARGO_HOME`, `GOPATH`, `BUN_INSTALL`): without the variable
/// these are in the run's own home, or in a cache.
const HOMES: [(&str, Option<&str>); 23] = [
    ("ANDROID_HOME", None),
    ("ANDROID_SDK_ROOT", None),
    ("ASDF_DATA_DIR", Some(".asdf")),
    ("ASDF_DIR", Some(".asdf")),
    ("DEVELOPER_DIR", None),
    ("DOTNET_ROOT", None),
    ("FNM_DIR", Some(".local/share/fnm")),
    ("GOENV_ROOT", Some(".goenv")),
    ("GOROOT", None),
    ("HOMEBREW_CELLAR", None),
    ("HOMEBREW_PREFIX", None),
    ("HOMEBREW_REPOSITORY", None),
    ("JAVA_HOME", None),
    ("JENV_ROOT", Some(".jenv")),
    ("MISE_DATA_DIR", Some(".local/share/mise")),
    ("NODENV_ROOT", Some(".nodenv")),
    ("NVM_DIR", Some(".nvm")),
    ("PYENV_ROOT", Some(".pyenv")),
    ("RBENV_ROOT", Some(".rbenv")),
    ("RUSTUP_HOME", Some(".rustup")),
    ("SDKMAN_DIR", Some(".sdkman")),
    ("SWIFTLY_HOME_DIR", Some(".swiftly")),
    ("VOLTA_HOME", Some(".volta")),
];

/// Variables that choose among the installed versions.
const VERSIONS: [&str; 7] = [
    "GOENV_VERSION",
    "GOTOOLCHAIN",
    "NODENV_VERSION",
    "PYENV_VERSION",
    "RBENV_VERSION",
    "RUSTUP_AUTO_INSTALL",
    "RUSTUP_TOOLCHAIN",
];

/// Where a tool keeps its downloads, by the variable that names the directory: it outlives worktrees if the program is
/// installed.
const CACHES: [(&str, &str, &str); 7] = [
    ("bun", "BUN_INSTALL_CACHE_DIR", "toolchain-bun"),
    ("cargo", "CARGO_HOME", "toolchain-cargo"),
    ("go", "GOCACHE", "toolchain-go-build"),
    ("go", "GOMODCACHE", "toolchain-go-mod"),
    ("npm", "npm_config_cache", "toolchain-npm"),
    ("pip3", "PIP_CACHE_DIR", "toolchain-pip"),
    ("uv", "UV_CACHE_DIR", "toolchain-uv"),
];

/// The toolchain variables of an environment: those that are set, and those of toolchains in the operator's home
/// without one. A toolchain in `home` itself, which a program is given, needs no variable.
pub(crate) fn variables(
    set: &BTreeMap<OsString, OsString>,
    home: Option<&Path>,
) -> impl Iterator<Item = (OsString, OsString)> {
    let given = |name: &str| set.get(OsStr::new(name)).filter(|value| !value.is_empty()).cloned();
    let operators = operators_home(set);
    let found = |default: Option<&str>| {
        let directory = operators.as_ref()?.join(default?);
        let is_in_home = home.is_some_and(|home| default.is_some_and(|default| home.join(default).is_dir()));
        (directory.is_dir() && !is_in_home).then(|| directory.into_os_string())
    };
    let homes = HOMES.into_iter().filter_map(|(name, default)| Some((name, given(name).or_else(|| found(default))?)));
    let versions = VERSIONS.into_iter().filter_map(|name| Some((name, given(name)?)));
    let all: Vec<(OsString, OsString)> = homes.chain(versions).map(|(name, value)| (name.into(), value)).collect();
    all.into_iter()
}

/// The directories that these variables name.
pub fn toolchain_directories(set: &BTreeMap<OsString, OsString>) -> BTreeSet<PathBuf> {
    let is_home = |name: &OsStr| HOMES.iter().any(|(home, _)| OsStr::new(home) == name);
    let named = variables(set, None).filter(|(name, _)| is_home(name)).map(|(_, value)| PathBuf::from(value));
    named.filter(|directory| directory.is_absolute()).collect()
}

/// The caches of the tools on `path`, each with its variable and the name of its directory.
pub fn toolchain_caches(path: Option<&OsStr>) -> impl Iterator<Item = (&'static str, &'static str)> {
    let installed = CACHES.into_iter().filter(move |(program, ..)| find_program(program, path).is_some());
    installed.map(|(_, variable, directory)| (variable, directory))
}

/// The home with the operator's toolchains: `HOME` or, for a service with another one, the home of cargo's programs in
/// `PATH`.
fn operators_home(set: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let own = set.get(OsStr::new("HOME")).map(PathBuf::from).filter(|home| home.is_absolute());
    let has_any =
        |home: &PathBuf| HOMES.iter().any(|(_, default)| default.is_some_and(|name| home.join(name).is_dir()));
    let path = set.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    let on_path = || std::env::split_paths(&path).find_map(|entry| above(&entry, ".cargo/bin"));
    own.clone().filter(has_any).or_else(on_path).or(own)
}

/// `/home/me` of `/home/me/.cargo/bin`.
fn above(entry: &Path, below: &str) -> Option<PathBuf> {
    let depth = Path::new(below).components().count();
    entry.ends_with(below).then(|| entry.ancestors().nth(depth).map(Path::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn set(pairs: &[(&str, &Path)]) -> BTreeMap<OsString, OsString> {
        pairs.iter().map(|(name, value)| (OsString::from(name), value.as_os_str().to_owned())).collect()
    }

    fn named(set: &BTreeMap<OsString, OsString>, home: Option<&Path>) -> Vec<(String, PathBuf)> {
        variables(set, home).map(|(name, value)| (name.into_string().unwrap(), PathBuf::from(value))).collect()
    }

    #[test]
    fn a_toolchain_in_the_operators_home_is_found_without_a_variable() {
        let home = tempfile::tempdir().unwrap();
        for directory in [".rustup", ".pyenv", ".cargo/bin"] {
            fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        let elsewhere = Path::new("/opt/pyenv");

        let found = named(&set(&[("HOME", home.path()), ("PYENV_ROOT", elsewhere), ("CARGO_HOME", home.path())]), None);

        let expected = [("PYENV_ROOT", elsewhere.to_owned()), ("RUSTUP_HOME", home.path().join(".rustup"))];
        assert_eq!(found, expected.map(|(name, path)| (name.to_owned(), path)), "and nothing that tools write to");
    }

    #[test]
    fn a_home_with_a_toolchain_of_its_own_keeps_it() {
        let (operators, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for home in [&operators, &own] {
            fs::create_dir(home.path().join(".rustup")).unwrap();
        }

        let found = named(&set(&[("HOME", operators.path())]), Some(own.path()));

        assert_eq!(found, []);
    }

    #[test]
    fn a_service_finds_the_toolchain_of_the_cargo_on_its_path() {
        let (service, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(home.path().join(".rustup")).unwrap();
        let path = home.path().join(".cargo/bin");

        let found = named(&set(&[("HOME", service.path()), ("PATH", &path)]), None);

        assert_eq!(found, [("RUSTUP_HOME".to_owned(), home.path().join(".rustup"))]);
    }

    #[test]
    fn tools_that_are_installed_have_caches() {
        use std::os::unix::fs::PermissionsExt;
        let bin = tempfile::tempdir().unwrap();
        fs::write(bin.path().join("cargo"), "").unwrap();
        fs::set_permissions(bin.path().join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();

        let found: Vec<_> = toolchain_caches(Some(bin.path().as_os_str())).collect();

        assert_eq!(found, [("CARGO_HOME", "toolchain-cargo")]);
    }
}
