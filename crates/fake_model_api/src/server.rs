//! The listener and the requests that it received.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::http::{self, Answer, Incoming};
use crate::script::Turn;
use crate::{anthropic, login, openai};

/// A model API that follows a script. It listens until the process ends.
pub struct FakeModelApi {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// A request that an agent program sent to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The path without its query.
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The JSON body.
    pub body: Value,
}

struct State {
    script: VecDeque<Turn>,
    seen: Vec<Request>,
}

impl FakeModelApi {
    /// Starts to listen. After the script's end, every request gets its last turn.
    pub fn start(script: impl IntoIterator<Item = Turn>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { script: script.into_iter().collect(), seen: Vec::new() }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&connection, &shared));
            }
        });
        Ok(Self { address, state })
    }

    /// The base URL for agent programs.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests that followed the script, in order. Side requests, such as for a title, are left out.
    pub fn requests(&self) -> Vec<Request> {
        self.state.lock().seen.clone()
    }
}

fn serve(connection: &TcpStream, state: &Mutex<State>) {
    // Agent programs may drop a connection at any time.
    let Ok(request) = http::read(connection) else { return };
    let _ = http::write(connection, &answer(&request, state));
}

fn answer(request: &Incoming, state: &Mutex<State>) -> Answer {
    let respond: fn(&Turn, u64, &Value) -> Answer = match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/v1/messages") if anthropic::is_side_request(&request.body) => {
            return anthropic::answer_side_request(&request.body);
        }
        ("POST", "/v1/messages") => anthropic::respond,
        ("POST", "/v1/responses") => openai::respond,
        ("POST", "/oauth/token") => return login::refresh(&request.body),
        ("POST", "/v1/messages/count_tokens") => return Answer::json(200, &json!({ "input_tokens": 10 })),
        _ => return Answer::json(404, &json!({ "error": { "type": "not_found_error", "message": "not found" } })),
    };
    let (turn, number) = state.lock().next(request);
    respond(&turn, number, &request.body)
}

impl State {
    fn next(&mut self, request: &Incoming) -> (Turn, u64) {
        let Incoming { path, headers, body, .. } = request;
        self.seen.push(Request { path: path.clone(), headers: headers.clone(), body: body.clone() });
        let turn = if self.script.len() > 1 { self.script.pop_front() } else { self.script.front().cloned() };
        (turn.unwrap_or_else(|| Turn::text("There is no script.")), u64::try_from(self.seen.len()).unwrap_or(u64::MAX))
    }
}
