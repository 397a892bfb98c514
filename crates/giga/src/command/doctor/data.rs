//! Checks of the data directory: access, free space, and whether the database is ours.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::config::Config;

use super::check::{Check, CheckOutcome};

const GIB: u64 = 1024 * 1024 * 1024;

/// Below this a factory gets no new work.
const FREE_COMFORTABLE: u64 = GIB;

/// Below this a database cannot grow.
const FREE_MIN: u64 = GIB / 16;

/// What every SQLite database begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Where the header names the program that a database belongs to, and our name there.
const APPLICATION_ID_AT: usize = 68;
const APPLICATION_ID: [u8; 4] = *b"GIGA";
const HEADER_LEN: usize = 100;

/// Checks the data directory and its content.
pub(super) fn examine(config: &Config) -> Vec<Check> {
    let folder = config.data.path();
    let mut checks = vec![permissions(folder), room(folder)];
    if let Some(file) = config.coordinator.store.value.file(&config.data.database()) {
        let header = database(&file);
        let is_sound = header.verdict == CheckOutcome::Ok;
        checks.push(header);
        checks.extend(record(&store::record_path(&file)));
        if is_sound {
            checks.extend(integrity(&file));
        }
    }
    checks.extend(secret(&config.data.admin_token()));
    checks
}

fn permissions(folder: &Path) -> Check {
    let shown = folder.display();
    match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Check::ok("data directory", format!("{shown} does not exist yet; `giga up` creates it"))
        }
        Err(error) => Check::fail("data directory", format!("{shown}: {error}"), "choose another with --data"),
        Ok(found) if !found.is_dir() => {
            Check::fail("data directory", format!("{shown} is not a directory"), "choose another with --data")
        }
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            Check::warn("data directory", format!("{shown} can be read by other users"), format!("chmod 700 {shown}"))
        }
        Ok(_) => Check::ok("data directory", shown.to_string()),
    }
}

fn room(folder: &Path) -> Check {
    // The last ancestor of a relative path is empty: the working directory.
    let here = |above: &Path| if above.as_os_str().is_empty() { Path::new(".").to_owned() } else { above.to_owned() };
    let Some(there) = folder.ancestors().map(here).find(|above| above.is_dir()) else {
        return Check::warn("disk", "no part of the data directory's path exists", "choose another with --data");
    };
    match rustix::fs::statvfs(&there) {
        Err(error) => Check::warn("disk", format!("free space is unknown: {error}"), "check it with `df`"),
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let text = format!("{:.1} GiB free", free as f64 / GIB as f64);
            match free {
                0..FREE_MIN => Check::fail("disk", text, "free some, or move the data with --data"),
                FREE_MIN..FREE_COMFORTABLE => Check::warn("disk", text, "free some: below 1 GiB no work begins"),
                _ => Check::ok("disk", text),
            }
        }
    }
}

fn database(path: &Path) -> Check {
    let shown = path.display();
    let mut header = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(HEADER_LEN as u64).read_to_end(&mut header));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Check::ok("database", "none yet: the first `giga up` makes it")
        }
        Err(error) => Check::fail("database", format!("{shown}: {error}"), "make it readable for this user"),
        // The first transaction may still be in the write-ahead log alone.
        Ok(0) => Check::ok("database", format!("{shown} is empty")),
        Ok(length) if length < HEADER_LEN || !header.starts_with(MAGIC) => {
            Check::fail("database", format!("{shown} is not a database"), "restore it from a backup, or move it away")
        }
        Ok(_) => match &header[APPLICATION_ID_AT..APPLICATION_ID_AT + 4] {
            id if *id == APPLICATION_ID || *id == [0; 4] => Check::ok("database", shown.to_string()),
            _ => Check::fail(
                "database",
                format!("{shown} belongs to another program"),
                "choose another directory with --data",
            ),
        },
    }
}

/// Reads every page of the database that is in use, beside a coordinator that works on it.
fn integrity(path: &Path) -> Option<Check> {
    if fs::metadata(path).map_or(0, |found| found.len()) == 0 {
        return None;
    }
    Some(match store::check_closed(path) {
        Ok(None) => Check::ok("integrity", "every page of the database that is in use can be read"),
        Ok(Some(why)) => Check::fail(
            "integrity",
            format!("the database is damaged ({why})"),
            "keep a copy, then `giga backup restore FILE`",
        ),
        Err(error) => Check::fail("integrity", error.to_string(), "keep a copy, then `giga backup restore FILE`"),
    })
}

/// The record beside the store.
fn record(path: &Path) -> Option<Check> {
    match store::read_record(path) {
        Ok(None) => None,
        Ok(Some(record)) => {
            let shutdown =
                if record.clean.is_some() { "shut down cleanly" } else { "in use, or not shut down cleanly" };
            Some(Check::ok("record", format!("{record}; {shutdown}")))
        }
        Err(error) => Some(Check::warn("record", format!("{}: {error}", path.display()), "make it readable")),
    }
}

fn secret(path: &Path) -> Option<Check> {
    let found = fs::metadata(path).ok()?;
    let shown = path.display();
    Some(match found.permissions().mode() & 0o077 {
        0 => Check::ok("admin token", format!("{shown}, readable by you alone")),
        _ => Check::fail("admin token", format!("{shown} can be read by other users"), format!("chmod 600 {shown}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(bytes: &[u8]) -> CheckOutcome {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.db");
        fs::write(&path, bytes).unwrap();
        database(&path).verdict
    }

    #[test]
    fn a_database_is_known_by_its_header() {
        let mut ours = [MAGIC.as_slice(), &[0; HEADER_LEN - MAGIC.len()]].concat();
        ours[APPLICATION_ID_AT..APPLICATION_ID_AT + 4].copy_from_slice(&APPLICATION_ID);
        let mut foreign = ours.clone();
        foreign[APPLICATION_ID_AT] = b'X';

        assert_eq!(verdict_of(&ours), CheckOutcome::Ok);
        assert_eq!(verdict_of(b""), CheckOutcome::Ok);
        assert_eq!(verdict_of(&foreign), CheckOutcome::Fail);
        assert_eq!(verdict_of(b"not a database at all"), CheckOutcome::Fail);
    }

    #[test]
    fn a_token_that_others_can_read_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.token");
        let verdict = |mode: u32| {
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            secret(&path).map(|check| check.verdict)
        };

        assert_eq!(verdict(0o600), Some(CheckOutcome::Ok));
        assert_eq!(verdict(0o644), Some(CheckOutcome::Fail));
    }
}
