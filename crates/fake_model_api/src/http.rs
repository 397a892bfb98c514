//! Minimal HTTP/1.1: one request and one response per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// A received request.
pub(crate) struct Incoming {
    pub(crate) method: String,
    /// Without its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

/// A request holds a whole conversation; those of tests are far shorter.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self { status, kind: "application/json", headers: Vec::new(), body: body.to_string() }
    }

    /// A server-sent event stream; each event is named by its `type`.
    pub(crate) fn events(events: &[Value]) -> Self {
        let body = events.iter().map(|event| {
            let name = event["type"].as_str().unwrap_or_default();
            format!("event: {name}\ndata: {event}\n\n")
        });
        Self { status: 200, kind: "text/event-stream", headers: Vec::new(), body: body.collect() }
    }
}

pub(crate) fn read(connection: &TcpStream) -> io::Result<Incoming> {
    let mut reader = BufReader::new(connection);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0_usize);
    if length > BODY_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let path = target.split('?').next().unwrap_or_default().to_owned();
    Ok(Incoming { method, path, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
}

pub(crate) fn write(mut connection: &TcpStream, answer: &Answer) -> io::Result<()> {
    let Answer { status, kind, headers, body } = answer;
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{more}connection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes())?;
    connection.write_all(body.as_bytes())
}
