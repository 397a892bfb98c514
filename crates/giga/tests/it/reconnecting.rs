//! `giga wait` and `giga events` survive what happens to connections.

use serde_json::{Value, json};

use crate::coordinator::{Answer, Coordinator};
use crate::giga::Machine;
use crate::terminal_escapes::job;

const ID: &str = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";
const SHORT: &str = "d4c5b6a";
const TOKEN: [(&str, &str); 1] = [("GIGA_TOKEN", "giga_adm_x")];

fn detail(stage: &str, more: &Value) -> Value {
    let mut job = job("Tidy up");
    job["stage"] = json!(stage);
    job["bodyMd"] = json!("Tidy up.");
    job["manifestSnapshot"] = json!({"title": "Tidy up"});
    for (key, value) in more.as_object().unwrap() {
        job[key] = value.clone();
    }
    job
}

fn event(position: u32, kind: &str, stage: &str) -> String {
    let event = json!({
        "jobId": ID, "productId": "default", "seq": position, "at": "2026-01-31T12:00:05Z", "kind": kind,
        "stage": stage, "epoch": 1, "by": {"who": "coordinator"},
    });
    format!("id: {position}\nevent: job\ndata: {event}\n\n")
}

// [J7]
#[test]
fn waiting_goes_on_where_a_cut_stream_ended() {
    let coordinator = Coordinator::start();
    let job = format!("GET /jobs/{ID}");
    coordinator
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(event(7, "started", "building")))
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(event(8, "completed", "testing")))
        .expect(&job, Answer::json(200, &detail("queued", &json!({}))))
        .expect(&job, Answer::json(200, &detail("building", &json!({}))))
        .expect(&job, Answer::json(200, &detail("testing", &json!({"seq": 8}))));

    let ran = Machine::new().giga_with(&["wait", ID, "--timeout", "30s", "--api", coordinator.api()], &TOKEN, "");

    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{SHORT}  testing      Tidy up\n")), "{}", ran.stderr);
    assert!(ran.stderr.contains("12:00:05  building     engine started"), "{}", ran.stderr);
    let resumed = format!("GET /api/fleet/jobs/{ID}/events/stream after 7");
    assert!(coordinator.seen().contains(&resumed), "{:?}", coordinator.seen());
}

#[test]
fn an_answer_that_is_older_than_the_news_is_not_believed() {
    let coordinator = Coordinator::start();
    let job = format!("GET /jobs/{ID}");
    coordinator
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(event(8, "promoted", "testing")))
        .expect(&job, Answer::json(200, &detail("testing", &json!({"seq": 7, "errand": "promote"}))))
        .expect(&job, Answer::json(200, &detail("testing", &json!({"seq": 7, "errand": "promote"}))))
        .expect(&job, Answer::json(200, &detail("testing", &json!({"seq": 8}))));

    let ran = Machine::new().giga_with(&["wait", ID, "--timeout", "30s", "--api", coordinator.api()], &TOKEN, "");

    let stream = format!("GET /api/fleet/jobs/{ID}/events/stream");
    let streams = coordinator.seen().iter().filter(|request| request.starts_with(&stream)).count();
    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{SHORT}  testing      Tidy up\n")), "{}", ran.stderr);
    assert_eq!(streams, 1, "{:?}", coordinator.seen());
}

#[test]
fn a_failed_job_fails_the_wait_and_says_why() {
    let coordinator = Coordinator::start();
    let failed = detail("dead_letter", &json!({"reason": "retries_exhausted", "message": "tests fail"}));
    coordinator.expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(""));
    coordinator.expect(&format!("GET /jobs/{ID}"), Answer::json(200, &failed));

    let ran = Machine::new().giga_with(&["wait", ID, "--api", coordinator.api()], &TOKEN, "");

    assert_eq!((ran.code, ran.stdout), (Some(1), format!("{SHORT}  dead_letter  Tidy up\n")));
    let expected = format!("error: job {SHORT} \"Tidy up\" is dead-lettered (retries_exhausted): tests fail\n");
    assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
}

// [B6]
#[test]
fn a_question_ends_the_wait_and_is_shown_with_how_to_answer_it() {
    let coordinator = Coordinator::start();
    let asks = json!({"seq": 8, "question": "Which\ngate?", "message": "Which\ngate?"});
    let asked = event(8, "asked", "blocked").replace("\"kind\"", "\"data\":{\"question\":\"Which gate?\"},\"kind\"");
    coordinator
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(asked))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("building", &json!({}))))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("blocked", &asks)));

    let ran = Machine::new().giga_with(&["wait", ID, "--timeout", "30s", "--api", coordinator.api()], &TOKEN, "");

    assert_eq!((ran.code, ran.stdout), (Some(1), format!("{SHORT}  blocked      Tidy up\n")), "{}", ran.stderr);
    let told = format!("error: job {SHORT} \"Tidy up\" asks: Which gate?\n");
    let answer = format!("`giga answer {SHORT} -m \"…\"` answers it");
    for text in ["blocked      question: Which gate?", &told, &answer] {
        assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
    }
}

#[test]
fn a_job_that_waits_for_another_is_waited_for() {
    let coordinator = Coordinator::start();
    coordinator
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(event(8, "completed", "testing")))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("blocked", &json!({}))))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("testing", &json!({"seq": 8}))));

    let ran = Machine::new().giga_with(&["wait", ID, "--timeout", "30s", "--api", coordinator.api()], &TOKEN, "");

    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{SHORT}  testing      Tidy up\n")), "{}", ran.stderr);
}

#[test]
fn an_attempt_that_failed_is_said_with_its_reason_and_the_next_try() {
    let coordinator = Coordinator::start();
    let failed =
        json!({"attempts": 1, "reason": "verify_failed", "message": "tests fail", "notBefore": "2026-01-31T12:00:35Z"});
    let failed = event(8, "attempt_failed", "queued").replace("\"kind\"", &format!("\"data\":{failed},\"kind\""));
    let stream = failed + &event(9, "completed", "testing");
    coordinator
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(stream))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("building", &json!({}))))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("testing", &json!({"seq": 9}))));

    let ran = Machine::new().giga_with(&["wait", ID, "--timeout", "30s", "--api", coordinator.api()], &TOKEN, "");

    let said = "12:00:05  queued       attempt 1 failed (verify_failed), requeued: tests fail; next try in 30s\n";
    assert!(ran.code == Some(0) && ran.stderr.contains(said), "{}", ran.stderr);
}

#[test]
fn whoever_comes_while_a_job_waits_for_its_next_try_is_told_so() {
    let coordinator = Coordinator::start();
    let waits = json!({"attempts": 2, "message": "tests fail", "notBefore": "2999-01-31T12:00:00Z"});
    coordinator
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(event(8, "completed", "testing")))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("queued", &waits)))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("testing", &json!({"seq": 8}))));

    let ran = Machine::new().giga_with(&["wait", ID, "--timeout", "30s", "--api", coordinator.api()], &TOKEN, "");

    let said = "queued       attempt 2 failed: tests fail; next try in ";
    assert!(ran.code == Some(0) && ran.stderr.contains(said), "{}", ran.stderr);
}

#[test]
fn while_nothing_happens_it_is_said_once_what_a_job_waits_for() {
    let coordinator = Coordinator::start();
    let (stream, explain) = (format!("GET /jobs/{ID}/events/stream"), format!("GET /jobs/{ID}/explain"));
    let summary = "claude/five_hour is used up until 2026-01-31 14:05 UTC";
    let shape = json!({"product": "default", "capabilities": [], "engines": []});
    let answer =
        serde_json::to_value(scheduler::ExplainedOutcome::Goes { factory: "mac-1".parse().unwrap(), engine: None });
    let now = json!({"shape": shape, "answer": answer.unwrap(), "text": "t", "weights": {}, "factories": []});
    let explained = json!({"job": job("Tidy up"), "summary": summary, "now": now});
    // The first stream is cut and the next ones are put off, which takes longer than it takes to ask.
    coordinator.expect(&stream, Answer::stream(""));
    for _ in 0..2 {
        coordinator.expect(&stream, Answer::problem(503, "unavailable", "later"));
    }
    coordinator
        .expect(&stream, Answer::stream(event(8, "completed", "testing")))
        .expect(&explain, Answer::json(200, &explained))
        .expect(&explain, Answer::json(200, &explained))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("queued", &json!({}))))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("queued", &json!({}))))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("testing", &json!({"seq": 8}))));

    let ran = Machine::new().giga_with(&["wait", ID, "--timeout", "60s", "--api", coordinator.api()], &TOKEN, "");

    let said = format!("queued       {summary}\n");
    assert_eq!((ran.code, ran.stderr.matches(&said).count()), (Some(0), 1), "{}", ran.stderr);
}

#[test]
fn a_merge_that_waits_for_a_factory_shows_the_reason() {
    let coordinator = Coordinator::start();
    let (stream, explain) = (format!("GET /jobs/{ID}/events/stream"), format!("GET /jobs/{ID}/explain"));
    let text = "waiting for a factory to ship: no live factory has `calc`; start one that has it";
    let ships = json!({
        "errand": "ship", "waiting": {"code": "no_factory_has_repo", "text": text, "unplaceable": true},
    });
    let shape = json!({"product": "default", "capabilities": [], "engines": []});
    let answer = json!({"outcome": "waits", "why": {"code": "all_busy"}, "unplaceable": false});
    let now = json!({"shape": shape, "answer": answer, "text": "t", "weights": {}, "factories": []});
    let explained = json!({"job": detail("testing", &ships), "summary": text, "now": now});
    // The next streams are put off, which takes longer than the pause before the first question.
    coordinator.expect(&stream, Answer::stream(""));
    for _ in 0..2 {
        coordinator.expect(&stream, Answer::problem(503, "unavailable", "later"));
    }
    coordinator
        .expect(&stream, Answer::stream(event(8, "shipped", "shipped")))
        .expect(&explain, Answer::json(200, &explained))
        .expect(&explain, Answer::json(200, &explained))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("testing", &ships)))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("testing", &ships)))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("shipped", &json!({"seq": 8}))));

    let args = ["wait", ID, "--until", "shipped", "--timeout", "60s", "--api", coordinator.api()];
    let ran = Machine::new().giga_with(&args, &TOKEN, "");

    let said = format!("testing      {text}\n");
    assert_eq!((ran.code, ran.stderr.matches(&said).count()), (Some(0), 1), "{}", ran.stderr);
}

#[test]
fn the_log_of_a_run_is_found_by_its_number() {
    let coordinator = Coordinator::start();
    let run = |n: u32, epoch: u64| json!({"n": n, "epoch": epoch, "factory": "mac-1", "instance": ID, "grantedAt": "2026-01-31T12:00:00Z"});
    let runs = json!({"items": [run(1, 4_294_967_297), run(2, 4_294_967_300)]});
    let logs = |args: &[&str]| {
        coordinator.expect(&format!("GET /jobs/{ID}/runs"), Answer::json(200, &runs));
        let args = [&["logs", ID, "--api", coordinator.api()], args].concat();
        Machine::new().giga_with(&args, &TOKEN, "")
    };
    let printed = |epoch: u64| {
        coordinator.expect(&format!("GET /jobs/{ID}/logs?epoch={epoch}&"), Answer::stream("hello\n"));
    };

    printed(4_294_967_297);
    let first = logs(&["--run", "1", "--json"]);
    printed(4_294_967_300);
    let latest = logs(&[]);
    let missing = logs(&["--run", "3"]);

    assert_eq!(first.stdout, "{\"run\":1,\"leaseEpoch\":4294967297,\"line\":\"hello\"}\n", "{}", first.stderr);
    let note = "run 2 (epoch 4294967300), the latest; --run N shows another\n";
    assert_eq!((latest.stdout.as_str(), latest.stderr.as_str()), ("hello\n", note));
    let told = format!("error: job {SHORT} has no run 3: it has had 2 runs\nhint: `giga runs {SHORT}` lists them\n");
    assert_eq!((missing.code, missing.stderr), (Some(5), told));
}

// [J10]
#[test]
fn a_question_is_not_passed_over_by_mistake() {
    let coordinator = Coordinator::start();
    let asks = detail("blocked", &json!({"question": "Which gate?"}));
    coordinator.expect(&format!("GET /jobs/{ID}"), Answer::json(200, &asks));
    coordinator.expect(&format!("POST /jobs/{ID}/actions/requeue"), Answer::json(200, &detail("queued", &json!({}))));
    let machine = Machine::new();

    let refused = machine.giga_with(&["requeue", ID, "--api", coordinator.api()], &TOKEN, "");
    let sent = machine.giga_with(&["requeue", ID, "-m", "", "--api", coordinator.api()], &TOKEN, "");

    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("waiting for an answer: Which gate?"), "{}", refused.stderr);
    assert_eq!((sent.code, sent.stdout), (Some(0), format!("{SHORT}  queued       Tidy up\n")), "{}", sent.stderr);
}

// [J10]
#[test]
fn shipping_what_is_merged_says_so() {
    let coordinator = Coordinator::start();
    coordinator.expect(&format!("POST /jobs/{ID}/actions/ship"), Answer::json(200, &detail("shipped", &json!({}))));

    let ran = Machine::new().giga_with(&["ship", ID, "--api", coordinator.api()], &TOKEN, "");

    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{SHORT}  shipped      Tidy up\n")), "{}", ran.stderr);
    assert_eq!(ran.stderr, "already merged\n");
}

#[test]
fn a_product_that_was_made_is_told_from_one_that_was_changed() {
    let coordinator = Coordinator::start();
    let product = json!({"id": "nope", "repos": [], "paused": false, "autoShip": true, "weight": 1, "repoSeats": {}});
    let machine = Machine::new();
    for (known, told) in [(json!([]), "created product `nope`"), (json!([product.clone()]), "updated product `nope`")] {
        coordinator.expect("GET /products", Answer::json(200, &json!({"items": known})));
        coordinator.expect("PUT /products/nope", Answer::json(200, &product));

        let ran = machine.giga_with(&["product", "set", "nope", "--auto-ship", "--api", coordinator.api()], &TOKEN, "");

        assert!(ran.code == Some(0) && ran.stderr.contains(told), "{}", ran.stderr);
        assert!(ran.stderr.contains("`giga product set nope --no-auto-ship`"), "{}", ran.stderr);
    }
}

#[test]
fn a_drained_factory_is_shown_with_the_command_that_resumes_it() {
    let coordinator = Coordinator::start();
    let at = "2026-01-31T12:00:00Z";
    let seats = json!([{"jobId": ID, "title": "Tidy up", "dispatchedOnly": false}]);
    let factory = json!({
        "id": "mac-1", "presence": "live", "lastHeartbeatAt": at, "capabilities": [], "repos": [], "seatLimit": 2,
        "seats": seats, "load": 0.1, "health": 1.0, "draining": true, "connected": true, "version": "0.1.0",
        "joinedAt": at, "engines": [],
    });
    coordinator.expect("POST /factories/mac-1/drain", Answer::json(200, &factory));

    let args = ["factory", "drain", "mac-1", "--api", coordinator.api()];
    let ran = Machine::new().giga_with(&args, &TOKEN, "");

    let told = "mac-1 is draining: it finishes 1 running job and takes no new ones\n";
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (told, "`giga factory resume mac-1` resumes it\n"));
}

#[test]
fn a_promotion_under_way_is_not_rest_and_a_wait_has_an_end() {
    let coordinator = Coordinator::start();
    let promoting = detail("testing", &json!({"errand": "promote"}));
    // The streams after the first are refused in a way that asks to try again, until time is up.
    for _ in 0..40 {
        coordinator.expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(""));
    }
    for _ in 0..40 {
        coordinator.expect(&format!("GET /jobs/{ID}"), Answer::json(200, &promoting));
    }

    let ran = Machine::new().giga_with(&["wait", ID, "--timeout", "300ms", "--api", coordinator.api()], &TOKEN, "");

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(124), ""));
    assert!(ran.stderr.contains("error: timed out after 300ms"), "{}", ran.stderr);
}

#[test]
fn a_replay_ends_where_the_log_ended() {
    let coordinator = Coordinator::start();
    let replayed =
        ["event: hello\ndata: {}\n\n".to_owned(), event(8, "submitted", "queued"), event(9, "granted", "assigned")];
    coordinator.expect("GET /events/stream", Answer::stream("id: 9\nevent: hello\ndata: {}\n\n"));
    coordinator.expect("GET /events/stream after 7", Answer::stream(replayed.concat()));
    coordinator.expect("GET /jobs?", Answer::json(200, &json!({"items": [job("Tidy up")]})));

    let ran = Machine::new().giga_with(&["events", "--limit", "2", "--api", coordinator.api()], &TOKEN, "");

    let expected = format!(
        "2026-01-31T12:00:05.000Z  {SHORT} \"Tidy up\"  queued       submitted\n\
         2026-01-31T12:00:05.000Z  {SHORT} \"Tidy up\"  assigned     lease granted\n"
    );
    assert_eq!((ran.code, ran.stdout, ran.stderr.as_str()), (Some(0), expected, ""));
}

#[test]
fn events_that_are_newer_than_the_program_are_shown_all_the_same() {
    let coordinator = Coordinator::start();
    let stream = [event(1, "submitted", "queued"), event(2, "blessed", "queued")].concat();
    coordinator.expect("GET /events/stream", Answer::stream(stream));
    coordinator.expect("GET /events/stream", Answer::problem(401, "unauthenticated", "revoked"));

    let ran = Machine::new().giga_with(&["events", "-f", "--json", "--api", coordinator.api()], &TOKEN, "");

    let kinds: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone()).collect();
    assert_eq!(kinds, ["submitted", "blessed"]);
    assert_eq!(ran.code, Some(6), "a revoked token ends it");
}

fn progress(doing: &str, tool_calls: u32) -> String {
    let event = json!({"jobId": ID, "leaseEpoch": 1, "progress": {"doing": doing, "toolCalls": tool_calls}});
    format!("event: progress\ndata: {event}\n\n")
}

// [U3]
#[test]
fn what_an_agent_does_is_told_while_waiting_and_a_stream_resumes_behind_the_last_event() {
    let coordinator = Coordinator::start();
    let job = format!("GET /jobs/{ID}");
    let news = [
        event(7, "started", "building"),
        progress("Read README.md", 1),
        progress("Read README.md", 2),
        progress("Edit \u{1b}[2Jsrc/lib.rs", 3),
    ];
    coordinator
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(news.concat()))
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(event(8, "completed", "testing")))
        .expect(&job, Answer::json(200, &detail("queued", &json!({}))))
        .expect(&job, Answer::json(200, &detail("building", &json!({}))))
        .expect(&job, Answer::json(200, &detail("testing", &json!({"seq": 8}))));

    let ran = Machine::new().giga_with(&["wait", ID, "--timeout", "30s", "--api", coordinator.api()], &TOKEN, "");

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told: Vec<&str> = ran.stderr.lines().filter_map(|line| Some(line.split_once("building     ")?.1)).collect();
    assert_eq!(
        told,
        ["engine started", "Read README.md (1 tool call)", "Edit src/lib.rs (3 tool calls)"],
        "{}",
        ran.stderr
    );
    let resumed = format!("GET /api/fleet/jobs/{ID}/events/stream after 7");
    assert!(coordinator.seen().contains(&resumed), "{:?}", coordinator.seen());
}

/// What `wait` prints and how it ends for a job that does not go on by itself.
fn waited_for(job: &Value) -> (Option<i32>, String) {
    let coordinator = Coordinator::start();
    coordinator.expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(""));
    coordinator.expect(&format!("GET /jobs/{ID}"), Answer::json(200, job));
    let ran = Machine::new().giga_with(&["wait", ID, "--until", "shipped", "--api", coordinator.api()], &TOKEN, "");
    (ran.code, ran.stderr)
}

// [I9]
#[test]
fn a_merge_that_was_given_up_fails_the_wait() {
    let failure = json!({"errand": "ship", "message": "it conflicts", "files": ["a.txt"], "base": "main",
        "triesLeft": 0, "givenUp": true});

    let (code, told) = waited_for(&detail("testing", &json!({"mergeFailure": failure})));

    assert_eq!(code, Some(1), "{told}");
    let expected = format!(
        "error: job {SHORT} \"Tidy up\" merge failed: conflict in a.txt with `main`\nhint: `giga ship {SHORT}` tries the merge again"
    );
    assert!(told.contains(&expected), "{told}");
}

// [I9]
#[test]
fn a_failed_dependency_fails_the_wait() {
    let (code, told) =
        waited_for(&detail("blocked", &json!({"failedDependency": "0190f3a4-7c1e-7b52-9d0a-1f2e34f1c689"})));

    assert_eq!(code, Some(1), "{told}");
    let expected = format!("error: job {SHORT} \"Tidy up\" is blocked: its dependency 4f1c689 failed\n");
    assert!(told.contains(&expected) && told.contains("`giga requeue 4f1c689`"), "{told}");
}

// [I9]
#[test]
fn cancelled_is_told_from_failed_and_lists_give_the_reason() {
    let coordinator = Coordinator::start();
    let mut cancelled = job("Stopped");
    cancelled["stage"] = json!("failed");
    cancelled["reason"] = json!("cancelled");
    cancelled["message"] = json!("not needed");
    let mut failed = job("Broken");
    failed["stage"] = json!("failed");
    failed["reason"] = json!("timeout");
    failed["message"] = json!("no output for 10m");
    let mut stuck = job("Stuck");
    stuck["waiting"] = json!({"code": "no_factories", "text": "there is no factory", "unplaceable": true});
    coordinator.expect("GET /jobs?", Answer::json(200, &json!({"items": [cancelled, failed, stuck]})));

    let ran = Machine::new().giga_with(&["jobs", "--api", coordinator.api()], &TOKEN, "");

    let rows: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect())
        .collect();
    assert_eq!(rows[0].last(), Some(&"REASON"), "{}", ran.stdout);
    assert_eq!((rows[1][2], rows[1].last()), ("cancelled", Some(&"not needed")), "{}", ran.stdout);
    assert_eq!((rows[2][2], rows[2].last()), ("failed", Some(&"timeout: no output for 10m")), "{}", ran.stdout);
    assert_eq!((rows[3][2], rows[3].last()), ("queued", Some(&"there is no factory")), "{}", ran.stdout);
}

#[test]
fn work_that_was_not_verified_is_not_called_verified() {
    let told = |verified: bool| {
        let coordinator = Coordinator::start();
        coordinator.expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(""));
        let done = detail("testing", &json!({"verified": verified}));
        coordinator.expect(&format!("GET /jobs/{ID}"), Answer::json(200, &done));
        Machine::new().giga_with(&["wait", ID, "--api", coordinator.api()], &TOKEN, "").stderr
    };

    assert!(told(true).contains(&format!("done and verified: `giga ship {SHORT}` merges it\n")));
    assert!(told(false).contains(&format!("done, not verified: `giga ship {SHORT}` merges it\n")));
}

#[test]
fn dead_letters_are_dismissed_by_the_end_of_their_ids() {
    let coordinator = Coordinator::start();
    coordinator.expect("GET /jobs?", Answer::json(200, &json!({"items": [job("Tidy up")]})));
    let dismissed = Answer::json(200, &detail("dead_letter", &json!({"reason": "crash", "dismissed": true})));
    coordinator.expect(&format!("POST /dead-letters/{ID}/dismiss"), dismissed);

    let args = ["dead-letters", "dismiss", "5b6a", "--api", coordinator.api()];
    let ran = Machine::new().giga_with(&args, &TOKEN, "");

    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{SHORT}  dismissed  Tidy up\n")), "{}", ran.stderr);
}

#[test]
fn waiting_for_a_cancelled_job_prints_cancelled() {
    let coordinator = Coordinator::start();
    let cancelled = detail("failed", &json!({"reason": "cancelled", "seq": 7}));
    coordinator
        .expect(&format!("GET /jobs/{ID}/events/stream"), Answer::stream(event(7, "cancelled", "failed")))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail("queued", &json!({}))))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &cancelled));

    let ran = Machine::new().giga_with(&["wait", ID, "--api", coordinator.api()], &TOKEN, "");

    assert_eq!((ran.code, ran.stdout), (Some(1), format!("{SHORT}  cancelled    Tidy up\n")), "{}", ran.stderr);
    assert!(ran.stderr.contains("12:00:05  cancelled ") && !ran.stderr.contains("failed"), "{}", ran.stderr);
}
