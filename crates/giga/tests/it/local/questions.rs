//! A folder queue whose agent asks a question: `--once` does not wait for the answer.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::folder::Folder;
use crate::giga::Machine;

const JOB: &str = "---\ntitle: Some work\nrepo: work\nengines: [claude]\n---\nDo it.\n";

/// A queue whose engine imitates Claude Code: it prints these lines, and exits with this code.
fn with_agent(lines: &[&str], code: i32) -> Folder {
    let folder = Folder::new();
    let program = folder.path("agent");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '2.1.197 (Claude Code)'; exit 0; }}\ncat > /dev/null\n\
         cat <<'END'\n{}\nEND\nexit {code}\n",
        lines.join("\n")
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let engine = format!(
        "[factory.engines.claude]\nprogram = '{}'\nenvironment = {{ set = {{ ANTHROPIC_API_KEY = 'nobodys-key' }} }}\n",
        program.display()
    );
    let config = format!("{}{engine}", folder.read("giga.toml"));
    folder.write("giga.toml", &config);
    folder
}

const BEGINS: &str = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"claude-opus-4-8"}"#;

// [F8] [B6]
#[test]
fn a_job_that_asks_waits_in_the_inbox_and_once_says_what_it_wants_to_know() {
    let asks = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","name":"AskUserQuestion","input":{"question":"Which gate?"}}]}}"#;
    let ends =
        r#"{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.01,"result":"I have to ask."}"#;
    let folder = with_agent(&[BEGINS, asks, ends], 0);
    folder.drop_in("a.md", JOB);

    let ran = folder.once(&[]);

    assert_eq!((ran.code, folder.places()), (Some(1), vec![("inbox", "a.md".to_owned())]), "{}", ran.stderr);
    assert!(ran.stderr.contains("a.md: still waits: Which gate?"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: answer a question with `giga answer "), "{}", ran.stderr);
    let again = folder.once(&[]);
    assert!(again.code == Some(1) && again.stderr.contains("still waits: Which gate?"), "{}", again.stderr);
}

// [F8]
#[test]
fn once_makes_no_folder_of_a_name_that_is_not_there() {
    let machine = Machine::new();

    let ran = machine.giga(&["local", "quue", "--once"]);

    assert_eq!((ran.code, machine.path().join("quue").exists()), (Some(2), false), "{}", ran.stderr);
    assert!(ran.stderr.contains("error: no directory quue\n"), "{}", ran.stderr);
}

// [F8] [B9]
#[test]
fn a_login_that_is_refused_leaves_the_job_in_the_inbox_and_once_says_why() {
    let ends = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"total_cost_usd":0,"result":"Invalid API key"}"#;
    let folder = with_agent(&[BEGINS, ends], 1);
    folder.drop_in("a.md", JOB);

    let ran = folder.once(&[]);

    assert_eq!((ran.code, folder.places()), (Some(1), vec![("inbox", "a.md".to_owned())]), "{}", ran.stderr);
    assert!(ran.stderr.contains("`claude` on `here`: its login was refused: Invalid API key"), "{}", ran.stderr);
}
