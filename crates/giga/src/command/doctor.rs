//! `giga doctor`: is this machine well, and which settings are in force?

mod agents;
mod check;
mod coordinator;
mod data;
mod logins;
mod messengers;
mod state;
mod store;
mod tools;

use std::path::PathBuf;

use domain::ProfileText;
use serde::Serialize;

use crate::config::{Config, ListedSetting};
use crate::failure::Failure;
use crate::output::{Cell, Output, Table, Tint};
use crate::profile_files::profiles_in;

use check::{Check, CheckOutcome};

#[derive(Serialize)]
struct Findings {
    checks: Vec<Check>,
    settings: Vec<ListedSetting>,
}

/// Checks this machine; fails if anything is broken.
pub(crate) async fn doctor(config: Result<Config, Failure>, out: &Output) -> Result<(), Failure> {
    let findings = examine(config).await;
    if out.is_json() {
        out.document(&findings)?;
    } else {
        print(&findings, out)?;
    }
    match findings.checks.iter().filter(|check| check.verdict == CheckOutcome::Fail).count() {
        0 => Ok(()),
        failed => Err(Failure::failed(format!("{} failed", domain::counted(failed, "check")))),
    }
}

async fn examine(config: Result<Config, Failure>) -> Findings {
    let mut checks = vec![program()];
    let config = match config {
        Ok(config) => config,
        Err(failure) => {
            checks.push(Check::fail("configuration", failure.message(), failure.hint_text().unwrap_or("fix the file")));
            checks.push(tools::git());
            return Findings { checks, settings: Vec::new() };
        }
    };
    checks.extend(configuration(&config));
    checks.extend(profiles(&config));
    checks.extend(data::examine(&config));
    checks.extend(state::examine(&config));
    checks.extend(store::examine(&config).await);
    checks.extend(coordinator::examine(&config).await);
    checks.extend(messengers::examine(&config));
    checks.push(tools::git());
    checks.extend(tools::engines(&config.factory));
    checks.extend(logins::examine(&config).await);
    checks.extend(tools::repositories(&config.factory));
    checks.push(agents::confinement(&config.factory));
    checks.extend(agents::own_program(&config.factory));
    checks.extend(agents::opened(&config.factory));
    checks.extend(tools::capabilities(&config).await);
    let in_use = state::in_use(&config);
    Findings { checks, settings: listed(config.listing, &in_use) }
}

/// The settings, with the state directories that are in use where no setting names one.
fn listed(mut settings: Vec<ListedSetting>, in_use: &[PathBuf]) -> Vec<ListedSetting> {
    for setting in settings.iter_mut().filter(|setting| setting.key == "factory.state" && !in_use.is_empty()) {
        let states: Vec<String> = in_use.iter().map(|state| state.display().to_string()).collect();
        setting.value = states.join(", ");
    }
    settings
}

fn program() -> Check {
    let text = format!("giga {}, protocol {}", env!("CARGO_PKG_VERSION"), protocol::PROTOCOL_VERSION);
    Check::ok("program", text)
}

fn configuration(config: &Config) -> Vec<Check> {
    let found = match &config.file {
        Some(path) => format!("from {}", path.display()),
        None => "no giga.toml: defaults, variables and flags".to_owned(),
    };
    let mut checks = vec![Check::ok("configuration", found)];
    for stranger in &config.strangers {
        let remedy = match stranger.meant {
            Some(meant) => format!("did you mean {meant}?"),
            None => "unset it".to_owned(),
        };
        checks.push(Check::warn("configuration", format!("unknown environment variable {}", stranger.name), remedy));
    }
    for warning in config.factory.polling.reconciled().1 {
        checks.push(Check::warn("configuration", warning, "change the setting"));
    }
    for warning in config.coordinator.settings().reconciled().1 {
        checks.push(Check::warn("configuration", warning, "change one of the two settings"));
    }
    checks
}

/// The profiles that a coordinator with this configuration creates when it starts.
fn profiles(config: &Config) -> Vec<Check> {
    let Some(directory) = config.profiles().filter(|directory| directory.is_dir()) else { return Vec::new() };
    let (files, mut problems) = profiles_in(&directory);
    for file in &files {
        if let Err(findings) = ProfileText::parse(&file.text) {
            problems.extend(findings.iter().map(|finding| format!("{}: {finding}", file.path.display())));
        }
    }
    if problems.is_empty() {
        let found = format!("{} in {}", domain::counted(files.len(), "profile"), directory.display());
        return vec![Check::ok("profiles", found)];
    }
    let warn = |found| Check::warn("profiles", found, "fix the file, and start the coordinator again");
    problems.into_iter().map(warn).collect()
}

fn print(findings: &Findings, out: &Output) -> Result<(), Failure> {
    let mut checks = Table::new(&["STATE", "CHECK", "FOUND"], "FOUND");
    for check in &findings.checks {
        let (word, tint) = match check.verdict {
            CheckOutcome::Ok => ("ok", Tint::Good),
            CheckOutcome::Warn => ("warn", Tint::Warn),
            CheckOutcome::Fail => ("FAIL", Tint::Bad),
        };
        let remedy = check.remedy.as_deref().map_or_else(String::new, |remedy| format!(": {remedy}"));
        let found = Cell::from(out.with_flags(&format!("{}{remedy}", check.found)));
        checks.row(vec![Cell::tinted(word, tint), check.name.into(), found]);
    }
    out.whole_table(&checks)?;
    let mut settings = Table::new(&["SETTING", "VALUE", "FROM"], "VALUE");
    for listed in &findings.settings {
        settings.row(vec![listed.key.into(), listed.value.as_str().into(), listed.origin.as_str().into()]);
    }
    if settings.is_empty() {
        return Ok(());
    }
    out.line("")?;
    out.whole_table(&settings)
}
