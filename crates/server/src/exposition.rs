//! The metrics in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use coordinator::MetricsSnapshot;
use domain::FactoryId;
use protocol::{Metrics, StoreOperationCounts};

/// The content type of [`render`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics, one line each.
pub(crate) fn render(
    metrics: &Metrics,
    figures: &MetricsSnapshot,
    factory_lags: &[(FactoryId, u64)],
    streams: usize,
) -> String {
    let mut page = TextPage::default();
    page.family("giga_jobs", "gauge", "Jobs by stage.");
    for (stage, count) in &metrics.jobs {
        page.labelled("giga_jobs", "stage", stage, count);
    }
    page.single("giga_jobs_waiting", "gauge", "Jobs that wait for a seat.", metrics.waiting);
    page.single("giga_dispatch_depth", "gauge", "Offers that were sent and not accepted yet.", metrics.depth);
    let lag = metrics.dispatch_lag_ms as f64 / 1_000.0;
    page.single("giga_dispatch_lag_seconds", "gauge", "How long the last dispatched job had waited, in seconds.", lag);
    let (name, about) =
        ("giga_factory_dispatch_lag_seconds", "How long the last job dispatched to a factory had waited.");
    page.family(name, "gauge", about);
    for (factory, lag) in factory_lags {
        page.labelled(name, "factory", factory.as_str(), *lag as f64 / 1_000.0);
    }
    page.single("giga_seats", "gauge", "Seats of all live factories.", metrics.seats);
    page.single("giga_seats_used", "gauge", "Seats in use.", metrics.seats_used);
    page.single("giga_dead_letters", "gauge", "Dead-lettered jobs.", metrics.dead_letters);
    page.single("giga_streams_open", "gauge", "Open event and inbox streams.", streams);
    page.single("giga_submitted_total", "counter", "Jobs submitted.", figures.submitted);
    page.single("giga_dispatched_total", "counter", "Offers sent.", figures.dispatched);
    page.single("giga_completed_total", "counter", "Jobs completed.", figures.completed);
    page.single("giga_failed_attempts_total", "counter", "Attempts that failed.", figures.failed);
    page.single("giga_conflicts_total", "counter", "Writes that conflicted or were fenced.", figures.conflicts);
    page.single(
        "giga_ignored_request_keys_total",
        "counter",
        "Keys in requests of factories that this release does not know and ignored.",
        metrics.ignored_request_keys,
    );
    page.family("giga_store_operations_total", "counter", "Store operations by kind.");
    for (kind, count) in &metrics.store_operations {
        page.labelled("giga_store_operations_total", "kind", kind, count);
    }
    page.purposes("giga_store_reads_total", "Reads of the store by purpose.", &metrics.store_use, |access| access.read);
    page.purposes("giga_store_writes_total", "Records written by purpose.", &metrics.store_use, |access| access.write);
    page.text
}

/// The metrics of a coordinator that does not lead.
pub(crate) fn follower(term: u64, forwarded: u64) -> String {
    let mut page = TextPage::default();
    page.single(
        "giga_leader_term",
        "gauge",
        "Number of the leadership that this coordinator forwards to; 0 for none.",
        term,
    );
    page.single("giga_forwarded_requests_total", "counter", "Requests forwarded to the leader.", forwarded);
    page.text
}

#[derive(Default)]
struct TextPage {
    text: String,
}

impl TextPage {
    fn family(&mut self, name: &str, kind: &str, about: &str) {
        self.line(format_args!("# HELP {name} {about}\n# TYPE {name} {kind}"));
    }

    fn single(&mut self, name: &str, kind: &str, about: &str, value: impl Display) {
        self.family(name, kind, about);
        self.line(format_args!("{name} {value}"));
    }

    fn purposes(
        &mut self,
        name: &str,
        about: &str,
        used: &BTreeMap<String, StoreOperationCounts>,
        count: fn(&StoreOperationCounts) -> u64,
    ) {
        self.family(name, "counter", about);
        for (purpose, access) in used {
            self.labelled(name, "purpose", purpose, count(access));
        }
    }

    fn labelled(&mut self, name: &str, label: &str, of: &str, value: impl Display) {
        let of = of.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        self.line(format_args!("{name}{{{label}=\"{of}\"}} {value}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [D4]
    #[test]
    fn every_metric_has_a_type_and_a_line() {
        let metrics = Metrics {
            ignored_request_keys: 11,
            jobs: BTreeMap::from([("queued".to_owned(), 3)]),
            waiting: 2,
            depth: 1,
            seats_used: 4,
            seats: 8,
            dispatch_lag_ms: 1_500,
            conflicts: 0,
            dead_letters: 0,
            store_operations: BTreeMap::from([("job_reads".to_owned(), 7)]),
            store_use: BTreeMap::from([("sweep".to_owned(), StoreOperationCounts { read: 5, write: 1 })]),
        };
        let figures = MetricsSnapshot {
            submitted: 9,
            dispatched: 8,
            completed: 7,
            failed: 6,
            conflicts: 5,
            dispatch_lag_ms: 1_500,
        };

        let text = render(&metrics, &figures, &[("east".parse().unwrap(), 250)], 2);

        for line in [
            "# TYPE giga_jobs gauge",
            "giga_jobs{stage=\"queued\"} 3",
            "giga_dispatch_lag_seconds 1.5",
            "giga_factory_dispatch_lag_seconds{factory=\"east\"} 0.25",
            "# TYPE giga_conflicts_total counter",
            "giga_conflicts_total 5",
            "giga_ignored_request_keys_total 11",
            "giga_store_operations_total{kind=\"job_reads\"} 7",
            "giga_store_reads_total{purpose=\"sweep\"} 5",
            "giga_store_writes_total{purpose=\"sweep\"} 1",
            "giga_streams_open 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing from\n{text}");
        }
        assert!(text.ends_with('\n'));
    }
}
