//! The state directory of each factory of this machine: is it usable, which coordinator is it for, what was left in it?

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use workspace::{LocalStage, Runs, StateDir};

use crate::compose;
use crate::config::{Config, Origin};

use super::check::Check;

const GIB: f64 = (1024 * 1024 * 1024) as f64;

/// Checks the state directory of every factory.
pub(super) fn examine(config: &Config) -> Vec<Check> {
    let configured = &config.factory.state.value;
    let others = compose::states(config).filter(|state| state != configured);
    let mut states: Vec<PathBuf> = others.collect();
    // Where the factories of `giga up` have theirs, the default directory of `giga factory run` need not exist.
    if states.is_empty() || configured.exists() || config.factory.state.origin != Origin::Default {
        states.insert(0, configured.clone());
    }
    let floor = config.factory.housekeeping.reconciled().disk_floor_bytes;
    let is_used = |state: &Path| states.len() == 1 || is_running(state) || is_configured(state, config);
    states.iter().flat_map(|state| examine_one(state, config, floor, is_used(state))).collect()
}

/// The directories in which factories run now; where none runs and the default directory of `giga factory run` does not
/// exist, those of `giga up`. Empty where the setting decides.
pub(super) fn in_use(config: &Config) -> Vec<PathBuf> {
    let setting = &config.factory.state;
    if setting.origin != Origin::Default {
        return Vec::new();
    }
    let (running, others): (Vec<_>, Vec<_>) = compose::states(config).partition(|state| is_running(state));
    if running.is_empty() && !setting.value.exists() { others } else { running }
}

fn is_running(state: &Path) -> bool {
    StateDir::existing(state).holder().is_some()
}

fn is_configured(state: &Path, config: &Config) -> bool {
    config.factory.state.origin != Origin::Default && config.factory.state.value == state
}

fn examine_one(state: &Path, config: &Config, floor: u64, is_used: bool) -> Vec<Check> {
    match usable(state) {
        StateUsability::NotYet(check) | StateUsability::No(check) => vec![check],
        StateUsability::Yes(check) => {
            let found = [Some(check), free_space(state, floor), coordinator(state, config, is_used), runs(state)];
            found.into_iter().flatten().collect()
        }
    }
}

enum StateUsability {
    NotYet(Check),
    No(Check),
    Yes(Check),
}

fn usable(state: &Path) -> StateUsability {
    let (name, shown, other) = ("factory state", state.display(), "choose another with `state` under [factory]");
    let found = match fs::metadata(state) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return StateUsability::NotYet(Check::ok(
                name,
                format!("{shown} does not exist yet; `giga factory run` creates it"),
            ));
        }
        Err(error) => return StateUsability::No(Check::fail(name, format!("{shown}: {error}"), other)),
        Ok(found) if !found.is_dir() => {
            return StateUsability::No(Check::fail(name, format!("{shown} is not a directory"), other));
        }
        Ok(found) => found,
    };
    for (wanted, what) in [(Access::READ_OK | Access::EXEC_OK, "readable"), (Access::WRITE_OK, "writable")] {
        if let Err(error) = access(state, wanted) {
            let remedy = "run this as the factory's user, or choose another with `state` under [factory]";
            return StateUsability::No(Check::fail(name, format!("{shown} is not {what}: {error}"), remedy));
        }
    }
    StateUsability::Yes(match found.permissions().mode() & 0o077 {
        // Others may pass through to what programs under another account need.
        0 | 0o011 | 0o001 | 0o010 => Check::ok(name, shown.to_string()),
        _ => Check::warn(name, format!("{shown} can be read by other users"), format!("chmod 700 {shown}")),
    })
}

/// Below the floor a factory takes no work.
fn free_space(state: &Path, floor: u64) -> Option<Check> {
    let found = rustix::fs::statvfs(state).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("{:.1} GiB free for {}", free as f64 / GIB, state.display());
    Some(match free {
        0 => Check::fail("factory disk", text, "free some space: the factory takes no work until then"),
        free if free < floor => {
            let remedy = format!("free some space: below {:.1} GiB the factory takes no work", floor as f64 / GIB);
            Check::warn("factory disk", text, remedy)
        }
        _ => Check::ok("factory disk", text),
    })
}

/// The coordinator that a factory works for. A directory that is left from another one is no reason to warn.
fn coordinator(state: &Path, config: &Config, is_used: bool) -> Option<Check> {
    let api = &config.client.api.value;
    let name = "factory coordinator";
    if !is_used {
        let own = compose::coordinator_of(state).filter(|own| own != api);
        let of = own.map_or_else(String::new, |own| format!("; it is for {own}"));
        return Some(Check::ok(name, format!("{} is not in use{of}", state.display())));
    }
    if !compose::is_enrolled(state) {
        let remedy =
            "`giga up` enrols its factories; for another coordinator start with `giga factory run --join TOKEN`";
        return Some(Check::warn(name, format!("{} has no factory token", state.display()), remedy));
    }
    Some(match compose::coordinator_of(state) {
        Some(own) if own == *api || compose::factory_address(config, state) == own => Check::ok(name, own),
        Some(own) => {
            let remedy =
                "start the factory with the coordinator that it is to work for; the token is for that one alone";
            Check::warn(name, format!("{} belongs to {own}, not to {api}", state.display()), remedy)
        }
        None => Check::ok(name, "enrolled; the next start of the factory records which coordinator it works for"),
    })
}

/// The records of runs: those of a factory that runs are its business, those of one that does not were left.
fn runs(state: &Path) -> Option<Check> {
    let (name, state) = ("factory runs", StateDir::existing(state));
    let listing = match Runs::under(&state).list() {
        Ok(listing) => listing,
        Err(error) => return Some(Check::fail(name, error.to_string(), "make the state directory readable")),
    };
    let kept = listing.records.iter().filter(|record| record.stage == LocalStage::Quarantined).count();
    let open = listing.records.len() - kept;
    let text = format!("{open} open, {kept} kept with a worktree, {} unreadable", listing.torn.len());
    Some(match state.holder() {
        Some(process) => Check::ok(name, format!("{text} (factory running, process {process})")),
        None if open > 0 => Check::warn(
            name,
            format!("{text}, and no factory is running there"),
            "start the factory: it saves the work and gives the jobs back",
        ),
        None => Check::ok(name, text),
    })
}
