//! How a factory polls for work: part of `[factory]`, with the names that older scripts use.

use std::time::Duration;

use factory::{PollWhen, Polling};

use crate::failure::Failure;

use super::duration::HumanDuration;
use super::file;
use super::resolver::{Resolver, SettingSource};
use super::setting::Setting;

/// The shortest poll interval that is accepted.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// The longest poll interval that is accepted.
const EVERY_MAX: Duration = Duration::from_secs(60 * 60);

/// How a factory polls for work.
#[derive(Debug)]
pub(crate) struct PollingConfig {
    /// Whether it works for a coordinator, and not for a folder queue.
    pub(crate) fleet: Setting<bool>,
    /// Whether it follows the configured mode; otherwise it polls whatever that is.
    pub(crate) route: Setting<bool>,
    /// Whether it polls the queue version before it claims.
    pub(crate) gate: Setting<bool>,
    /// The pause between two askings.
    pub(crate) every: Setting<HumanDuration>,
}

impl PollingConfig {
    pub(super) fn resolve(resolver: &mut Resolver, file: file::Polling) -> Result<Self, Failure> {
        let fleet = SettingSource::new("factory.fleet").env(&["AQ_FLEET"]);
        let route = SettingSource::new("factory.route").env(&["GIGA_ROUTE", "AQ_FLEET_ROUTE"]).file(file.route);
        let gate = SettingSource::new("factory.gate").env(&["GIGA_GATE", "AQ_FLEET_GATE"]).file(file.gate);
        let every =
            SettingSource::new("factory.poll_every").env(&["GIGA_POLL_EVERY", "POLL_SECONDS"]).file(file.poll_every);
        Ok(Self {
            fleet: resolver.setting(fleet, || true)?,
            route: resolver.setting(route, || true)?,
            gate: resolver.setting(gate, || false)?,
            every: resolver.setting(every, || HumanDuration(Polling::default().every))?,
        })
    }

    /// The factory's options, and a message about each setting that had to be adjusted [T7].
    pub(crate) fn reconciled(&self) -> (Polling, Vec<String>) {
        let mut warnings = Vec::new();
        if !self.fleet.value {
            let why =
                "selects the local folder queue: run `giga local DIR` for that; `giga factory run` needs a coordinator";
            warnings.push(format!("{} {why}", self.fleet.origin));
        }
        let asked = self.every.value.0;
        let every = asked.clamp(EVERY_MIN, EVERY_MAX);
        if every != asked {
            let (origin, asked, every) = (&self.every.origin, self.every.value, HumanDuration(every));
            warnings.push(format!("{origin}: asking for work every {asked} is out of bounds: every {every}"));
        }
        let when = if self.route.value { PollWhen::Told } else { PollWhen::Always };
        (Polling { every, when, gated: self.gate.value }, warnings)
    }
}
