//! Tools that are installed in a home directory, without the rest of it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Where version managers and installers put programs and their data. No credential is kept there.
const TOOLCHAINS: [&str; 40] = [
    ".asdf",
    ".bun/bin",
    ".cargo/bin",
    ".deno/bin",
    ".dotnet/host",
    ".dotnet/sdk",
    ".dotnet/shared",
    ".dotnet/tools",
    ".foundry/bin",
    ".fnm",
    ".ghcup",
    ".goenv",
    ".jenv",
    ".juliaup",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".local/share/claude/versions",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/rtx",
    ".local/share/uv",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".opam",
    ".phpenv",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".sdkman",
    ".swiftly",
    ".volta",
    "anaconda3",
    "go",
    "miniconda3",
];

/// What programs look for beside their own directory.
const BESIDE: [&str; 4] = ["lib", "lib64", "libexec", "include"];

/// Where node's programs keep their modules.
const PACKAGES: &str = "node_modules";

/// What is readable in `home` for a program with this `PATH`. It may not exist.
pub(super) fn in_home(home: &Path, path: &[PathBuf]) -> Vec<PathBuf> {
    let known = TOOLCHAINS.iter().map(|folder| home.join(folder));
    let on_path = path.iter().filter(|folder| is_inside(home, folder)).flat_map(|folder| around(home, folder));
    known.chain(on_path).collect()
}

/// The programs in `home` that links in these directories lead to.
pub(super) fn linked(home: &Path, path: &[PathBuf]) -> Vec<PathBuf> {
    path.iter().filter(|folder| is_inside(home, folder)).flat_map(|folder| linked_from(home, folder)).collect()
}

/// What every program can read in `home`.
pub(super) fn of_program(home: &Path, program: &Path) -> Vec<PathBuf> {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let packages = real.ancestors().filter(|above| above.file_name() == Some(OsStr::new(PACKAGES))).last();
    let beside = real.parent().filter(|folder| is_bin(folder)).map(|folder| around(home, folder));
    let all = [program.to_owned(), real.clone()].into_iter().chain(packages.map(Path::to_owned));
    all.chain(beside.into_iter().flatten()).filter(|path| is_inside(home, path)).collect()
}

/// A directory of programs with their data. Beside one in a hidden directory there may be more than that.
fn around(home: &Path, folder: &Path) -> Vec<PathBuf> {
    let mut all = linked_from(home, folder);
    all.push(folder.to_owned());
    if let Some(parent) = folder.parent().filter(|parent| is_bin(folder) && is_inside(home, parent)) {
        all.extend(BESIDE.map(|name| parent.join(name)));
        let is_plain = |part: &OsStr| !part.as_encoded_bytes().starts_with(b".");
        if parent.strip_prefix(home).is_ok_and(|below| below.iter().all(is_plain)) {
            all.push(parent.to_owned());
        }
    }
    all
}

fn linked_from(home: &Path, folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let linked = entries.filter(|path| path.is_symlink()).filter_map(|path| path.canonicalize().ok());
    linked.filter(|path| path.is_file() && is_inside(home, path)).collect()
}

fn is_bin(folder: &Path) -> bool {
    folder.file_name() == Some(OsStr::new("bin"))
}

fn is_inside(home: &Path, path: &Path) -> bool {
    path != home && path.starts_with(home)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    // [T8] [attack: a prompt-injected agent steals secrets]
    #[test]
    fn tools_on_the_path_are_opened_with_what_belongs_to_them_and_not_with_their_neighbours() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().canonicalize().unwrap();
        for folder in [".fly/bin", "sdk/go/bin", "bin", "apps"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::write(home.join("apps/tool"), "").unwrap();
        symlink(home.join("apps/tool"), home.join("bin/tool")).unwrap();
        let path = [".fly/bin", "sdk/go/bin", "bin", ""].map(|folder| home.join(folder));
        let path: Vec<PathBuf> = path.into_iter().chain([PathBuf::from("/usr/bin")]).collect();

        let opened = in_home(&home, &path);

        let is_open = |name: &str| opened.iter().any(|open| home.join(name).starts_with(open));
        let open = [".fly/bin/flyctl", "sdk/go/src/fmt", "bin/tool", "apps/tool", ".rustup/toolchains", ".nvm/x"];
        let closed = [".fly/config.yml", "apps/notes", ".cargo/credentials.toml", ".ssh/id", "letters", "sdk/key"];
        assert_eq!(open.map(is_open), [true; 6]);
        assert_eq!(closed.map(is_open), [false; 6], "{opened:?}");
        assert!(opened.iter().all(|path| is_inside(&home, path)));
    }

    // [T8]
    #[test]
    fn a_program_in_the_home_is_opened_with_its_packages() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().canonicalize().unwrap();
        let script = home.join("tools/node_modules/agent/cli.js");
        fs::create_dir_all(script.parent().unwrap()).unwrap();
        fs::write(&script, "").unwrap();
        symlink(&script, home.join("agent")).unwrap();

        let opened = of_program(&home, &home.join("agent"));

        assert_eq!(opened, [home.join("agent"), script, home.join("tools/node_modules")]);
    }
}
