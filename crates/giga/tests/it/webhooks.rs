//! Outgoing webhooks from a real coordinator to a receiver on loopback [T6][D4].

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use hmac::{Hmac, KeyInit, Mac};
use rustix::process::Signal;
use serde_json::Value;
use sha2::Sha256;

use crate::fleet::Fleet;

const SECRET: &str = "canary-secret-of-the-board";

/// A part of the address that is a secret, as chats have it.
const PATH: &str = "/T0/canary-path";

/// One request: its headers in lower case, and its body.
#[derive(Debug, Clone)]
struct Received {
    headers: Vec<(String, String)>,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    fn event(&self) -> &str {
        self.header("x-giga-event")
    }

    /// What the sender would have sent with the secret.
    fn signature(&self) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(format!("{}.{}", self.header("x-giga-timestamp"), self.body).as_bytes());
        let digest: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256={digest}")
    }
}

/// Takes every request. Returns its port.
fn receiver() -> (u16, Arc<Mutex<Vec<Received>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let received: Arc<Mutex<Vec<Received>>> = Arc::default();
    let shared = Arc::clone(&received);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut reader = BufReader::new(&connection);
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                    break;
                }
                lines.push(line.trim().to_owned());
            }
            let headers = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
            let headers: Vec<_> = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
            let len =
                headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, len)| len.parse().unwrap());
            let mut body = vec![0; len];
            reader.read_exact(&mut body).unwrap();
            shared.lock().unwrap().push(Received { headers, body: String::from_utf8(body).unwrap() });
            let _ = (&connection).write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
        }
    });
    (port, received)
}

// [T6] [D4] [attack: secrets in logs, events, artifacts]
#[test]
fn jobs_and_alerts_arrive_signed_and_no_secret_is_shown() {
    let (port, received) = receiver();
    let mut fleet = Fleet::new();
    fleet.machine.write("board.secret", SECRET);
    fleet.machine.write("chat.url", &format!("http://127.0.0.1:{port}{PATH}"));
    for file in ["board.secret", "chat.url"] {
        std::fs::set_permissions(fleet.machine.path().join(file), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let webhooks = format!(
        "[webhooks.board]\nurl = 'http://127.0.0.1:{port}{PATH}'\nsecret_file = 'board.secret'\n\
         events = ['jobs', 'alerts']\nallow_loopback = true\n\
         [webhooks.chat]\nurl_file = 'chat.url'\nformat = 'slack'\nevents = ['job.failed']\nallow_loopback = true\n"
    );
    let config = fleet.machine.read("giga.toml") + &webhooks;
    fleet.machine.write("giga.toml", &config);
    let of = |event: &str| {
        let received = received.lock().unwrap().clone();
        received.into_iter().filter(|request| request.event() == event).collect::<Vec<_>>()
    };

    fleet.start_serving();
    let tested = fleet.json(&["webhook", "test", "board"]);
    let submitted = fleet.json(&["submit", "job.md"]);
    fleet.until("the alert", || !of("alert.raised").is_empty());
    let id = submitted[0]["job"]["id"].as_str().unwrap().to_owned();
    fleet.json(&["cancel", &id]);
    fleet.until("its end", || of("alert.cleared").len() == 1 && of("job.failed").len() == 2);
    let listed = fleet.machine.giga(&["webhook", "list", "--json"]);
    let doctor = fleet.machine.giga(&["doctor"]);
    let list = fleet.machine.giga(&["webhook", "list"]);
    fleet.end(Signal::TERM);

    assert_eq!((tested[0]["delivered"].clone(), of("test").len()), (Value::Bool(true), 1));
    assert_eq!(of("job.queued").len(), 1);
    let raised: Value = serde_json::from_str(&of("alert.raised")[0].body).unwrap();
    assert_eq!(raised["alert"]["code"], "no_live_factory");
    for request in received.lock().unwrap().iter().filter(|request| !request.header("x-giga-signature").is_empty()) {
        assert_eq!(request.header("x-giga-signature"), request.signature());
        let body: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!(body["id"], request.header("x-giga-delivery"));
    }
    let chat = of("job.failed").into_iter().find(|request| request.header("x-giga-signature").is_empty()).unwrap();
    let chat: Value = serde_json::from_str(&chat.body).unwrap();
    assert!(chat["text"].as_str().unwrap().contains("is failed: cancelled by"), "{chat}");
    assert!(doctor.stdout.contains("`board` sends alerts, jobs as json"), "{}", doctor.stdout);
    let shown =
        [doctor.stdout, doctor.stderr, listed.stdout, list.stdout, fleet.machine.read("long-lived.log")].concat();
    assert!(shown.contains("board") && !shown.contains("canary"), "{shown}");
}

// [T6]
#[test]
fn a_webhook_that_cannot_work_is_found_by_doctor_and_prevents_the_start() {
    let fleet = Fleet::new();
    let config = fleet.machine.read("giga.toml")
        + "[webhooks.board]\nurl = 'https://board.example/hook'\nsecret_file = 'nowhere.secret'\n\
           [tracker.sources.desk]\nwebhook_secret_file = 'empty.secret'\n";
    fleet.machine.write("giga.toml", &config);
    fleet.machine.write("empty.secret", "\n");

    let doctor = fleet.machine.giga(&["doctor"]);
    let serve = fleet.machine.giga(&["serve"]);

    assert_eq!((doctor.code, serve.code), (Some(1), Some(1)), "{}", serve.stderr);
    for text in ["`board`: cannot read", "`desk`: "] {
        assert!(doctor.stdout.contains(text), "{}", doctor.stdout);
    }
}
