//! The MCP servers, driven by the official Python SDK against a real coordinator and factory.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::requirement::Requirement;

use crate::fleet::Fleet;

/// A question until it is answered, then work.
const ENGINE: &str = "echo at work\nprompt=$(cat)\ncase \"$prompt\" in\n*'the left one'*) ;;\nask*) \
    echo 'Which gate?' > .aq_question.md; exit 0 ;;\nesac\necho done > out-$GIGA_JOB_ID\n";

const READS: [&str; 9] = [
    "dry_run_job",
    "explain_job",
    "get_budget",
    "get_job",
    "get_job_events",
    "get_job_log",
    "list_factories",
    "list_jobs",
    "wait_for_job",
];

/// The SDK's Python. `None` if it is missing: `scripts/with-mcp-client` installs it, or reports that it cannot.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("GIGA_TEST_MCP_CLIENT").filter(|python| python != "skip");
    if python.is_none() {
        Requirement::McpClient.skip("the Python SDK of MCP is not installed: run scripts/with-mcp-client");
    }
    python.map(PathBuf::from)
}

fn fleet() -> Fleet {
    let mut fleet = Fleet::new();
    fleet.machine.write("engine.sh", ENGINE);
    fleet.start_up();
    fleet
}

/// What the SDK saw, over one transport.
fn drive(python: &Path, fleet: &Fleet, arguments: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp/drive.py");
    let mut command = Command::new(python);
    command.arg(script).args(arguments).current_dir(fleet.machine.path()).env("HOME", fleet.machine.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}\n{}", fleet.machine.read("long-lived.log"));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check(seen: &Value) {
    let mut all = [&READS[..], &["answer_question", "cancel_job", "submit_job"]].concat();
    all.sort_unstable();
    assert_eq!(seen["tools"], json!(all));
    assert_eq!((&seen["dry"], &seen["created"], &seen["same"]), (&json!(false), &json!([true, false]), &json!(true)));
    assert_eq!(seen["waited"], json!(["reached", "testing"]));
    assert_eq!((&seen["listed"], &seen["explained"]), (&json!(true), &json!(true)));
    assert_eq!(seen["got"], "From a tool");
    let events = seen["events"].to_string();
    assert!(events.contains("lease granted to here (run 1)") && events.contains("engine script started"), "{events}");
    assert_eq!((&seen["log"], &seen["factories"]), (&json!("at work\n"), &json!(["here"])));
    assert_eq!(seen["asked"], json!(["needs_attention", "Which gate?"]));
    assert_eq!((&seen["timed"], &seen["answered"]), (&json!("timed_out"), &json!("testing")));
    assert_eq!(seen["cancelled"], "cancelled");
    for (failure, code) in ["no_such_job", "invalid_id", "bad_manifest", "no_question"].iter().enumerate() {
        let text = seen["failures"][failure].as_str().unwrap();
        assert!(text.starts_with(&format!("error `{code}`: ")), "{text}");
    }
    assert!(seen["unknown"].as_str().unwrap().contains("unknown field `stage`"), "{seen:#}");
}

// [U4]
#[test]
fn every_tool_works_over_standard_streams() {
    let Some(python) = python() else { return };
    let mut fleet = fleet();

    for kind in ["stdio", "legacy-stdio"] {
        let giga = env!("CARGO_BIN_EXE_giga");
        check(&drive(&python, &fleet, &[kind, giga, "mcp"]));
    }

    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [U4]
#[test]
fn every_tool_works_over_http() {
    let Some(python) = python() else { return };
    let mut fleet = fleet();
    let url = format!("{}/mcp", fleet.machine.read("data/endpoint").trim());
    let token = fleet.machine.read("data/admin.token");

    for kind in ["http", "legacy-http"] {
        check(&drive(&python, &fleet, &[kind, &url, token.trim()]));
    }

    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

/// The status and body of a request for the list of tools over HTTP.
fn list_over_http(fleet: &Fleet, headers: &str) -> (u16, String) {
    let base = fleet.machine.read("data/endpoint");
    let address = base.trim().strip_prefix("http://").unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\n{host}{headers}Connection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

// [U4] [attack: CSRF, DNS rebinding]
#[test]
fn http_needs_a_token_its_own_host_and_no_web_page() {
    let fleet = Fleet::serve();
    let token = fleet.machine.read("data/admin.token");
    let bearer = format!("Authorization: Bearer {}\r\n", token.trim());
    let own = format!("{bearer}Origin: {}\r\n", fleet.machine.read("data/endpoint").trim());

    let statuses = [
        bearer.clone(),
        String::new(),
        "Authorization: Bearer wrong\r\n".to_owned(),
        format!("{bearer}Host: evil.example\r\n"),
        format!("{bearer}Origin: http://evil.example\r\n"),
        own,
    ]
    .map(|headers| list_over_http(&fleet, &headers).0);

    assert_eq!(statuses, [200, 401, 401, 403, 403, 403]);
}

/// One line of JSON in, one out: what a client without an SDK does.
fn list_over_stdio(fleet: &Fleet, args: &[&str]) -> Value {
    let client = json!({ "name": "test", "version": "0" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
    ];
    let stdin: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let ran = fleet.machine.giga_with(args, &[], &stdin);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.into_iter().find(|answer| answer["id"] == 2).unwrap()
}

// [U4]
#[test]
fn a_read_only_server_offers_no_tool_that_changes_anything() {
    let fleet = Fleet::serve();

    let listed = list_over_stdio(&fleet, &["mcp", "--read-only"]);

    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, READS);
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true), "{tools:?}");
}

// [B11]
#[test]
fn the_tools_of_a_run_need_a_run() {
    let fleet = Fleet::new();
    let socket = fleet.machine.path().join("run.sock");

    let ran = fleet.machine.giga(&["mcp", "--run", socket.to_str().unwrap()]);

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("its run has ended"), "{}", ran.stderr);
}

/// The lines of a client that calls tools, for the standard input of a server.
fn calls(tools: &[(&str, Value)]) -> String {
    let client = json!({ "name": "test", "version": "0" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let opening = [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ];
    let calls = tools.iter().enumerate().map(|(number, (name, arguments))| {
        let params = json!({ "name": name, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": number + 1, "method": "tools/call", "params": params })
    });
    opening.into_iter().chain(calls).map(|line| format!("{line}\n")).collect()
}

/// A fleet whose agent calls these tools of its run, then runs `then`. What the tools answer is in its log.
fn fleet_with_agent(more: &str, tools: &[(&str, Value)], then: &str) -> Fleet {
    fleet_with_script(more, tools, |call| format!("cat > /dev/null\necho draft > draft.txt\n{call}\n{then}\n"))
}

/// A fleet whose agent is a script, made of the command that calls these tools.
fn fleet_with_script(more: &str, tools: &[(&str, Value)], script: impl FnOnce(&str) -> String) -> Fleet {
    let mut fleet = Fleet::new();
    let top = fleet.machine.path().to_owned();
    // Another account may pass through.
    std::fs::set_permissions(&top, std::fs::Permissions::from_mode(0o711)).unwrap();
    fleet.machine.write("calls.jsonl", &calls(tools));
    // The build directory may be below a home that another account cannot enter.
    let giga = top.join("giga-of-agents");
    std::fs::copy(env!("CARGO_BIN_EXE_giga"), &giga).unwrap();
    let call = format!(
        "'{giga}' mcp --run \"$HOME/.giga/run.sock\" < '{calls}'",
        giga = giga.display(),
        calls = top.join("calls.jsonl").display(),
    );
    fleet.machine.write("engine.sh", &script(&call));
    let config = fleet.machine.read("giga.toml");
    // Beside the coordinator's data, which another account cannot enter.
    let more = format!("[factory]\nstate = '{}'\n{more}", top.join("state").display());
    fleet.machine.write("giga.toml", &config.replace("[factory]\n", &more));
    fleet.start_up();
    fleet
}

/// The answers of the tools, in the order of the calls.
fn answers(fleet: &Fleet, job: &str) -> Vec<String> {
    answers_in(&fleet.json(&["logs", job]))
}

/// The answers in the lines of a log.
fn answers_in(lines: &[Value]) -> Vec<String> {
    let lines = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line["line"].as_str()?).ok());
    let mut answers: Vec<Value> = lines.filter(|answer| answer["id"].as_u64() > Some(0)).collect();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    answers.iter().map(|answer| answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

fn the_tools_of_a_run_work(more: &str) {
    let tools = [
        ("get_context", json!({})),
        ("report_progress", json!({ "text": "painting the fence" })),
        ("save_checkpoint", json!({})),
        ("get_context", json!({ "job": "another" })),
        ("attach_artifact", json!({ "path": "draft.txt", "name": "drafts/first.txt" })),
        ("attach_artifact", json!({ "path": "../../etc/passwd" })),
    ];
    let mut fleet = fleet_with_agent(more, &tools, "");
    fleet.machine.write("job.md", "---\ntitle: Some work\nrepo: work\nbudget: { usd: 5 }\n---\nDo it.\n");

    let submitted = fleet.json(&["submit", "job.md", "--wait"]);
    let job = submitted[0]["job"]["id"].as_str().unwrap();
    let answers = answers(&fleet, job);
    let lines = fleet.json(&["logs", job]);

    assert_eq!(submitted[1]["stage"], "testing", "{submitted:?}\n{lines:?}");
    assert!(answers[0].starts_with(&format!("job: {job} Some work\nattempt: 1 on factory here")), "{answers:?}");
    assert!(answers[0].contains("money: $5.00 left\ntokens: no limit"), "{answers:?}");
    assert_eq!(answers[1], "noted");
    assert!(answers[2].starts_with("saved as "), "{answers:?}");
    assert!(answers[3].contains("unknown field `job`"), "{answers:?}");
    assert!(lines.iter().any(|line| line["line"] == "● painting the fence"), "{lines:?}");
    assert_eq!(answers[4], "attached as drafts/first.txt (6 B)", "{answers:?}");
    assert!(answers[5].contains("is not below your working directory"), "{answers:?}");
    let listed = fleet.json(&["artifact", "list", job]).remove(0);
    let artifact = listed["items"][0]["id"].as_str().unwrap();
    assert_eq!((listed["items"][0]["name"].as_str(), listed["bytes"].as_u64()), (Some("drafts/first.txt"), Some(6)));
    let got = fleet.json(&["artifact", "get", artifact, "-o", "got.txt"]).remove(0);
    assert_eq!((got["bytes"].as_u64(), fleet.machine.read("got.txt").as_str()), (Some(6), "draft\n"));
    let removed = fleet.json(&["artifact", "remove", artifact]).remove(0);
    assert_eq!(removed["id"].as_str(), Some(artifact));
    assert_eq!(fleet.json(&["artifact", "list", job])[0]["items"].as_array().map(Vec::len), Some(0));
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [B11]
#[test]
fn the_tools_of_a_run_are_about_that_run() {
    the_tools_of_a_run_work("");
}

// [B11] [T8]
#[test]
fn the_tools_of_a_run_work_under_another_account() {
    if !Requirement::Root.is_met(rustix::process::geteuid().is_root(), "another account needs root") {
        return;
    }
    the_tools_of_a_run_work("run_as = 'nobody'\n");
}

// [B11]
#[test]
fn an_agent_that_goes_on_after_its_question_is_stopped() {
    let question = ("ask_human", json!({ "question": "Which gate?" }));
    let mut fleet = fleet_with_agent("", &[question], "sleep 600");

    let submitted = fleet.json(&["submit", "job.md"]);
    let job = submitted[0]["job"]["id"].as_str().unwrap();
    fleet.until("a question", || fleet.json(&["job", job])[0]["job"]["stage"] == "blocked");
    let parked = fleet.json(&["job", job]).remove(0);

    assert_eq!(parked["job"]["question"], "Which gate?", "{parked:#}");
    assert!(parked["job"]["checkpoint"]["sha"].is_string(), "{parked:#}");
    assert!(answers(&fleet, job)[0].starts_with("parked, stop now. Your work is saved as "));
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [B11] [J4]
#[test]
fn an_agent_waits_for_its_subtask_without_a_seat_and_merges_its_branch() {
    let subtask = json!({ "title": "Part one", "instructions": "Make part.txt.", "budget_usd": 2.0, "key": "one" });
    let tools = [
        ("create_subtask", subtask.clone()),
        ("create_subtask", subtask),
        ("create_subtask", json!({ "title": "Part two", "instructions": "More." })),
        ("list_subtasks", json!({})),
        ("wait_for_subtasks", json!({})),
    ];
    let script = |call: &str| {
        let merge = "branch=$(printf '%s' \"$prompt\" | sed -n 's/.*of branch `\\([^`]*\\)`.*/\\1/p' | head -n 1)\n\
            git merge -q --no-edit \"origin/$branch\"";
        format!(
            "prompt=$(cat)\ncase \"$prompt\" in\n*'Child jobs of this job'*) {merge};;\n\
             *'Make part.txt'*) echo part > part.txt;;\n*) echo own > own.txt; {call};;\nesac\n"
        )
    };
    let mut fleet = fleet_with_script("", &tools, script);
    // Met by the subtask, and by the job only with the work of the subtask.
    let manifest = "---\ntitle: Both parts\nrepo: work\nbudget: { usd: 5 }\nverify: [test -f part.txt]\n---\nDo it.\n";
    fleet.machine.write("job.md", manifest);

    let submitted = fleet.json(&["submit", "job.md", "--wait"]);
    let job = submitted[0]["job"]["id"].as_str().unwrap();
    let answers = answers_in(&fleet.json(&["logs", job, "--run", "1"]));
    let shown = fleet.json(&["job", job]).remove(0);
    let runs = shown["runs"].as_array().unwrap();

    assert_eq!(submitted.last().unwrap()["stage"], "testing", "{submitted:?}\n{answers:?}\n{runs:?}");
    assert!(answers[0].starts_with("created subtask ") && answers[0].contains("reserved: $2.00"), "{answers:?}");
    assert!(answers[1].starts_with("subtask ") && answers[1].contains(" exists, "), "{answers:?}");
    assert!(answers[2].contains("$3.00 of the job's budget is left"), "{answers:?}");
    assert!(answers[3].contains(" Part one (") && answers[3].contains("money $3.00"), "{answers:?}");
    assert!(answers[4].starts_with("parked, stop now. Your work is saved as "), "{answers:?}");
    assert_eq!(shown["job"]["tree"]["children"][0]["title"], "Part one", "{shown:#}");
    let outcomes: Vec<&Value> = runs.iter().map(|run| &run["outcome"]).collect();
    assert_eq!(outcomes, ["awaited_subtasks", "completed"], "{runs:?}");
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [B11] [I3]
#[test]
fn the_socket_of_a_run_answers_no_stranger_and_ends_with_the_lease() {
    let mut fleet = fleet_with_agent("", &[("get_context", json!({}))], "sleep 600");
    let submitted = fleet.json(&["submit", "job.md"]);
    let job = submitted[0]["job"]["id"].as_str().unwrap();
    fleet.until("an answer", || !answers(&fleet, job).is_empty());
    let found = Command::new("find").arg(fleet.machine.path()).args(["-name", "run.sock"]).output().unwrap();
    let socket = String::from_utf8(found.stdout).unwrap().trim().to_owned();

    let is_open = || std::os::unix::net::UnixStream::connect(&socket).is_ok();
    let was_open = is_open();
    let stranger = fleet.machine.giga(&["mcp", "--run", &socket]);
    fleet.json(&["cancel", job]);
    fleet.until("the end of the socket", || !is_open());

    assert!(was_open, "{socket}");
    assert_eq!(stranger.code, Some(1), "{}", stranger.stderr);
    assert!(fleet.machine.read("long-lived.log").contains("Refused a program that is not of job"));
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}
