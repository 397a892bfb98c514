//! An empty cluster that is created once and then copied: copying takes a tenth of the time of `initdb`.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::account::Account;
use crate::error::Error;
use crate::programs::Programs;
use crate::server::Flushes;

/// Copies an empty cluster to `data`, whose parent directory must belong to the account.
pub(crate) fn copy(programs: &Programs, account: Account, flushes: Flushes, data: &Path) -> Result<(), Error> {
    let template = template(programs, account, flushes)?;
    let mut copy = account.command(Path::new("cp"));
    copy.arg("-R").arg(&template).arg(data);
    run(&mut copy)
}

/// Returns the template cluster; creates it if it does not exist.
fn template(programs: &Programs, account: Account, flushes: Flushes) -> Result<PathBuf, Error> {
    // With real flushes, WAL segments have the default size. Without, small segments are faster to copy.
    let segment_mib = match flushes {
        Flushes::Real => 16,
        Flushes::None => 1,
    };
    let name = format!("giga-postgres-{}-{}-{segment_mib}", programs.version()?, account.number());
    let folder = std::env::temp_dir().join(&name);
    let template = folder.join("cluster");
    let _lock = lock(&std::env::temp_dir().join(format!("{name}.lock")))?;
    if template.join("PG_VERSION").is_file() {
        return Ok(template);
    }
    let unfinished = folder.join("unfinished");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).map_err(Error::files(&folder))?;
    account.own(&folder)?;
    let mut initdb = account.command(&programs.path("initdb"));
    initdb.arg("-D").arg(&unfinished).args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
    initdb.arg(format!("--wal-segsize={segment_mib}"));
    run(&mut initdb)?;
    // The rename comes last, so a template with this name is always complete.
    fs::rename(&unfinished, &template).map_err(Error::files(&template))?;
    Ok(template)
}

/// One process creates the template, the others wait for the lock. Closing the file releases it.
fn lock(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(path).map_err(Error::files(path))?;
    file.lock().map_err(Error::files(path))?;
    Ok(file)
}

fn run(command: &mut Command) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(Error::files(&program))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Program { program, output: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}
