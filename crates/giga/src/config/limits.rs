//! `[factory.limits]`: how long and how much the programs of a run may take.

use std::time::Duration;

use sandbox::Limits;
use toml::Spanned;

use crate::failure::Failure;

use super::duration::HumanDuration;
use super::file;
use super::resolver::{FromVariable, Resolver, SettingSource};
use super::setting::{DisplayedValue, Setting};
use super::size::Size;

const MIB: u64 = 1024 * 1024;

const WALL: Limit = Limit { key: "factory.limits.wall", old: "engine_wall_ms", zero: Zero::Refused };
const IDLE: Limit = Limit { key: "factory.limits.idle", old: "engine_idle_ms", zero: Zero::Refused };
const TOOL_IDLE: Limit = Limit { key: "factory.limits.tool_idle", old: "", zero: Zero::Refused };
const GRACE: Limit = Limit { key: "factory.limits.grace", old: "grace_ms", zero: Zero::Fine };
const VERIFY: Limit = Limit { key: "factory.limits.verify", old: "verify_wall_ms", zero: Zero::Refused };
const DISK: Limit = Limit { key: "factory.limits.disk", old: "worktree_growth_mib_max", zero: Zero::Refused };
const DISK_FREE: Limit = Limit { key: "factory.limits.disk_free", old: "disk_free_mib_min", zero: Zero::Fine };
const DISK_EVERY: Limit = Limit { key: "factory.limits.disk_every", old: "disk_every_ms", zero: Zero::Refused };
const OUTPUT: Limit = Limit { key: "factory.limits.output", old: "output_bytes_max", zero: Zero::Fine };
const GIT_LOCAL: Limit = Limit { key: "factory.limits.git_local", old: "git_local_ms", zero: Zero::Refused };
const GIT_NETWORK: Limit = Limit { key: "factory.limits.git_network", old: "git_network_ms", zero: Zero::Refused };
const REMOTE_AWAY: Limit = Limit { key: "factory.limits.remote_away", old: "", zero: Zero::Fine };

/// Reads every limit, in units or by the name that ends in its unit.
pub(super) fn resolve(resolver: &mut Resolver, file: file::Limits) -> Result<Limits, Failure> {
    let usual = Limits::default();
    Ok(Limits {
        engine_wall_ms: WALL.span(resolver, file.wall, file.engine_wall_ms, usual.engine_wall_ms)?,
        engine_idle_ms: IDLE.span(resolver, file.idle, file.engine_idle_ms, usual.engine_idle_ms)?,
        tool_idle_ms: TOOL_IDLE.span(resolver, file.tool_idle, None, usual.tool_idle_ms)?,
        grace_ms: GRACE.span(resolver, file.grace, file.grace_ms, usual.grace_ms)?,
        verify_wall_ms: VERIFY.span(resolver, file.verify, file.verify_wall_ms, usual.verify_wall_ms)?,
        worktree_growth_mib_max: DISK.mebibytes(
            resolver,
            file.disk,
            file.worktree_growth_mib_max,
            usual.worktree_growth_mib_max,
        )?,
        disk_free_mib_min: DISK_FREE.mebibytes(
            resolver,
            file.disk_free,
            file.disk_free_mib_min,
            usual.disk_free_mib_min,
        )?,
        disk_every_ms: DISK_EVERY.span(resolver, file.disk_every, file.disk_every_ms, usual.disk_every_ms)?,
        output_bytes_max: OUTPUT.bytes(resolver, file.output, file.output_bytes_max, usual.output_bytes_max)?,
        git_local_ms: GIT_LOCAL.span(resolver, file.git_local, file.git_local_ms, usual.git_local_ms)?,
        git_network_ms: GIT_NETWORK.span(resolver, file.git_network, file.git_network_ms, usual.git_network_ms)?,
        remote_away_ms: REMOTE_AWAY.span(resolver, file.remote_away, None, usual.remote_away_ms)?,
    })
}

/// One limit: its name, and the older one that takes a number, if there is one.
struct Limit {
    key: &'static str,
    old: &'static str,
    zero: Zero,
}

/// What nothing at all would mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    /// A value that a user may want.
    Fine,
    /// That no run ever gets anywhere.
    Refused,
}

impl Limit {
    /// In milliseconds.
    fn span(
        &self,
        resolver: &mut Resolver,
        new: Option<Spanned<HumanDuration>>,
        old: Option<Spanned<u64>>,
        usual_ms: u64,
    ) -> Result<u64, Failure> {
        let written = |ms: u64| HumanDuration(Duration::from_millis(ms));
        let setting = self.setting(resolver, new, old.map(|old| respelled(old, written)), written(usual_ms))?;
        let span_ms = u64::try_from(setting.value.0.as_millis()).unwrap_or(u64::MAX);
        self.sound(&setting, span_ms)
    }

    fn bytes(
        &self,
        resolver: &mut Resolver,
        new: Option<Spanned<Size>>,
        old: Option<Spanned<u64>>,
        usual: u64,
    ) -> Result<u64, Failure> {
        let setting = self.setting(resolver, new, old.map(|old| respelled(old, Size)), Size(usual))?;
        self.sound(&setting, setting.value.0)
    }

    /// In mebibytes; a part of one counts as a whole.
    fn mebibytes(
        &self,
        resolver: &mut Resolver,
        new: Option<Spanned<Size>>,
        old: Option<Spanned<u64>>,
        usual_mib: u64,
    ) -> Result<u64, Failure> {
        let written = |mib: u64| mib.saturating_mul(MIB);
        let old = old.map(|old| respelled(old, written));
        Ok(self.bytes(resolver, new, old, written(usual_mib))?.div_ceil(MIB))
    }

    fn setting<T: FromVariable + DisplayedValue>(
        &self,
        resolver: &mut Resolver,
        new: Option<Spanned<T>>,
        old: Option<Spanned<T>>,
        usual: T,
    ) -> Result<Setting<T>, Failure> {
        let file = match (new, old) {
            (Some(_), Some(old)) => {
                let (place, other, name) = (resolver.place(&old), self.old, self.name());
                return Err(Failure::usage(format!("{place}: `{other}` and `{name}` are the same limit"))
                    .hint(format!("keep `{name}` and remove `{other}`")));
            }
            (new, old) => new.or(old),
        };
        resolver.setting(SettingSource::new(self.key).file(file), || usual)
    }

    fn sound<T>(&self, setting: &Setting<T>, value: u64) -> Result<u64, Failure> {
        if value > 0 || self.zero == Zero::Fine {
            return Ok(value);
        }
        Err(Failure::usage(format!("{}: `{}` must be greater than zero", setting.origin, self.name()))
            .hint("set a larger value, or remove the key for the default"))
    }

    fn name(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }
}

fn respelled<A, B>(written: Spanned<A>, into: impl FnOnce(A) -> B) -> Spanned<B> {
    Spanned::new(written.span(), into(written.into_inner()))
}
