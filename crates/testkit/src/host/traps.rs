//! Traps of a hostile repository: programs that leave a file `canary` where git runs them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::TestRemote;

/// Fails if a trap went off below a directory.
pub fn no_canary(folder: &Path) {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            assert_ne!(entry.file_name().as_bytes(), b"canary", "a trap went off in {}", folder.display());
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
}

/// Makes every hook of a directory a trap.
pub fn plant_hooks(folder: &Path, trap: &str) {
    fs::create_dir_all(folder).unwrap();
    let hooks = [
        "pre-commit",
        "post-commit",
        "post-checkout",
        "post-merge",
        "pre-push",
        "post-index-change",
        "reference-transaction",
        "prepare-commit-msg",
        "commit-msg",
        "pre-auto-gc",
        "fsmonitor-watchman",
        "post-rewrite",
    ];
    for hook in hooks {
        fs::copy(trap, folder.join(hook)).unwrap();
    }
}

/// A script that leaves the canary, and forwards its input so that nothing else fails.
pub fn trap(forge: &TestRemote) -> String {
    let script = forge.path("trap.sh");
    fs::write(&script, format!("#!/bin/sh\ntouch '{}'\ncat\n", forge.path("canary").display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script.to_str().unwrap().to_owned()
}

/// Every setting that makes git run a program.
pub fn trapped_config(trap: &str) -> String {
    let ssh = format!("{trap} #");
    format!(
        "[core]\n\tfsmonitor = {trap}\n\tsshCommand = {ssh}\n\thooksPath = {trap}-hooks\n\tpager = {trap}\n\teditor = {trap}\n\
         \talternateRefsCommand = {trap}\n\tgitProxy = {trap}\n\taskPass = {trap}\n\
         [filter \"evil\"]\n\tclean = {trap}\n\tsmudge = {trap}\n\tprocess = {trap}\n\trequired = true\n\
         [diff]\n\texternal = {trap}\n[diff \"evil\"]\n\ttextconv = {trap}\n\tcommand = {trap}\n\
         [merge \"evil\"]\n\tdriver = {trap} %O %A %B\n\
         [alias]\n\tadd = !{trap}\n\tread-tree = !{trap}\n\tcommit-tree = !{trap}\n\
         [gpg]\n\tprogram = {trap}\n[commit]\n\tgpgSign = true\n[push]\n\tgpgSign = if-asked\n\
         [credential]\n\thelper = {trap}\n[uploadpack]\n\tpackObjectsHook = {trap}\n\
         [remote \"origin\"]\n\turl = ext::{trap}\n\tuploadpack = {trap}\n\treceivepack = {trap}\n\tpromisor = true\n\
         [remote \"evil\"]\n\turl = {trap}-evil\n\tuploadpack = {trap}\n\tpromisor = true\n\
         [protocol]\n\tallow = always\n[protocol \"file\"]\n\tallow = always\n\
         [extensions]\n\tpartialClone = evil\n\
         [submodule \"sub\"]\n\turl = ext::{trap}\n\tupdate = !{trap}\n\tactive = true\n\
         [include]\n\tpath = {trap}.inc\n"
    )
}
