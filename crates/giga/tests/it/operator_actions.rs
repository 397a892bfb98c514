//! Commands that steer jobs, and the list of what needs a person.

use serde_json::{Value, json};

use crate::coordinator::{Answer, Coordinator};
use crate::giga::{Machine, Ran};
use crate::terminal_escapes::job;

const ID: &str = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";
const SHORT: &str = "d4c5b6a";
const TOKEN: [(&str, &str); 1] = [("GIGA_TOKEN", "giga_adm_x")];

fn run(coordinator: &Coordinator, args: &[&str]) -> Ran {
    let args: Vec<&str> = args.iter().copied().chain(["--api", coordinator.api()]).collect();
    Machine::new().giga_with(&args, &TOKEN, "")
}

fn in_stage(stage: &str) -> Answer {
    let mut job = job("Tidy up");
    job["stage"] = json!(stage);
    Answer::json(200, &job)
}

fn needs(items: &Value) -> Answer {
    Answer::json(200, &json!({ "items": items, "total": items.as_array().unwrap().len(), "isExact": true }))
}

// [U1] [J10]
#[test]
fn each_verb_sends_its_own_action() {
    for (args, path) in [
        (vec!["answer", ID, "the red one"], "answer"),
        (vec!["answer", ID, "-m", "the red one"], "answer"),
        (vec!["reject", ID, "-m", "wrong"], "actions/reject"),
        (vec!["request-changes", ID, "-m", "smaller"], "actions/request-changes"),
        (vec!["priority", ID, "high"], "actions/priority"),
        (vec!["pin", ID, "mac-1"], "actions/pin"),
        (vec!["pin", ID, "--clear"], "actions/pin"),
        (vec!["requeue", ID, "-m", "", "--from-checkpoint"], "actions/retry-from-checkpoint"),
    ] {
        let coordinator = Coordinator::start();
        coordinator.expect(&format!("POST /jobs/{ID}/{path}"), in_stage("queued"));

        let ran = run(&coordinator, &args);

        let shown = format!("{SHORT}  queued       Tidy up\n");
        assert_eq!((ran.code, ran.stdout), (Some(0), shown), "{args:?}: {}", ran.stderr);
    }
}

// [J10]
#[test]
fn an_answer_without_a_question_is_refused_with_a_hint() {
    let coordinator = Coordinator::start();
    let refused = Answer::problem(409, "no_question", "the job has no open question: there is nothing to answer");
    coordinator.expect(&format!("POST /jobs/{ID}/answer"), refused);

    let ran = run(&coordinator, &["answer", ID, "red"]);

    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    for text in ["no open question", &format!("giga requeue {SHORT}")] {
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
    }
}

#[test]
fn a_failure_is_dismissed() {
    let coordinator = Coordinator::start();
    coordinator.expect(&format!("POST /jobs/{ID}/dismiss"), in_stage("failed"));

    let ran = run(&coordinator, &["dismiss", ID]);

    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{SHORT}  dismissed  Tidy up\n")), "{}", ran.stderr);
}

// [U1]
#[test]
fn what_needs_a_person_is_a_table_or_json() {
    let question = json!({
        "key": format!("question:{ID}"), "kind": "question", "title": "Tidy up", "text": "asks: which brick?",
        "remedy": "answer with `giga answer d4c5b6a TEXT`", "at": "2026-01-31T12:00:05Z", "jobId": ID, "actions": ["answer"],
    });
    let coordinator = Coordinator::start();
    coordinator
        .expect("GET /needs-me?limit=50&kind=question", needs(&json!([question])))
        .expect("GET /needs-me?limit=50", needs(&json!([question])))
        .expect("GET /needs-me?limit=50", needs(&json!([])));

    let table = run(&coordinator, &["needs-me", "--kind", "question"]);
    let document = run(&coordinator, &["needs-me", "--json"]);
    let nothing = run(&coordinator, &["needs-me"]);

    assert_eq!(table.code, Some(0), "{}", table.stderr);
    for text in ["KIND", "question", SHORT, "asks: which brick?", "giga answer d4c5b6a"] {
        assert!(table.stdout.contains(text), "{}", table.stdout);
    }
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    assert_eq!(document["items"][0]["kind"], "question");
    assert!(nothing.stderr.contains("nothing needs you"), "{}", nothing.stderr);
}

// [U1]
#[test]
fn jobs_are_filtered_and_counted_by_the_coordinator() {
    let coordinator = Coordinator::start();
    let query = "GET /jobs?limit=50&factory=mac-1&tag=urgent,house&text=red%20roof&repo=notes&total=true";
    let page = json!({ "items": [job("Tidy up")], "total": { "count": 1_000, "isExact": false } });
    coordinator.expect(query, Answer::json(200, &page));

    let ran = run(
        &coordinator,
        &[
            "jobs",
            "--factory",
            "mac-1",
            "--tag",
            "urgent",
            "--tag",
            "house",
            "--text",
            "red roof",
            "--repo",
            "notes",
            "--total",
        ],
    );

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("at least 1000 jobs in total"), "{}", ran.stderr);
}

// [J9]
#[test]
fn a_tail_of_bytes_is_asked_for_and_one_of_lines_is_cut() {
    let runs = json!({ "items": [
        { "n": 1, "epoch": 1, "factory": "mac-1", "instance": ID, "grantedAt": "2026-01-31T12:00:00Z" },
    ] });
    let coordinator = Coordinator::start();
    coordinator
        .expect(&format!("GET /jobs/{ID}/runs"), Answer::json(200, &runs))
        .expect(&format!("GET /jobs/{ID}/logs?epoch=1&tail=65536&follow=false"), Answer::stream("the end\n"));

    let bytes = run(&coordinator, &["logs", ID, "--epoch", "1", "--tail", "64KiB"]);

    assert_eq!((bytes.code, bytes.stdout.as_str()), (Some(0), "the end\n"), "{}", bytes.stderr);
    coordinator
        .expect(&format!("GET /jobs/{ID}/runs"), Answer::json(200, &runs))
        .expect(&format!("GET /jobs/{ID}/logs?epoch=1&tail=1048576"), Answer::stream("one\ntwo\n"))
        .expect(&format!("GET /jobs/{ID}/logs?epoch=1&offset=4&follow=false"), Answer::stream("two\n"));
    let lines = run(&coordinator, &["logs", ID, "--epoch", "1", "--tail", "1"]);
    assert_eq!((lines.code, lines.stdout.as_str()), (Some(0), "two\n"), "{}", lines.stderr);
}
