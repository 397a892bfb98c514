//! A fleet as the coordinator describes it: in JSON, through the boundary.

use std::time::Duration;

use domain::{JobId, Timestamp};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::boundary::decode;
use crate::look::Look;
use crate::message::{Answer, Data, Effect, LogMsg, LogPiece, Msg, Request, StreamMsg};
use crate::model::{FolderFile, FolderListing, Model, Setup};
use crate::update::update;
use crate::view::view;

/// 18 November 2026, 12:04:31 UTC.
pub(super) const NOW: Timestamp = Timestamp::from_millis(1_795_003_471_000);

pub(super) const FINE: Look = Look { color: true, ascii: false };

pub(super) fn id(n: u32) -> String {
    format!("0190f3a4-7c1e-7b52-9d0a-1f2e3d4c{n:04x}")
}

pub(super) fn job_id(n: u32) -> JobId {
    id(n).parse().unwrap()
}

pub(super) fn read<T: DeserializeOwned>(value: &Value) -> T {
    decode(&value.to_string()).unwrap()
}

fn ago(minutes: u64) -> String {
    NOW.before(Duration::from_secs(minutes * 60)).to_string()
}

/// What a test changes about the fleet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fleet {
    Full,
    Empty,
    Hostile,
}

/// Texts that try to break out of their place.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}evil\u{9b}31m 構文解析 \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f466} \
                       aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\tend";

impl Fleet {
    fn text(self, text: &str) -> String {
        if self == Self::Hostile { format!("{text} {HOSTILE}") } else { text.to_owned() }
    }
}

fn job(fleet: Fleet, n: u32, title: &str, stage: &str, more: &Value) -> Value {
    let mut job = json!({
        "id": id(n), "productId": "default", "title": fleet.text(title), "stage": stage, "priority": "normal",
        "kind": "task", "repo": "house", "base": "main", "rev": 3, "leaseEpoch": 1, "dispatchSeq": 1, "attempts": 0,
        "lostLeases": 0, "runs": 1, "seq": 4, "createdBy": "ada", "createdAt": ago(u64::from(100 - n)), "updatedAt": ago(60),
    });
    if let (Some(job), Some(more)) = (job.as_object_mut(), more.as_object()) {
        job.extend(more.clone());
    }
    job
}

fn run(minutes: u64) -> Value {
    json!({"n": 1, "epoch": 1, "factory": "east", "engine": "claude", "grantedAt": ago(minutes), "startedAt": ago(minutes), "insights": {}})
}

pub(super) fn jobs(fleet: Fleet) -> Value {
    if fleet == Fleet::Empty {
        return json!({"items": []});
    }
    json!({"items": [
        job(fleet, 9, "Pave the long road", "building", &json!({
            "holderFactoryId": "east", "run": run(12), "spent": {"costUsd": 0.84}, "priority": "high",
        })),
        job(fleet, 8, "Put the roof on", "review", &json!({"spent": {"costUsd": 2.1}, "completedSha": "a".repeat(40)})),
        job(fleet, 7, "Raise the walls", "blocked", &json!({"question": fleet.text("which brick should the walls be of: red, or the old yellow ones?"), "spent": {"costUsd": 0.31}})),
        job(fleet, 6, "Lay the foundation", "testing", &json!({"verified": true, "completedSha": "b".repeat(40)})),
        job(fleet, 5, "Dig the well", "queued", &json!({"waiting": {"code": "no_capability", "text": fleet.text("no factory has all required capabilities; closest match is east, which lacks `has:excavator`: add `has:excavator` to a factory, or remove it from the job"), "unplaceable": true}})),
        job(fleet, 4, "Put up a welcome sign", "shipped", &json!({"updatedAt": ago(2_000)})),
        job(fleet, 3, "Build a moat", "failed", &json!({"reason": "cancelled", "message": "not this year"})),
        job(fleet, 2, "Paint the fence", "dead_letter", &json!({"reason": "retries_exhausted", "message": fleet.text("the verify command `make paint` failed with exit code 2"), "attempts": 3})),
        job(fleet, 1, "Plant the garden", "assigned", &json!({"holderFactoryId": "west-with-a-rather-long-name", "run": run(0)})),
    ]})
}

pub(super) fn needs(fleet: Fleet) -> Value {
    if fleet == Fleet::Empty {
        return json!({"items": [], "total": 0, "isExact": true});
    }
    json!({"items": [
        {"key": "question:7", "kind": "question", "title": fleet.text("Raise the walls"), "text": fleet.text("which brick should the walls be of: red, or the old yellow ones?"), "remedy": "answer with `giga answer`", "at": ago(60), "jobId": id(7), "costUsd": 0.31, "actions": ["answer", "cancel"]},
        {"key": "review:8", "kind": "review", "title": fleet.text("Put the roof on"), "text": "the work waits for review", "remedy": "approve it, or request changes", "at": ago(180), "jobId": id(8), "costUsd": 2.1, "actions": ["request_changes", "reject"]},
        {"key": "dead_letter:2", "kind": "dead_letter", "title": fleet.text("Paint the fence"), "text": "dead-lettered after 3 attempts: the verify command `make paint` failed", "remedy": "fix the cause and redrive it, or dismiss it", "at": ago(70), "jobId": id(2), "actions": ["redrive", "dismiss"]},
        {"key": "stale_factory:north", "kind": "stale_factory", "title": "north", "text": "no heartbeat from north", "remedy": "start it again, or remove it with `giga factory prune`", "at": ago(3_000), "factoryId": "north", "actions": ["prune"]},
    ], "total": 4, "isExact": true})
}

pub(super) fn factories(fleet: Fleet) -> Value {
    if fleet == Fleet::Empty {
        return json!({"items": []});
    }
    json!({"items": [
        {"id": "east", "presence": "live", "lastHeartbeatAt": ago(0), "capabilities": ["os:linux", "engine:claude", "has:docker"],
         "engines": [{"name": "claude", "version": fleet.text("2.1.326")}, {"name": "codex", "windowUntil": NOW.after(Duration::from_secs(8_000)).to_string()}],
         "repos": ["house", "notes"], "seatLimit": 4, "seats": [
            {"jobId": id(9), "title": fleet.text("Pave the long road"), "dispatchedOnly": false},
         ], "load": 0.42, "health": 0.95, "diskFreeBytes": 120_000_000_000_u64, "draining": false, "connected": true, "version": fleet.text("0.1.0"), "joinedAt": ago(90_000)},
        {"id": "north", "presence": "stale", "lastHeartbeatAt": ago(3_000), "capabilities": ["os:linux"], "repos": [], "seatLimit": 2, "seats": [],
         "load": 0.0, "health": 1.0, "draining": false, "connected": false, "version": "0.1.0", "joinedAt": ago(90_000)},
        {"id": "west-with-a-rather-long-name", "presence": "live", "capabilities": ["os:mac"], "engines": [{"name": "claude", "problem": fleet.text("not signed in: run `claude` and sign in")}],
         "repos": ["house"], "seatLimit": 12, "seats": [{"jobId": id(1), "title": "Plant the garden", "dispatchedOnly": true}], "load": 1.3, "health": 0.5, "draining": true, "connected": true, "version": "0.1.0", "joinedAt": ago(90_000)},
    ]})
}

pub(super) fn pools(fleet: Fleet) -> Value {
    if fleet == Fleet::Empty {
        return json!({"items": []});
    }
    let scale = |pool: &str, wanted: u32, live: u32, members: &[&str]| {
        json!({"pool": pool, "wanted": wanted, "live": live, "starting": wanted - live, "waiting": 5, "used": live, "max": 3,
               "startWithinMs": 300_000, "members": members, "since": (wanted > live).then(|| ago(2))})
    };
    json!({"items": [
        {"name": "linux", "max": 3, "seats": 2, "engines": ["claude"], "scale": scale("linux", 3, 1, &["linux-7f3a"])},
        {"name": "mac", "max": 3, "engines": ["codex"], "broken": true, "scale": scale("mac", 0, 0, &[])},
    ]})
}

pub(super) fn metrics(fleet: Fleet) -> Value {
    let jobs = match fleet {
        Fleet::Empty => json!({}),
        Fleet::Full | Fleet::Hostile => json!({
            "queued": 12, "blocked": 3, "assigned": 1, "building": 7, "review": 4, "testing": 2, "shipped": 118, "failed": 2, "dead_letter": 1,
        }),
    };
    json!({
        "jobs": jobs, "waiting": 12, "depth": 1, "seatsUsed": 7, "seats": 12, "dispatchLagMs": 3, "conflicts": 0, "deadLetters": 1,
        "storeOperations": {"read": 1_204, "write": 348}, "ignoredRequestKeys": 0,
    })
}

fn letters(fleet: Fleet) -> Value {
    let items: Vec<Value> = jobs(fleet)["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|job| job["stage"] == "dead_letter")
        .map(|job| json!({"job": job, "reason": "retries_exhausted"}))
        .collect();
    json!({"items": items, "mirrored": []})
}

fn credentials(fleet: Fleet) -> Value {
    if fleet == Fleet::Empty {
        return json!({"items": []});
    }
    json!({"items": [{"credential": "c-41aa", "engine": "codex", "window": "five_hour", "since": ago(30), "until": NOW.after(Duration::from_secs(8_000)).to_string(), "hits": 1, "factories": ["east"], "message": fleet.text("usage limit reached")}]})
}

fn budgets(fleet: Fleet) -> Value {
    let budget = |product: &str, spent: f64| {
        json!({
            "productId": product, "period": "month", "running": "finish", "enforced": true, "paused": false,
            "spentUsd": spent, "runningUsd": 0.0, "reservedUsd": 0.0, "subscriptionUsd": 0.0,
            "projection": {"usdPerHour": 0.0}, "runs": 0, "failedRuns": 0, "runsWithoutCost": 0, "merged": 0,
            "byEngine": [], "byRepo": [], "byProfile": [], "recent": [],
        })
    };
    if fleet == Fleet::Empty {
        return json!({"items": [budget("default", 0.0)]});
    }
    let until = NOW.after(Duration::from_secs(1_000_000)).to_string();
    let mut spent = budget("default", 368.2);
    for (key, value) in [
        ("ceilingUsd", json!(400.0)),
        ("runningUsd", json!(2.1)),
        ("reservedUsd", json!(4.6)),
        ("leftUsd", json!(27.2)),
        ("usedPercent", json!(92.05)),
        (
            "projection",
            json!({"usdPerHour": 3.1, "atEndUsd": 1229.3, "reachedAt": NOW.after(Duration::from_secs(36_000)).to_string()}),
        ),
        ("runs", json!(190)),
        ("failedRuns", json!(31)),
        ("merged", json!(159)),
        ("costPerMergedUsd", json!(2.3157)),
        (
            "byEngine",
            json!([{"name": "codex", "usd": 214.1, "subscriptionUsd": 0.0, "runs": 120, "failedRuns": 20}, {"name": "claude", "usd": 154.1, "subscriptionUsd": 0.0, "runs": 70, "failedRuns": 11}]),
        ),
    ] {
        spent[key] = value;
    }
    let mut paused = budget("legacy", 3.0);
    paused["paused"] = json!(true);
    paused["pause"] =
        json!({"by": fleet.text("maya"), "at": ago(90), "reason": fleet.text("moving to another provider")});
    let mut waiting = budget("notes", 5.2);
    waiting["ceilingUsd"] = json!(5.0);
    waiting["waiting"] =
        json!({"ceilingUsd": 5.0, "period": "month", "spentUsd": 5.2, "reservedUsd": 0.0, "resetsAt": until});
    json!({"items": [spent, paused, waiting]})
}

fn divergence(fleet: Fleet) -> Value {
    let counts = json!({"same": 951, "otherEligible": 60, "ineligible": 0, "onlyPoll": 1, "onlyPush": 0, "delivered": 998, "missing": 1, "unknown": 0});
    let summary = json!({
        "hours": 20, "decisions": 1_012, "divergent": 1, "counts": counts, "lag": {"p50Ms": 2, "p99Ms": 20, "maxMs": 31},
        "verdict": {"safe": false, "text": "not yet: decisions in 20 of 24 hours; 1 shadow message missing, none may",
            "lacking": ["decisions in 20 of 24 hours", "1 shadow message missing, none may"]},
    });
    let compared = json!([{"productId": "legacy", "mode": "shadow", "compared": true, "summary": summary}]);
    let found = json!([{
        "at": ago(40), "kind": "only-poll", "productId": "legacy", "jobId": id(7), "factoryId": "east",
        "poll": fleet.text("claimed by `east` (score 3.10)"), "push": "no factory: all seats are in use",
    }]);
    let nothing = fleet == Fleet::Empty;
    json!({
        "summary": summary, "hours": [], "products": if nothing { json!([]) } else { compared },
        "divergences": if nothing { json!([]) } else { found },
    })
}

fn modes(fleet: Fleet) -> Value {
    match fleet {
        Fleet::Empty => json!({"mode": "push", "preemption": false}),
        Fleet::Full | Fleet::Hostile => json!({"mode": "push", "products": {"legacy": "poll"}, "preemption": true}),
    }
}

pub(super) fn events(fleet: Fleet, n: u32) -> Value {
    let event = |seq: u32, minutes: u64, kind: &str, stage: &str, text: &str| {
        json!({
            "jobId": id(n), "productId": "default", "seq": seq, "at": ago(minutes), "kind": kind, "stage": stage, "epoch": 1,
            "by": {"who": "coordinator"}, "text": fleet.text(text),
        })
    };
    json!({"items": [
        event(1, 2_000, "submitted", "queued", "submitted"),
        event(2, 14, "dispatched", "queued", "offered to east"),
        event(3, 13, "granted", "assigned", "lease granted to east (run 1)"),
        event(4, 12, "started", "building", "engine claude started on east"),
        event(5, 7, "checkpointed", "building", "checkpoint saved at commit db8fbc7b13"),
    ]})
}

pub(super) fn full_job(fleet: Fleet, n: u32) -> Value {
    let mut job = jobs(fleet)["items"].as_array().unwrap().iter().find(|job| job["id"] == id(n)).unwrap().clone();
    let more = json!({
        "bodyMd": fleet.text("---\ntitle: Pave the long road\nrepo: house\n---\nPave it with the good stones."),
        "manifestSnapshot": {"title": "x", "priority": "normal", "budget": {}, "depsMode": "all", "onDepFailure": "block", "kind": "task", "retry": {}, "preemptible": true},
        "profile": {"ref": "mason@3", "productId": "_fleet", "applied": ["engines", "budget.usd", "verify"]},
        "persona": fleet.text("You are a mason."),
        "progress": {"doing": fleet.text("Bash cargo test"), "turns": 12, "toolCalls": 31, "tokensIn": 120_400, "costUsd": 0.84},
    });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job
}

pub(super) fn dag(fleet: Fleet) -> Value {
    let node = |n: u32, title: &str, stage: &str, deps: Vec<String>| json!({"id": id(n), "title": fleet.text(title), "stage": stage, "deps": deps});
    json!({"nodes": [
        node(5, "Dig the well", "shipped", vec![]),
        node(6, "Lay the foundation", "shipped", vec![id(5)]),
        node(8, "Put the roof on", "blocked", vec![id(7), id(9)]),
        node(9, "Pave the long road", "building", vec![id(6), id(5)]),
        node(7, "Raise the walls", "blocked", vec![id(9)]),
        {"id": id(4), "title": fleet.text("Order the gravel"), "stage": "shipped", "deps": [], "parentId": id(9), "spent": {"costUsd": 0.42}},
    ], "truncated": false, "limit": 500})
}

pub(super) fn explanation(fleet: Fleet) -> Value {
    let score = |total: f64| json!({"capabilityFit": 0.8, "affinity": 1.0, "idleness": 0.7, "costFit": 1.0, "health": 0.95, "starvationPenalty": 0.2, "total": total});
    json!({
        "job": jobs(fleet)["items"][4], "summary": fleet.text("queued: no factory can run it"),
        "now": {
            "shape": {"product": "default", "capabilities": ["has:excavator"], "engines": []},
            "answer": {"outcome": "goes", "factory": "east"}, "text": "will run on east with engine claude",
            "weights": {"capabilityFit": 1.0, "affinity": 1.0, "idleness": 1.0, "costFit": 1.0, "health": 1.0, "starvation": 1.0},
            "factories": [
                {"factory": "east", "eligible": true, "avoided": false, "unfit": [], "score": score(3.21), "rank": 1},
                {"factory": "north", "eligible": true, "avoided": true, "unfit": [], "score": score(2.5), "rank": 2},
            ],
        },
    })
}

pub(super) fn model(look: Look, size: (u16, u16)) -> Model {
    Model::new(Setup { look, size, now: NOW, folder: None })
}

pub(super) fn answer(model: &mut Model, request: Request, data: Data) -> Vec<Effect> {
    update(model, Msg::Answer(Box::new(Answer { request, outcome: Ok(data) })))
}

/// Everything that is read after the stream opened.
pub(super) fn load(model: &mut Model, fleet: Fleet) {
    let asked = update(model, Msg::Stream(StreamMsg::Open { api: "http://127.0.0.1:7878".to_owned() }));
    update(
        model,
        Msg::Stream(StreamMsg::Hello(read(
            &json!({"name": "coord-1", "version": "0.1.0", "build": "x", "keepAliveSeconds": 15}),
        ))),
    );
    let jobs_request = asked.into_iter().find_map(|effect| match effect {
        Effect::Read(request @ Request::Jobs { .. }) => Some(request),
        _ => None,
    });
    answer(model, jobs_request.unwrap(), Data::Jobs(read(&jobs(fleet))));
    answer(model, Request::Needs, Data::Needs(read(&needs(fleet))));
    answer(model, Request::Factories, Data::Factories(read(&factories(fleet))));
    answer(model, Request::Pools, Data::Pools(read(&pools(fleet))));
    answer(model, Request::Metrics, Data::Metrics(read(&metrics(fleet))));
    answer(model, Request::Flags, Data::Flags(read(&modes(fleet))));
    answer(model, Request::Divergence, Data::Divergence(Box::new(read(&divergence(fleet)))));
    answer(model, Request::DeadLetters, Data::DeadLetters(read(&letters(fleet))));
    answer(model, Request::Credentials, Data::Credentials(read(&credentials(fleet))));
    answer(model, Request::Budgets, Data::Budgets(read(&budgets(fleet))));
}

/// The parts of a job, as they are read when it is opened.
pub(super) fn load_job(model: &mut Model, fleet: Fleet, n: u32) {
    let job = job_id(n);
    answer(model, Request::Job(job), Data::Job(Box::new(read(&full_job(fleet, n)))));
    answer(model, Request::Events { job, after: None }, Data::Events(read(&events(fleet, n))));
    answer(model, Request::Dag(job), Data::Dag(read(&dag(fleet))));
}

pub(super) fn log(model: &mut Model, text: &str) {
    let opening = model.log_openings;
    let mut scrubber = domain::TerminalScrubber::default();
    let piece = LogPiece::Text(scrubber.scrub(text.as_bytes()));
    update(model, Msg::Log(LogMsg { opening, piece }));
}

/// The coordinator has been gone for a while.
pub(super) fn go_down(model: &mut Model) {
    let why = "no answer from http://127.0.0.1:7878: connection refused".to_owned();
    let retry_at = NOW.after(Duration::from_secs(24));
    update(model, Msg::Stream(StreamMsg::Lost { why, retry_at }));
    update(model, Msg::Clock(NOW.after(Duration::from_secs(20))));
}

pub(super) fn press(model: &mut Model, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for c in keys.chars() {
        let key = match c {
            '\n' => KeyEvent::from(KeyCode::Enter),
            '\t' => KeyEvent::from(KeyCode::Tab),
            '\u{1b}' => KeyEvent::from(KeyCode::Esc),
            c => KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE),
        };
        effects.extend(update(model, Msg::Key(key)));
    }
    effects
}

pub(super) fn folder_listing() -> FolderListing {
    let file = |folder: &'static str, name: &str, n: Option<u32>| FolderFile {
        folder,
        name: name.to_owned(),
        changed_at: Some(NOW.before(Duration::from_secs(3_600))),
        job: n.map(job_id),
    };
    let files = vec![
        file("inbox", "dig.md", Some(5)),
        file("inbox", "unread.md", None),
        file("building", "pave.md", Some(9)),
        file("testing", "foundation.md", Some(6)),
        file("failed", "paint.md", Some(2)),
    ];
    FolderListing { files, more: 0 }
}

fn buffer(model: &Model) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(model.size.0, model.size.1)).unwrap();
    terminal.draw(|frame| view(model, frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

/// The screen as text, one line each.
pub(super) fn screen(model: &Model) -> String {
    let buffer = buffer(model);
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            if skip == 0 {
                line.push_str(symbol);
            }
            skip = usize::max(skip, crate::text::columns(symbol)).saturating_sub(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The styles as text: a letter for each cell, a legend below.
pub(super) fn styles(model: &Model) -> String {
    let buffer = buffer(model);
    let mut kinds: Vec<String> = Vec::new();
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            if cell.fg == ratatui::style::Color::Reset && cell.bg == cell.fg && cell.modifier == Modifier::empty() {
                line.push(' ');
                continue;
            }
            let kind = format!("{:?} on {:?} {:?}", cell.fg, cell.bg, cell.modifier);
            let at = kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            line.push(char::from(b'a' + u8::try_from(at).unwrap()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for (at, kind) in kinds.iter().enumerate() {
        text.push_str(&format!("{} = {kind}\n", char::from(b'a' + u8::try_from(at).unwrap())));
    }
    text
}
