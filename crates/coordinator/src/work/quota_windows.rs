//! Credentials with an exhausted quota, and when they resume [B1].

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{EngineName, Epoch, FactoryId, JobId, Timestamp, UsageWindow, Versioned, doubled};
use serde::{Deserialize, Serialize};

/// No provider's window is longer; a later reset is an error, or malicious.
const RESET_MAX: Duration = Duration::from_hours(24 * 31);

/// A window exhausted again this soon after its end was not really over: the pauses keep growing.
const AGAIN_WITHIN: Duration = Duration::from_hours(1);

/// A credential's exhausted quota window, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuotaWindow {
    pub(crate) engine: EngineName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<String>,
    pub(crate) since: Timestamp,
    /// The reset time that the engine reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resets_at: Option<Timestamp>,
    /// When the credential resumes; absent when an operator has to resume it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Timestamp>,
    /// The number of hits in a row.
    pub(crate) hits: u32,
    /// The run that hit the limit: a repeated report of it changes nothing.
    pub(crate) job: JobId,
    pub(crate) epoch: Epoch,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The account has no credit left: only an operator, or another key or login, ends it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) exhausted: bool,
    /// The factory that hit the limit, and the fingerprint of its login then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) login: Option<(FactoryId, String)>,
}

/// An engine's report of a limit.
pub(crate) struct LimitReport {
    pub(crate) engine: EngineName,
    pub(crate) window: Option<String>,
    pub(crate) resets_at: Option<Timestamp>,
    pub(crate) job: JobId,
    pub(crate) epoch: Epoch,
    pub(crate) message: Option<String>,
    pub(crate) exhausted: bool,
    pub(crate) login: Option<(FactoryId, String)>,
}

/// The state of a credential before a hit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PriorWindow<'a> {
    /// No window is known.
    Unknown,
    /// The credential already pauses.
    Resting(&'a QuotaWindow),
    /// The credential paused before.
    Over(&'a QuotaWindow),
}

/// How long credentials pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaWindowPolicy {
    /// Whether a credential resumes by itself when its quota resets.
    pub auto_resume: bool,
    /// The first pause without a reset time; each further one doubles it.
    pub backoff: Duration,
    /// The longest such pause.
    pub backoff_max: Duration,
    /// The jitter after a reset time, so that not all factories retry in the same second.
    pub spread: Duration,
}

impl Default for QuotaWindowPolicy {
    fn default() -> Self {
        Self {
            auto_resume: true,
            backoff: Duration::from_mins(5),
            backoff_max: Duration::from_hours(1),
            spread: Duration::from_secs(30),
        }
    }
}

impl QuotaWindowPolicy {
    /// The window after a hit, if it differs. `jitter` is in [0, 1).
    pub(crate) fn after(
        &self,
        former: PriorWindow<'_>,
        hit: LimitReport,
        now: Timestamp,
        jitter: f64,
    ) -> Option<QuotaWindow> {
        // A reset time in the past by our clock counts as none.
        let resets_at = hit.resets_at.filter(|at| *at > now).map(|at| at.min(now.after(RESET_MAX)));
        let is_told = |known: &QuotaWindow| known.job == hit.job && known.epoch == hit.epoch;
        // Concurrent runs hit the exhausted window one after the other.
        let is_covered = |known: &QuotaWindow| match known.until {
            Some(until) => !hit.exhausted && resets_at.is_none_or(|at| at <= until),
            None => true,
        };
        let is_again = |known: &QuotaWindow| known.until.is_some_and(|until| now.since(until) < AGAIN_WITHIN);
        let hits = match former {
            PriorWindow::Resting(known) if is_told(known) || is_covered(known) => return None,
            PriorWindow::Resting(known) => known.hits,
            PriorWindow::Over(known) if is_again(known) && !is_told(known) => known.hits.saturating_add(1),
            PriorWindow::Over(known) if is_again(known) => known.hits,
            PriorWindow::Over(_) | PriorWindow::Unknown => 1,
        };
        let until = match resets_at {
            Some(at) => at.after(self.spread.mul_f64(jitter)),
            None => {
                let doubled = doubled(self.backoff, hits - 1, self.backoff_max);
                now.after(doubled.mul_f64(1.0 + 0.2 * jitter))
            }
        };
        Some(QuotaWindow {
            engine: hit.engine,
            window: hit.window,
            since: now,
            resets_at,
            until: Some(until).filter(|_| self.auto_resume && !hit.exhausted),
            hits,
            job: hit.job,
            epoch: hit.epoch,
            message: hit.message,
            exhausted: hit.exhausted,
            login: hit.login.filter(|_| hit.exhausted),
        })
    }
}

impl QuotaWindow {
    /// The window as shown to users.
    pub(crate) fn shown(&self) -> UsageWindow {
        let until = self.until.map(|until| self.resets_at.unwrap_or(until));
        UsageWindow { engine: self.engine.clone(), window: self.window.clone(), until, exhausted: self.exhausted }
    }

    /// Whether a factory now uses another login than the one without credit.
    pub(crate) fn is_paid_by_another(&self, factory: &FactoryId, login: Option<&str>) -> bool {
        let is_other = |(found_by, former): &(FactoryId, String)| found_by == factory && login != Some(former);
        self.exhausted && login.is_some() && self.login.as_ref().is_some_and(is_other)
    }

    /// Whether it ended so long ago that it has no effect any more.
    pub(crate) fn is_history(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now.since(until) >= AGAIN_WITHIN)
    }
}

/// A point in time on both clocks: the wall clock, which can be set, and the monotonic one, which cannot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReading {
    pub(crate) now: Timestamp,
    pub(crate) monotonic: Duration,
}

/// The current and recent windows, by credential.
#[derive(Debug, Default)]
pub(crate) struct QuotaWindows {
    by_credential: BTreeMap<String, WindowEntry>,
}

#[derive(Debug)]
struct WindowEntry {
    window: Versioned<QuotaWindow>,
    /// The end on the monotonic clock. A window is over when either clock says so: a wall clock that is set back must
    /// not prolong a pause, and one that is corrected costs at most one more attempt.
    ends: Option<Duration>,
}

impl QuotaWindows {
    /// Records a stored window.
    pub(crate) fn know(&mut self, credential: String, window: Versioned<QuotaWindow>, at: ClockReading) {
        let ends = window.value.until.map(|until| at.monotonic + until.since(at.now));
        self.by_credential.insert(credential, WindowEntry { window, ends });
    }

    /// Removes a window.
    pub(crate) fn forget(&mut self, credential: &str) {
        self.by_credential.remove(credential);
    }

    /// The stored window of a credential, over or not.
    pub(crate) fn get(&self, credential: &str) -> Option<&Versioned<QuotaWindow>> {
        self.by_credential.get(credential).map(|known| &known.window)
    }

    /// The state of a credential before a hit.
    pub(crate) fn former(&self, credential: &str, at: ClockReading) -> PriorWindow<'_> {
        match self.by_credential.get(credential) {
            Some(known) if known.is_exhausted(at) => PriorWindow::Resting(&known.window.value),
            Some(known) => PriorWindow::Over(&known.window.value),
            None => PriorWindow::Unknown,
        }
    }

    /// The window of a credential that pauses now.
    pub(crate) fn exhausted(&self, credential: &str, at: ClockReading) -> Option<&QuotaWindow> {
        self.by_credential.get(credential).filter(|known| known.is_exhausted(at)).map(|known| &known.window.value)
    }

    /// Every credential that pauses now.
    pub(crate) fn all_exhausted(&self, at: ClockReading) -> impl Iterator<Item = (&String, &QuotaWindow)> {
        let resting = self.by_credential.iter().filter(move |(_, known)| known.is_exhausted(at));
        resting.map(|(credential, known)| (credential, &known.window.value))
    }

    /// Windows that have no effect any more.
    pub(crate) fn history(&self, now: Timestamp) -> Vec<(String, Versioned<QuotaWindow>)> {
        let over = self.by_credential.iter().filter(|(_, known)| known.window.value.is_history(now));
        over.map(|(credential, known)| (credential.clone(), known.window.clone())).collect()
    }

    /// The time until the next credential resumes.
    pub(crate) fn next_end(&self, at: ClockReading) -> Option<Duration> {
        let ends = self.by_credential.values().filter(|known| known.is_exhausted(at)).filter_map(|known| {
            let by_wall = known.window.value.until?.since(at.now);
            Some(by_wall.min(known.ends?.saturating_sub(at.monotonic)))
        });
        ends.min()
    }
}

impl WindowEntry {
    fn is_exhausted(&self, at: ClockReading) -> bool {
        match (self.window.value.until, self.ends) {
            (Some(until), Some(ends)) => until > at.now && ends > at.monotonic,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Revision;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);
    const MINUTE: Duration = Duration::from_mins(1);

    fn hit(epoch: u64, resets_at: Option<Timestamp>) -> LimitReport {
        LimitReport {
            engine: "claude".parse().unwrap(),
            window: Some("five_hour".to_owned()),
            resets_at,
            job: JobId::from_bytes([1; 16]),
            epoch: Epoch(epoch),
            message: None,
            exhausted: false,
            login: None,
        }
    }

    fn until(window: Option<QuotaWindow>) -> Option<Timestamp> {
        window.and_then(|window| window.until)
    }

    #[test]
    fn a_known_reset_is_awaited_with_jitter_and_a_limit() {
        let policy = QuotaWindowPolicy::default();
        let after = |at, jitter| until(policy.after(PriorWindow::Unknown, hit(1, Some(at)), NOW, jitter));

        assert_eq!(after(NOW.after(MINUTE), 0.5), Some(NOW.after(MINUTE + policy.spread / 2)));
        assert_eq!(after(Timestamp::from_millis(i64::MAX), 0.0), Some(NOW.after(RESET_MAX)));
    }

    #[test]
    fn an_unknown_or_past_reset_leads_to_growing_pauses() {
        let policy = QuotaWindowPolicy::default();
        let mut known = None;
        let mut now = NOW;
        let mut pauses = Vec::new();
        for epoch in 1..=6 {
            let window = policy
                .after(known.as_ref().map_or(PriorWindow::Unknown, PriorWindow::Over), hit(epoch, Some(NOW)), now, 0.0)
                .unwrap();
            pauses.push(window.until.unwrap().since(now).as_secs() / 60);
            now = window.until.unwrap();
            known = Some(window);
        }
        assert_eq!(pauses, vec![5, 10, 20, 40, 60, 60]);

        let later = now.after(AGAIN_WITHIN);
        let known = known.unwrap();
        let fresh = policy.after(PriorWindow::Over(&known), hit(9, None), later, 0.0);
        assert_eq!(until(fresh), Some(later.after(policy.backoff)));
    }

    #[test]
    fn concurrent_and_repeated_limit_reports_change_nothing() {
        let policy = QuotaWindowPolicy::default();
        let reset = NOW.after(MINUTE * 60);
        let known = policy.after(PriorWindow::Unknown, hit(1, Some(reset)), NOW, 0.0).unwrap();

        assert_eq!(policy.after(PriorWindow::Resting(&known), hit(1, Some(reset.after(MINUTE))), NOW, 0.0), None);
        assert_eq!(policy.after(PriorWindow::Resting(&known), hit(2, Some(reset)), NOW, 0.9), None);
        assert_eq!(policy.after(PriorWindow::Resting(&known), hit(2, None), NOW, 0.0), None);
        let longer = policy.after(PriorWindow::Resting(&known), hit(2, Some(reset.after(MINUTE))), NOW, 0.0);
        assert_eq!(until(longer), Some(reset.after(MINUTE)));
    }

    #[test]
    fn without_automatic_resume_a_window_has_no_end() {
        let policy = QuotaWindowPolicy { auto_resume: false, ..QuotaWindowPolicy::default() };

        let window = policy.after(PriorWindow::Unknown, hit(1, Some(NOW.after(MINUTE))), NOW, 0.0).unwrap();

        assert_eq!((window.until, window.shown().until), (None, None));
        assert!(!window.is_history(NOW.after(RESET_MAX * 9)));
    }

    #[test]
    fn no_credit_waits_for_an_operator_or_another_login() {
        let policy = QuotaWindowPolicy::default();
        let timed = policy.after(PriorWindow::Unknown, hit(1, Some(NOW.after(MINUTE))), NOW, 0.0).unwrap();
        let east: FactoryId = "east".parse().unwrap();
        let unpaid = || LimitReport { exhausted: true, login: Some((east.clone(), "a1".to_owned())), ..hit(2, None) };

        let window = policy.after(PriorWindow::Resting(&timed), unpaid(), NOW, 0.0).unwrap();

        assert_eq!((window.until, window.shown().exhausted), (None, true));
        assert_eq!(policy.after(PriorWindow::Resting(&window), hit(3, Some(NOW.after(MINUTE))), NOW, 0.0), None);
        assert!(!window.is_paid_by_another(&east, Some("a1")) && !window.is_paid_by_another(&east, None));
        assert!(window.is_paid_by_another(&east, Some("b2")));
        assert!(
            !window.is_paid_by_another(&"west".parse().unwrap(), Some("b2")),
            "another factory may have another key"
        );
    }

    // [row 10]
    #[test]
    fn a_window_is_over_when_either_clock_says_so() {
        let policy = QuotaWindowPolicy::default();
        let window = policy.after(PriorWindow::Unknown, hit(1, Some(NOW.after(MINUTE))), NOW, 0.0).unwrap();
        let mut windows = QuotaWindows::default();
        let at = |now, monotonic| ClockReading { now, monotonic };
        windows.know("a".to_owned(), Versioned { value: window, revision: Revision(1) }, at(NOW, MINUTE));
        let is_exhausted = |at| windows.exhausted("a", at).is_some();

        assert!(is_exhausted(at(NOW, MINUTE)) && is_exhausted(at(NOW.after(MINUTE / 2), MINUTE * 3 / 2)));
        assert_eq!(windows.next_end(at(NOW, MINUTE * 3 / 2)), Some(MINUTE / 2));
        assert!(!is_exhausted(at(NOW.after(MINUTE), MINUTE)), "the wall clock was set ahead");
        assert!(!is_exhausted(at(Timestamp::default(), MINUTE * 2)), "the wall clock was set back");
        assert!(windows.exhausted("b", at(NOW, MINUTE)).is_none(), "it is another login's");
    }
}
