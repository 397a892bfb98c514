//! A fake coordinator that returns the responses that a test sets.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A listener with a script of answers. Each is given once, to the first request that it fits.
pub(crate) struct Coordinator {
    api: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    script: VecDeque<(String, Answer)>,
    seen: Vec<String>,
}

/// What is answered.
#[derive(Clone)]
pub(crate) struct Answer {
    status: u16,
    kind: &'static str,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self { status, kind: "application/json", body: body.to_string().into_bytes() }
    }

    /// A stream that brings these bytes and is then cut.
    pub(crate) fn stream(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, kind: "text/event-stream", body: body.into() }
    }

    /// A refusal as coordinators give them.
    pub(crate) fn problem(status: u16, code: &str, detail: &str) -> Self {
        let kind = format!("urn:gigafactory:problem:{code}");
        let problem = serde_json::json!({
            "type": kind, "title": code, "status": status, "detail": detail, "code": code,
        });
        Self::json(status, &problem)
    }
}

impl Coordinator {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let api = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || answer(&connection, &shared));
            }
        });
        Self { api, state }
    }

    pub(crate) fn api(&self) -> &str {
        &self.api
    }

    /// Answers a request that begins with `request`, such as `GET /jobs`, once.
    pub(crate) fn expect(&self, request: &str, answer: Answer) -> &Self {
        let (method, path) = request.split_once(' ').unwrap();
        let prefix = if path.starts_with("/healthz") { "" } else { "/api/fleet" };
        self.state.lock().unwrap().script.push_back((format!("{method} {prefix}{path}"), answer));
        self
    }

    /// The requests that came, with the headers that matter.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.state.lock().unwrap().seen.clone()
    }
}

/// The tokens that it proves to have issued.
const TOKENS: [&str; 2] = ["giga_adm_x", "x"];

fn answer(connection: &TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(connection);
    while serve(&mut reader, connection, state) {}
}

/// Answers one request; whether the connection goes on.
fn serve(reader: &mut BufReader<&TcpStream>, mut connection: &TcpStream, state: &Mutex<State>) -> bool {
    let mut first = String::new();
    if reader.read_line(&mut first).is_err() || first.is_empty() {
        return false;
    }
    let mut request = first.trim().trim_end_matches(" HTTP/1.1").to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        match line.split_once(": ") {
            None => break,
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("last-event-id", value)) => request.push_str(&format!(" after {value}")),
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    if request.starts_with("POST /api/fleet/identity") {
        let challenge: protocol::IdentityChallenge = serde_json::from_slice(&body).unwrap();
        let digests = TOKENS.map(protocol::TokenDigest::of);
        let digest = digests.iter().find(|digest| digest.lookup() == challenge.token).unwrap();
        let proof = serde_json::to_string(&digest.prove(&challenge)).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", proof.len());
        return connection.write_all((head + &proof).as_bytes()).is_ok();
    }
    let answer = next_answer(state, request);
    let head = format!(
        "HTTP/1.1 {} X\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len()
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(&answer.body).unwrap();
    false
}

fn next_answer(state: &Mutex<State>, request: String) -> Answer {
    let mut state = state.lock().unwrap();
    let found = state.script.iter().position(|(expected, _)| request.starts_with(expected.as_str()));
    let answer = found.and_then(|at| state.script.remove(at)).map(|(_, answer)| answer);
    state.seen.push(request);
    answer.unwrap_or_else(|| Answer::problem(404, "no_such_route", "the test did not expect this"))
}
