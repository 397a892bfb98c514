//! Events as they happen: replayed from any position, then live, without gaps or repeats [J7].

use axum::extract::State;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use coordinator::{Followed, Follower, Principal};
use domain::{JobId, Position, Recorded, Scope};
use http::HeaderMap;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::caller::Caller;
use crate::extract::{Asked, Id};
use crate::held_open::{self, Source};
use crate::problem::Problem;

/// The kind of every event stream.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// A comment: it keeps the connection alive and means nothing.
pub(super) const ALIVE: Bytes = Bytes::from_static(b": alive\n\n");

/// Where a stream begins.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// Resume behind this event; the header `Last-Event-ID` goes before it. From now on when neither is given.
    after: Option<u64>,
}

/// The events of all jobs that the caller may see, as they happen.
///
/// Events named `job` carry the event as JSON, with its place in the log as `id`. `hello` says that the stream is open and, with
/// its `id`, where it begins. `reset` says that events were missed: read the state afresh, the stream goes on from its `id`.
#[utoipa::path(
    get, path = "/events/stream", tag = "jobs", params(StreamQuery),
    responses((status = 200, description = "Held open", body = String, content_type = "text/event-stream")),
)]
pub(crate) async fn fleet(
    State(app): State<App>,
    Caller(who): Caller,
    Asked(asked): Asked<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let scope = app.coordinator.fleet_scope(&who)?;
    follow(&app, &who, scope, resume_after(&asked, &headers)?).await
}

/// The events of one job, as they happen.
#[utoipa::path(
    get, path = "/jobs/{id}/events/stream", tag = "jobs",
    params(("id" = JobId, Path, description = "The job"), StreamQuery),
    responses((status = 200, description = "Held open", body = String, content_type = "text/event-stream")),
)]
pub(crate) async fn of_job(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    Asked(asked): Asked<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let scope = app.coordinator.job_scope(&who, id).await?;
    follow(&app, &who, scope, resume_after(&asked, &headers)?).await
}

fn resume_after(asked: &StreamQuery, headers: &HeaderMap) -> Result<Option<Position>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(asked.after.map(Position)) };
    let position = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    position.map(|after| Some(Position(after))).ok_or_else(|| Problem::invalid("`Last-Event-ID` is not one of ours"))
}

async fn follow(app: &App, who: &Principal, scope: Scope, after: Option<Position>) -> Result<Response, Problem> {
    let permit = app.streams.open(who)?;
    let follower = app.coordinator.follow(scope, after).await?;
    let events = Events { follower, after, is_greeted: false };
    Ok(held_open::hold(app, permit, events, EVENT_STREAM))
}

struct Events {
    follower: Follower,
    after: Option<Position>,
    is_greeted: bool,
}

impl Source for Events {
    async fn next(&mut self) -> Option<Bytes> {
        if !self.is_greeted {
            self.is_greeted = true;
            // A client that is cut off before its first event resumes from here. One that resumes already knows better:
            // its position may turn out to be unknown, and then the reset must not be skipped.
            let id = self.after.is_none().then(|| self.follower.position());
            return Some(frame(id, "hello", "{}"));
        }
        Some(match self.follower.next().await? {
            Followed::Events(events) => frames(&events),
            Followed::Reset(to) => {
                let is_unknown = self.after.is_some_and(|after| after > to);
                let reason = if is_unknown { r#"{"reason":"unknown"}"# } else { r#"{"reason":"behind"}"# };
                frame(Some(to), "reset", reason)
            }
        })
    }

    fn keep_alive(&self) -> Option<Bytes> {
        Some(ALIVE)
    }

    fn too_slow(&self) -> Option<Bytes> {
        Some(frame(Some(self.follower.position()), "reset", r#"{"reason":"slow"}"#))
    }
}

fn frames(events: &[Recorded]) -> Bytes {
    let len: usize = events.iter().map(|event| event.json.len() + FRAME_LEN).sum();
    let mut text = BytesMut::with_capacity(len);
    for event in events {
        write_frame(&mut text, Some(event.position), "job", &event.json);
    }
    text.freeze()
}

/// What surrounds the data of one event, about.
const FRAME_LEN: usize = 48;

/// One event of a stream.
pub(super) fn frame(id: Option<Position>, event: &str, data: &str) -> Bytes {
    let mut text = BytesMut::with_capacity(data.len() + FRAME_LEN);
    write_frame(&mut text, id, event, data);
    text.freeze()
}

fn write_frame(text: &mut BytesMut, id: Option<Position>, event: &str, data: &str) {
    if let Some(id) = id {
        text.put_slice(b"id: ");
        text.put_slice(id.to_string().as_bytes());
        text.put_u8(b'\n');
    }
    text.put_slice(b"event: ");
    text.put_slice(event.as_bytes());
    for line in data.split('\n') {
        text.put_slice(b"\ndata: ");
        text.put_slice(line.as_bytes());
    }
    text.put_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use protocol::{SseEvent, SseParser};

    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut bytes = frame(Some(Position(7)), "job", "{\"a\":1}").to_vec();
        bytes.extend_from_slice(&ALIVE);
        bytes.extend_from_slice(&frame(None, "hello", "two\nlines"));

        let mut read = Vec::new();
        SseParser::default().feed(&bytes, |event| read.push(event));

        let expected = vec![
            SseEvent { id: Some("7".into()), event: "job".into(), data: "{\"a\":1}".into() },
            SseEvent { id: Some("7".into()), event: "hello".into(), data: "two\nlines".into() },
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn the_header_goes_before_the_address() {
        let mut headers = HeaderMap::new();
        let asked = StreamQuery { after: Some(3) };
        assert_eq!(resume_after(&asked, &headers).unwrap(), Some(Position(3)));

        headers.insert("last-event-id", "9".parse().unwrap());
        assert_eq!(resume_after(&asked, &headers).unwrap(), Some(Position(9)));

        headers.insert("last-event-id", "nine".parse().unwrap());
        assert!(resume_after(&asked, &headers).is_err());
    }
}
