//! Usage windows of credentials in memory.

use std::time::Duration;

use domain::{Timestamp, Versioned};

use super::FleetState;
use crate::work::quota_windows::{ClockReading, PriorWindow, QuotaWindow};

impl FleetState {
    /// The stored window of a credential, over or not.
    pub(crate) fn usage_window(&self, credential: &str) -> Option<&Versioned<QuotaWindow>> {
        self.quota_windows.get(credential)
    }

    /// The state of a credential before a report that its quota is exhausted.
    pub(crate) fn prior_window(&self, credential: &str, at: ClockReading) -> PriorWindow<'_> {
        self.quota_windows.former(credential, at)
    }

    /// The window of a credential whose quota is exhausted now.
    pub(crate) fn exhausted_window(&self, credential: &str, at: ClockReading) -> Option<&QuotaWindow> {
        self.quota_windows.exhausted(credential, at)
    }

    /// Every credential whose quota is exhausted now.
    pub(crate) fn exhausted_credentials(&self, at: ClockReading) -> impl Iterator<Item = (&String, &QuotaWindow)> {
        self.quota_windows.all_exhausted(at)
    }

    /// Windows that have no effect any more.
    pub(crate) fn ended_windows(&self, now: Timestamp) -> Vec<(String, Versioned<QuotaWindow>)> {
        self.quota_windows.history(now)
    }

    /// The time until the next credential resumes.
    pub(crate) fn next_window_end(&self, at: ClockReading) -> Option<Duration> {
        self.quota_windows.next_end(at)
    }

    /// Replaces the window of a credential by what is stored.
    pub(crate) fn put_window(&mut self, credential: String, window: Versioned<QuotaWindow>, at: ClockReading) {
        self.quota_windows.know(credential, window, at);
    }

    /// Removes the window of a credential.
    pub(crate) fn remove_window(&mut self, credential: &str) {
        self.quota_windows.forget(credential);
    }
}
