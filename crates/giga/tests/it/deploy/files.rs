//! Where the files are, and what holds for each command line and variable in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::giga::Machine;

/// Variables that are no settings.
const NOT_SETTINGS: [&str; 2] = ["GIGA_CONFIG", "GIGA_JOIN"];

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(super) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fails unless `giga` accepts this command line, as far as its grammar goes.
pub(super) fn assert_accepted(machine: &Machine, place: &str, args: &[&str]) {
    let ran = machine.giga(&[args, &["--help"]].concat());
    assert_eq!(ran.code, Some(0), "{place}: `giga {}`: {}", args.join(" "), ran.stderr);
}

/// Fails unless a variable that belongs to giga is in the reference of settings.
pub(super) fn assert_known(place: &str, variable: &str) {
    if variable.starts_with("GIGA_") && !NOT_SETTINGS.contains(&variable) {
        assert!(settings().contains(variable), "{place}: `{variable}` is not a setting");
    }
}

fn settings() -> BTreeSet<String> {
    let text = read("docs/reference/settings.md");
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.starts_with("GIGA_")).map(str::to_owned).collect()
}

/// Fails unless an image has a version: `latest` is another program tomorrow.
pub(super) fn assert_pinned(place: &str, image: &str) {
    let tag = image.rsplit_once(':').map(|(_, tag)| tag);
    assert!(tag.is_some_and(|tag| !tag.is_empty() && tag != "latest"), "{place}: `{image}` has no version");
}

/// Fails unless an image of ours is the one of this version.
pub(super) fn assert_own_version(place: &str, image: &str) {
    let version = image.strip_prefix("giga-coordinator:").or_else(|| image.strip_prefix("giga-factory:"));
    assert_eq!(version, Some(env!("CARGO_PKG_VERSION")), "{place}: `{image}`");
}
