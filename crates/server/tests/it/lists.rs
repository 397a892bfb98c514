//! Lists for people: filters, totals, counts, the end of a log, and the history of the metrics.

use bytes::Bytes;
use domain::{JobId, TokenScope};
use protocol::{AppendLogResponse, JobCounts, JobList, JobTotal, MetricsHistory, ProductSettings};

use crate::fleet::{Fleet, code};
use crate::raw::{Asking, ask};

async fn listed(fleet: &Fleet, query: &str) -> Vec<JobId> {
    let page: JobList = fleet.admin.get(&format!("/jobs?{query}")).await.unwrap();
    page.items.iter().map(|job| job.id).collect()
}

// [U1] [§10]
#[tokio::test]
async fn jobs_are_found_by_factory_tag_and_text() {
    let fleet = Fleet::start().await;
    let roof = fleet.submit("---\ntitle: Put the Roof on\ntags: [house, urgent]\n---\nRoof.\n").await;
    let road = fleet.submit("---\ntitle: Pave the road\ntags: [urgent]\n---\nRoad.\n").await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let held = factory.take_next(&mut inbox).await.assignment.job_id;
    let id = roof.to_string();

    assert_eq!(listed(&fleet, "text=ROOF%20put").await, [roof]);
    assert_eq!(listed(&fleet, "text=the").await, [road, roof]);
    assert_eq!(listed(&fleet, "text=roo").await, []);
    assert_eq!(listed(&fleet, &format!("text={}", &id[id.len() - 7..])).await, [roof]);
    assert_eq!(listed(&fleet, "tag=urgent").await, [road, roof]);
    assert_eq!(listed(&fleet, "tag=urgent,house").await, [roof]);
    assert!(listed(&fleet, "factory=mac-1").await.contains(&held));
    assert_eq!(listed(&fleet, "factory=mac-2").await, []);
    for (query, expected) in [
        ("texts=roof", "unknown_key"),
        ("text=", "invalid"),
        ("tag=a%20b", "invalid"),
        ("factory=a%20b", "invalid"),
        ("total=maybe", "invalid"),
    ] {
        let answer = fleet.admin.get::<JobList>(&format!("/jobs?{query}")).await;
        assert_eq!(code(answer), expected, "{query}");
    }
}

// [T3] [§10]
#[tokio::test]
async fn totals_and_counts_are_limited_to_the_callers_products() {
    let fleet = Fleet::start().await;
    fleet.product("alpha", ProductSettings::default()).await;
    fleet.product("beta", ProductSettings::default()).await;
    for n in 0..3 {
        fleet.submit(&format!("---\ntitle: Job {n}\nproduct: alpha\ncapabilities: [no:such]\n---\nWork.\n")).await;
    }
    fleet.submit("---\ntitle: Job of beta\nproduct: beta\n---\nWork.\n").await;
    let grant = TokenScope::Viewer { products: ["alpha".parse().unwrap()].into() };
    let viewer = fleet.client(&fleet.token(grant).await.secret);
    let total = async |query: &str| {
        let page: JobList = viewer.get(&format!("/jobs?total=true&{query}")).await.unwrap();
        page.total.unwrap()
    };

    assert_eq!(total("limit=1").await, JobTotal { count: 3, is_exact: true });
    assert_eq!(total("stage=failed").await, JobTotal { count: 0, is_exact: true });
    assert_eq!(total("text=job").await, JobTotal { count: 3, is_exact: true });
    assert_eq!(code(viewer.get::<JobList>("/jobs?product=beta&total=true").await), "forbidden");
    let counts: JobCounts = viewer.get("/jobs/counts").await.unwrap();
    let all: JobCounts = fleet.admin.get("/jobs/counts").await.unwrap();
    assert_eq!((counts.stages.len(), counts.stages["queued"], counts.waiting.unplaceable), (9, 3, 3));
    assert_eq!(all.stages["queued"], 4);
    assert_eq!(code(viewer.get::<JobCounts>("/jobs/counts?product=beta").await), "forbidden");
}

// [J9] [U1]
#[tokio::test]
async fn the_tail_of_a_log_begins_with_a_line() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# One\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let path = format!("/jobs/{id}/logs?leaseEpoch={epoch}&offset=0");
    let text = Bytes::from_static(b"first\nsecond\nthird\n");
    let _: AppendLogResponse = factory.client.post_bytes(&path, text).await.unwrap();
    let tail = async |bytes: u64| {
        let path = format!("/api/fleet/jobs/{id}/logs?tail={bytes}");
        let answer = ask(fleet.address, Asking::get(&path).token(&fleet.admin_token)).await;
        let mark = |name: &str| answer.headers[name].to_str().unwrap().parse::<u64>().unwrap();
        (String::from_utf8(answer.body.to_vec()).unwrap(), mark("x-log-offset"), mark("x-log-length"))
    };

    assert_eq!(tail(8).await, ("third\n".to_owned(), 13, 19));
    assert_eq!(tail(6).await, ("third\n".to_owned(), 13, 19));
    assert_eq!(tail(3).await, ("rd\n".to_owned(), 16, 19), "no line begins in the last three bytes");
    assert_eq!(tail(1_000).await, ("first\nsecond\nthird\n".to_owned(), 0, 19));
    for (query, expected) in [("tail=0", "invalid"), ("tail=1048577", "invalid"), ("tail=1&offset=1", "invalid")] {
        let answer = fleet.admin.get::<serde_json::Value>(&format!("/jobs/{id}/logs?{query}")).await;
        assert_eq!(code(answer), expected, "{query}");
    }
}

// [D4]
#[tokio::test]
async fn the_history_of_the_metrics_is_served() {
    let fleet = Fleet::start().await;
    fleet.submit("# One\n").await;

    let history: MetricsHistory = fleet.admin.get("/metrics/history").await.unwrap();

    assert_eq!((history.step_seconds, history.points.last().unwrap().queued), (10, 1));
}
