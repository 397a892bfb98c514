//! The part of `[factory]` that is about its disk.

use std::time::Duration;

use factory::Housekeeping;

use crate::failure::Failure;

use super::duration::HumanDuration;
use super::file;
use super::resolver::{Resolver, SettingSource};
use super::setting::Setting;

const MIB: u64 = 1024 * 1024;

/// How a factory keeps its disk in order.
#[derive(Debug)]
pub(crate) struct HousekeepingConfig {
    /// How often it cleans up; never when zero.
    gc_every: Setting<HumanDuration>,
    /// How long what failed or was fenced is kept.
    gc_retention: Setting<HumanDuration>,
    /// With less free space it takes nothing new.
    disk_floor_mib: Setting<u32>,
}

impl HousekeepingConfig {
    pub(super) fn resolve(resolver: &mut Resolver, file: file::Housekeeping) -> Result<Self, Failure> {
        let usual = Housekeeping::default();
        let every = SettingSource::new("factory.gc_every").env(&["GIGA_GC_EVERY"]).file(file.gc_every);
        let retention = SettingSource::new("factory.gc_retention").env(&["GIGA_GC_RETENTION"]).file(file.gc_retention);
        let floor =
            SettingSource::new("factory.disk_floor_mib").env(&["GIGA_DISK_FLOOR_MIB"]).file(file.disk_floor_mib);
        let floor_mib = u32::try_from(usual.disk_floor_bytes / MIB).unwrap_or(u32::MAX);
        Ok(Self {
            gc_every: resolver.setting(every, || HumanDuration(usual.every.unwrap_or_default()))?,
            gc_retention: resolver.setting(retention, || HumanDuration(usual.retention))?,
            disk_floor_mib: resolver.setting(floor, || floor_mib)?,
        })
    }

    /// The same as a factory takes it.
    pub(crate) fn reconciled(&self) -> Housekeeping {
        let every = self.gc_every.value.0;
        Housekeeping {
            every: (every > Duration::ZERO).then_some(every),
            retention: self.gc_retention.value.0,
            disk_floor_bytes: u64::from(self.disk_floor_mib.value) * MIB,
        }
    }
}
