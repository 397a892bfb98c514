//! Systems without a sandbox for unprivileged programs.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::{Means, Reach};

pub(super) fn try_out() -> Result<Means, String> {
    Err("this system has no Landlock, which is part of Linux: run engines under another account with `run_as`"
        .to_owned())
}

pub(super) fn keeps_from_sockets() -> bool {
    false
}

pub(super) fn go_inside(_: BTreeMap<PathBuf, Reach>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
