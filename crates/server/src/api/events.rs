//! Event streams: replayed from any position, then live, without gaps or duplicates [J7].

use axum::extract::State;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use coordinator::{StreamItem, Subscriber};
use domain::{EventCursor, Generation, JobId, Position, StoredEvent};
use http::HeaderMap;
use protocol::{HelloEvent, Metrics, ProgressEvent, ResetReason, StreamEvent};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::build;
use crate::extract::{Id, QueryParams};
use crate::problem::Problem;
use crate::streaming::{self, Source};

/// The content type of event streams.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// A comment: it keeps the connection alive and has no meaning.
pub(super) const ALIVE: Bytes = Bytes::from_static(b": alive\n\n");

/// Where a stream begins.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// Resume after this event; the header `Last-Event-ID` takes precedence. Only new events when neither is given.
    #[param(value_type = Option<String>, pattern = r"^[0-9]{1,15}(\.[0-9]{1,15})?$", max_length = 31)]
    after: Option<EventCursor>,
}

/// The events of all jobs that the caller may see, as they happen.
///
/// Events named `job` have the event as JSON, with its cursor as `id`. `progress` has what the agent of a job is doing
/// now: it has no cursor, and only the latest of each job is sent. `hello` confirms that the stream is open; its `id` is
/// the cursor where it starts. `reset` means that events were missed, or that the store was restored from a backup and some
/// were undone: read the state again, the stream continues from its `id`.
///
/// `factory`, `alert`, `flags`, `metrics` and `needs` tell what changed in the fleet since the stream opened, once a second
/// at most. They have no cursor: a client that reconnects reads the state again.
#[utoipa::path(
    get, path = "/events/stream", tag = "jobs", params(StreamQuery),
    responses((status = 200, description = "Held open", body = StreamEvent, content_type = "text/event-stream")),
)]
pub(crate) async fn fleet(
    State(app): State<App>,
    Caller(who): Caller,
    QueryParams(asked): QueryParams<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let permit = app.streams.open(&who)?;
    let after = resume_after(&asked, &headers)?;
    let follower = app.coordinator.follow_fleet(&who, position(&app, after)).await?;
    Ok(streaming::hold(&app, permit, Events::new(&app, follower, after), EVENT_STREAM))
}

/// The events of one job, as they happen.
#[utoipa::path(
    get, path = "/jobs/{id}/events/stream", tag = "jobs",
    params(("id" = JobId, Path, description = "The job"), StreamQuery),
    responses((status = 200, description = "Held open", body = StreamEvent, content_type = "text/event-stream")),
)]
pub(crate) async fn of_job(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<JobId>,
    QueryParams(asked): QueryParams<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let scope = app.coordinator.job_scope(&who, id).await?;
    let permit = app.streams.open(&who)?;
    let after = resume_after(&asked, &headers)?;
    let follower = app.coordinator.follow(scope, position(&app, after)).await?;
    Ok(streaming::hold(&app, permit, Events::new(&app, follower, after), EVENT_STREAM))
}

fn resume_after(asked: &StreamQuery, headers: &HeaderMap) -> Result<Option<EventCursor>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(asked.after) };
    let mark = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    mark.map(Some).ok_or_else(|| Problem::invalid("`Last-Event-ID` is not an event cursor of this coordinator"))
}

/// A position in no log: a stream that resumes after it begins with a reset.
const NOWHERE: Position = Position(u64::MAX);

fn position(app: &App, after: Option<EventCursor>) -> Option<Position> {
    after.map(|mark| app.coordinator.position(mark).unwrap_or(NOWHERE))
}

struct Events {
    app: App,
    follower: Subscriber,
    after: Option<EventCursor>,
    generation: Generation,
    is_greeted: bool,
}

impl Events {
    fn new(app: &App, follower: Subscriber, after: Option<EventCursor>) -> Self {
        Self { app: app.clone(), follower, after, generation: app.coordinator.generation(), is_greeted: false }
    }

    fn hello(&self) -> HelloEvent {
        HelloEvent {
            keep_alive_seconds: self.app.limits.keep_alive_every.as_secs(),
            version: build::VERSION.to_owned(),
            build: build::id().to_owned(),
            name: build::coordinator_name().to_owned(),
        }
    }

    fn live_frames(&self, news: Vec<StreamEvent>) -> Bytes {
        let mut text = BytesMut::new();
        for event in news {
            let event = match event {
                StreamEvent::Metrics(metrics) => StreamEvent::Metrics(self.with_own_counters(metrics)),
                other => other,
            };
            write_event(&mut text, None, &event);
        }
        text.freeze()
    }

    fn with_own_counters(&self, metrics: Metrics) -> Metrics {
        Metrics { ignored_request_keys: self.app.request_schemas.ignored(), ..metrics }
    }

    fn mark(&self, position: Position) -> EventCursor {
        EventCursor { generation: self.generation, position }
    }

    /// Why a reader has to start over at `to`.
    fn reason(&self, to: Position) -> ResetReason {
        match self.after {
            Some(after) if after.generation != self.generation => ResetReason::Restored,
            Some(after) if after.position > to => ResetReason::Unknown,
            Some(_) | None => ResetReason::Behind,
        }
    }

    fn reset(&self, to: Position, reason: ResetReason) -> Bytes {
        frame(Some(self.mark(to)), "reset", &serde_json::json!({ "reason": reason }).to_string())
    }
}

impl Source for Events {
    async fn next(&mut self) -> Option<Bytes> {
        if !self.is_greeted {
            self.is_greeted = true;
            // A client that is disconnected before its first event resumes from here. A client that resumes gets no id:
            // its position may be unknown, and then it must not skip the reset.
            let id = self.after.is_none().then(|| self.mark(self.follower.position()));
            let mut text = BytesMut::new();
            write_event(&mut text, id, &StreamEvent::Hello(self.hello()));
            return Some(text.freeze());
        }
        Some(match self.follower.next().await? {
            StreamItem::Events(events) => frames(&events, self.generation),
            StreamItem::Progress(news) => progress_frames(&news),
            StreamItem::Live(news) => self.live_frames(news),
            StreamItem::Reset(to) => self.reset(to, self.reason(to)),
        })
    }

    fn keep_alive(&self) -> Option<Bytes> {
        Some(ALIVE)
    }

    fn too_slow(&self) -> Option<Bytes> {
        Some(self.reset(self.follower.position(), ResetReason::Slow))
    }
}

fn frames(events: &[StoredEvent], generation: Generation) -> Bytes {
    let len: usize = events.iter().map(|event| event.json.len() + FRAME_LEN).sum();
    let mut text = BytesMut::with_capacity(len);
    for event in events {
        let mark = EventCursor { generation, position: event.position };
        write_frame(&mut text, Some(mark), "job", &event.json_with_text());
    }
    text.freeze()
}

/// Progress frames have no position: a client that resumes does not miss them.
fn progress_frames(news: &[ProgressEvent]) -> Bytes {
    let mut text = BytesMut::new();
    for event in news {
        let json = serde_json::to_string(event).unwrap_or_default();
        write_frame(&mut text, None, "progress", &json);
    }
    text.freeze()
}

/// The approximate overhead of one event.
const FRAME_LEN: usize = 48;

/// One frame of an event stream.
pub(super) fn frame(id: Option<EventCursor>, event: &str, data: &str) -> Bytes {
    let mut text = BytesMut::with_capacity(data.len() + FRAME_LEN);
    write_frame(&mut text, id, event, data);
    text.freeze()
}

/// A frame with the event's own name and data.
fn write_event(text: &mut BytesMut, id: Option<EventCursor>, event: &StreamEvent) {
    let value = serde_json::to_value(event).unwrap_or_default();
    let name = value["event"].as_str().unwrap_or_default();
    write_frame(text, id, name, &value["data"].to_string());
}

fn write_frame(text: &mut BytesMut, id: Option<EventCursor>, event: &str, data: &str) {
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

    fn mark(position: u64) -> EventCursor {
        EventCursor { generation: Generation(0), position: Position(position) }
    }

    #[test]
    fn event_frames_round_trip() {
        let mut bytes = frame(Some(mark(7)), "job", "{\"a\":1}").to_vec();
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
    fn the_header_takes_precedence_over_the_query() {
        let mut headers = HeaderMap::new();
        let asked = StreamQuery { after: Some(mark(3)) };
        assert_eq!(resume_after(&asked, &headers).unwrap(), Some(mark(3)));

        headers.insert("last-event-id", "9".parse().unwrap());
        assert_eq!(resume_after(&asked, &headers).unwrap(), Some(mark(9)));

        headers.insert("last-event-id", "nine".parse().unwrap());
        assert!(resume_after(&asked, &headers).is_err());
    }
}
