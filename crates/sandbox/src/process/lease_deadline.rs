//! The deadline of a lease's programs, as the factory and its guards count it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// An instant on a clock that all processes of one machine share. On Linux it is `CLOCK_BOOTTIME`, which goes on while the
/// machine is suspended, as the coordinator's clock does: a machine that wakes up finds that its leases have expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootInstant(Duration);

/// When a program has to end because its lease expires. Both are absolute instants, so that a message which waits in a
/// pipe while its reader or writer is stopped extends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseDeadline {
    /// The program gets SIGTERM.
    pub stop_at: BootInstant,
    /// The program is killed: nothing of it is left when the coordinator may grant the job again.
    pub kill_at: BootInstant,
}

/// The deadline of one lease, which each renewal extends.
pub type LeaseWatch = watch::Receiver<LeaseDeadline>;

/// How many bytes a deadline takes in a message to the guard.
pub(crate) const DEADLINE_BYTES: usize = 16;

impl BootInstant {
    /// Now.
    pub fn now() -> Self {
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        let now = clock_gettime(clock);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Self(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default()))
    }

    /// The instant that is `span` later.
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// How long it is until then; zero once it has passed.
    pub fn remaining(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }

    fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }

    fn as_nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl LeaseDeadline {
    /// Whether the SIGTERM is due.
    pub fn has_passed(&self) -> bool {
        self.stop_at.remaining().is_zero()
    }

    /// The bytes in the guard's pipe.
    pub fn to_bytes(self) -> [u8; DEADLINE_BYTES] {
        let both = u128::from(self.stop_at.as_nanos()) << 64 | u128::from(self.kill_at.as_nanos());
        both.to_be_bytes()
    }

    /// Decodes the result of [`LeaseDeadline::to_bytes`].
    pub fn from_bytes(bytes: [u8; DEADLINE_BYTES]) -> Self {
        let [stop_at, kill_at] = [0, 8].map(|start| {
            let mut nanos = [0; 8];
            nanos.copy_from_slice(&bytes[start..start + 8]);
            BootInstant::from_nanos(u64::from_be_bytes(nanos))
        });
        Self { stop_at, kill_at }
    }

    /// As an option of the guard's command line.
    pub(crate) fn to_option(self) -> String {
        format!("{}:{}", self.stop_at.as_nanos(), self.kill_at.as_nanos())
    }

    /// Decodes the result of [`LeaseDeadline::to_option`].
    pub(crate) fn from_option(text: &str) -> Option<Self> {
        let (stop_at, kill_at) = text.split_once(':')?;
        let instant = |nanos: &str| nanos.parse().ok().map(BootInstant::from_nanos);
        Some(Self { stop_at: instant(stop_at)?, kill_at: instant(kill_at)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [I7]
    #[test]
    fn a_deadline_reaches_the_guard_unchanged() {
        let now = BootInstant::now();
        let deadline =
            LeaseDeadline { stop_at: now.after(Duration::from_secs(40)), kill_at: now.after(Duration::from_secs(54)) };

        assert_eq!(LeaseDeadline::from_bytes(deadline.to_bytes()), deadline);
        assert_eq!(LeaseDeadline::from_option(&deadline.to_option()), Some(deadline));
        assert_eq!(LeaseDeadline::from_option("5"), None);
    }

    // [I7]
    #[test]
    fn a_deadline_passes_when_its_program_has_to_stop() {
        let now = BootInstant::now();
        let later = now.after(Duration::from_secs(60));

        assert!(LeaseDeadline { stop_at: now, kill_at: later }.has_passed());
        assert!(!LeaseDeadline { stop_at: later, kill_at: later }.has_passed());
    }
}
