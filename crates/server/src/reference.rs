//! Pages of docs/reference that are generated from this crate.

use std::collections::BTreeMap;

use coordinator::MetricsSnapshot;
use protocol::Metrics;
use testkit::page;

use crate::{exposition, problem_code};

const PROBLEM_CODES: &str = "\
# Problem codes

Errors of the API are problem details (RFC 9457). `code` is stable, `detail` is for people and may change, and further members are named below.

";

const METRICS: &str = "\
# Metrics

`GET /metrics` returns these in the Prometheus text format. It needs a token, unless only this machine can reach the coordinator.

";

#[test]
fn the_page_of_problem_codes_is_current() {
    let rows = problem_code::ALL.iter();
    let rows = rows.map(|code| [format!("`{}`", code.name), code.status.as_u16().to_string(), code.meaning.to_owned()]);

    page::matches(
        "reference/problem-codes.md",
        &format!("{PROBLEM_CODES}{}", page::table(["code", "status", "meaning"], rows)),
    );
}

#[test]
fn problem_codes_are_unique() {
    let mut names: Vec<_> = problem_code::ALL.iter().map(|code| code.name).collect();
    names.sort_unstable();

    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}

#[test]
fn the_page_of_metrics_is_current() {
    let metrics = Metrics {
        ignored_request_keys: 0,
        jobs: BTreeMap::from([("queued".to_owned(), 0)]),
        waiting: 0,
        depth: 0,
        seats_used: 0,
        seats: 0,
        dispatch_lag_ms: 0,
        conflicts: 0,
        dead_letters: 0,
        store_operations: BTreeMap::from([("job_reads".to_owned(), 0)]),
        store_use: BTreeMap::from([("sweep".to_owned(), Default::default())]),
    };
    let snapshot =
        MetricsSnapshot { submitted: 0, dispatched: 0, completed: 0, failed: 0, conflicts: 0, dispatch_lag_ms: 0 };

    let text = exposition::render(&metrics, &snapshot, &[("east".parse().unwrap(), 0)], 0);

    let value_of = |prefix: String| text.lines().find_map(move |line| line.strip_prefix(&prefix).map(str::to_owned));
    let families = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let rows = families.map(|(name, about)| {
        let kind = value_of(format!("# TYPE {name} ")).expect("every family has a type");
        let label = value_of(format!("{name}{{")).and_then(|rest| Some(format!("`{}`", rest.split_once('=')?.0)));
        [format!("`{name}`"), kind, label.unwrap_or_else(|| "–".to_owned()), about.to_owned()]
    });
    page::matches(
        "reference/metrics.md",
        &format!("{METRICS}{}", page::table(["metric", "type", "label", "meaning"], rows)),
    );
}
