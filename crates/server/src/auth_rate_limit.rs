//! Rate limit for wrong tokens, by network. Valid tokens are never delayed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use domain::Clock;
use parking_lot::Mutex;

use crate::options::Limits;

/// Networks counted separately. Further ones share one count, so that the table stays bounded.
const NETWORKS_MAX: usize = 10_000;

/// The entry that further networks share when the table is full.
const EVERYBODY_ELSE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Recent wrong tokens by network.
pub(crate) struct AuthRateLimit {
    clock: Arc<dyn Clock>,
    max: u32,
    window: Duration,
    by_network: Mutex<HashMap<IpAddr, Count>>,
}

struct Count {
    since: Duration,
    wrong: u32,
}

impl AuthRateLimit {
    /// An empty table.
    pub(crate) fn new(clock: Arc<dyn Clock>, limits: &Limits) -> Self {
        let (max, window) = (limits.wrong_tokens_max, limits.wrong_tokens_window);
        Self { clock, max, window, by_network: Mutex::default() }
    }

    /// `Err` with the time to wait when there were too many. Counts nothing.
    pub(crate) fn check(&self, from: IpAddr) -> Result<(), Duration> {
        let now = self.clock.monotonic();
        let by_network = self.by_network.lock();
        match by_network.get(&network(from)) {
            Some(count) if count.wrong > self.max => {
                let wait = self.window.saturating_sub(now.saturating_sub(count.since));
                if wait.is_zero() { Ok(()) } else { Err(wait) }
            }
            _ => Ok(()),
        }
    }

    /// Counts a wrong token. `Err` with the time to wait when there were too many.
    pub(crate) fn count(&self, from: IpAddr) -> Result<(), Duration> {
        let now = self.clock.monotonic();
        let is_over = |count: &Count| now.saturating_sub(count.since) >= self.window;
        let mut by_network = self.by_network.lock();
        let mut key = network(from);
        if by_network.len() >= NETWORKS_MAX && !by_network.contains_key(&key) {
            by_network.retain(|_, count| !is_over(count));
            if by_network.len() >= NETWORKS_MAX {
                key = EVERYBODY_ELSE;
            }
        }
        let count = by_network.entry(key).or_insert(Count { since: now, wrong: 0 });
        if is_over(count) {
            *count = Count { since: now, wrong: 0 };
        }
        count.wrong = count.wrong.saturating_add(1);
        if count.wrong > self.max { Err(self.window.saturating_sub(now.saturating_sub(count.since))) } else { Ok(()) }
    }
}

/// An IPv4 address, or the /64 prefix of an IPv6 address: the least that one customer gets.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::ManualClock;

    use super::*;

    fn three_a_minute(clock: &ManualClock) -> AuthRateLimit {
        let window = Duration::from_mins(1);
        let limits = Limits { wrong_tokens_max: 3, wrong_tokens_window: window, ..Limits::default() };
        AuthRateLimit::new(Arc::new(clock.clone()), &limits)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    // [attack: token guessing]
    #[test]
    fn a_network_is_limited_after_too_many_wrong_tokens() {
        let clock = ManualClock::default();
        let wrong = three_a_minute(&clock);

        let counted: Vec<_> = (0..4).map(|_| wrong.count(address("192.0.2.1"))).collect();

        assert_eq!(counted, vec![Ok(()), Ok(()), Ok(()), Err(Duration::from_mins(1))]);
        assert_eq!(wrong.count(address("192.0.2.2")), Ok(()));
    }

    #[test]
    fn the_count_starts_over_with_the_next_window() {
        let clock = ManualClock::default();
        let wrong = three_a_minute(&clock);
        for _ in 0..4 {
            let _ = wrong.count(address("192.0.2.1"));
        }

        clock.advance(Duration::from_secs(40));
        assert_eq!(wrong.count(address("192.0.2.1")), Err(Duration::from_secs(20)));
        clock.advance(Duration::from_secs(20));
        assert_eq!(wrong.count(address("192.0.2.1")), Ok(()));
    }

    #[test]
    fn all_addresses_of_an_ipv6_prefix_share_one_count() {
        let clock = ManualClock::default();
        let wrong = three_a_minute(&clock);

        let counted: Vec<_> = (1..5).map(|n| wrong.count(address(&format!("2001:db8:1:2:{n}::{n}"))).is_ok()).collect();

        assert_eq!(counted, vec![true, true, true, false]);
        assert_eq!(wrong.count(address("2001:db8:1:3::1")), Ok(()));
    }

    // [attack: token guessing]
    #[test]
    fn the_table_does_not_grow_beyond_its_bound() {
        let clock = ManualClock::default();
        let wrong = three_a_minute(&clock);

        for n in 0..NETWORKS_MAX as u32 + 500 {
            let _ = wrong.count(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n)));
        }

        assert_eq!(wrong.by_network.lock().len(), NETWORKS_MAX + 1);
        assert!(wrong.count(address("198.51.100.1")).is_err(), "newcomers share one count");
    }
}
