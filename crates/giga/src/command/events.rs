//! `giga events`

use std::time::Duration;

use client::{Client, FeedItem};
use domain::{EventCursor, EventKind, Generation, JobEvent, JobId, Position, StageName};
use protocol::{EventList, ProgressEvent};
use serde_json::Value;

use crate::cli::EventsArgs;
use crate::failure::Failure;
use crate::output::{Tint, clean};

use super::follow::EventFollower;
use super::titles::Titles;
use super::{Context, activity, job_id};
use client::Query;

/// The last events may be about jobs that we may not see: a replay is also over when nothing has come for this long.
const REPLAY_SILENCE: Duration = Duration::from_secs(1);

/// Events read at once.
const PAGE: &str = "1000";

/// Shows what happens, or what has happened.
pub(super) async fn events(context: &Context<'_>, args: EventsArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let id = match &args.id {
        Some(id) => Some(job_id::find(&client, id).await?),
        None => None,
    };
    let path = id.map_or_else(|| "/events/stream".to_owned(), |id| format!("/jobs/{id}/events/stream"));
    match (id, args.follow) {
        (_, true) => follow(context, &client, path).await,
        (Some(id), false) => {
            let events = all_of(&client, id).await?;
            let left_out = events.len().saturating_sub(args.limit);
            let mut titles = Titles::new(&client);
            for event in events.iter().skip(left_out) {
                show(context, &mut titles, &serde_json::json!(event), Some(event)).await?;
            }
            Ok(())
        }
        (None, false) => replay(context, &client, path, args.limit).await,
    }
}

async fn follow(context: &Context<'_>, client: &Client, path: String) -> Result<(), Failure> {
    let mut stream = EventFollower::open(context, client, path, None).await?;
    let mut titles = Titles::new(client);
    loop {
        match stream.next().await? {
            FeedItem::Event { json, event } => show(context, &mut titles, &json, event.as_deref()).await?,
            FeedItem::Progress(news) => show_doing(context, &mut titles, &news).await?,
            FeedItem::Reset => context.out.note("events may be missing here: the coordinator dropped some"),
            FeedItem::Reconnected => context.out.note("reconnected"),
            FeedItem::Lost { .. } => {}
        }
    }
}

async fn replay(context: &Context<'_>, client: &Client, path: String, limit: usize) -> Result<(), Failure> {
    let end = log_end(client, &path).await?;
    let position = end.position.0.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX));
    let begin = EventCursor { position: Position(position), ..end };
    let mut stream = EventFollower::open(context, client, path, Some(begin.to_string())).await?;
    let mut titles = Titles::new(client);
    let mut is_empty = true;
    while place(stream.position()).position < end.position {
        let Ok(news) = tokio::time::timeout(REPLAY_SILENCE, stream.next()).await else { break };
        match news? {
            FeedItem::Event { json, event } => {
                is_empty = false;
                show(context, &mut titles, &json, event.as_deref()).await?;
            }
            FeedItem::Progress(_) => {}
            FeedItem::Reset | FeedItem::Reconnected | FeedItem::Lost { .. } => break,
        }
    }
    if is_empty {
        context.out.note("no events yet");
    }
    Ok(())
}

/// The end of the log: the first message of a stream contains it.
async fn log_end(client: &Client, path: &str) -> Result<EventCursor, Failure> {
    let mut stream = client.events(path, None).await?;
    let hello = stream.next().await?;
    Ok(place(hello.and_then(|hello| hello.id).as_deref()))
}

fn place(id: Option<&str>) -> EventCursor {
    let start = EventCursor { generation: Generation(0), position: Position(0) };
    id.and_then(|id| id.parse().ok()).unwrap_or(start)
}

/// Every event of a job, oldest first.
pub(super) async fn all_of(client: &Client, id: JobId) -> Result<Vec<JobEvent>, Failure> {
    let mut events = Vec::new();
    let mut after = None;
    loop {
        let path = Query::new(format!("/jobs/{id}/events")).with("limit", PAGE).maybe("after", after);
        let page: EventList = client.get(path.as_str()).await?;
        events.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(events),
        }
    }
}

async fn show(
    context: &Context<'_>,
    titles: &mut Titles<'_>,
    json: &Value,
    event: Option<&JobEvent>,
) -> Result<(), Failure> {
    if context.out.is_json() {
        return context.out.document(json);
    }
    match event {
        Some(event) => {
            let label = titles.label(event.job_id).await;
            context.out.line(&line(context, event, &label))
        }
        None => context.out.line(&clean(&json.to_string())),
    }
}

async fn show_doing(context: &Context<'_>, titles: &mut Titles<'_>, news: &ProgressEvent) -> Result<(), Failure> {
    if context.out.is_json() {
        return context.out.document(news);
    }
    let stage = context.out.palette().paint(&format!("{:<11}", StageName::Building.as_str()), Tint::Faint);
    let words = clean(&activity::line(&news.progress));
    let label = clean(&titles.label(news.job_id).await);
    context.out.line(&format!("{}  {label}  {stage}  {words}", context.now()))
}

fn line(context: &Context<'_>, event: &JobEvent, label: &str) -> String {
    let stage = context.out.palette().paint(&format!("{:<11}", event.stage.as_str()), tint(event.kind));
    format!("{}  {}  {stage}  {}", event.at, clean(label), clean(&event.sentence()))
}

fn tint(kind: EventKind) -> Tint {
    match kind {
        EventKind::Completed | EventKind::Promoted | EventKind::Shipped | EventKind::Approved => Tint::Good,
        EventKind::Failed | EventKind::DeadLettered | EventKind::Rejected => Tint::Bad,
        EventKind::AttemptFailed
        | EventKind::ErrandFailed
        | EventKind::Escalated
        | EventKind::DependencyFailed
        | EventKind::Reaped
        | EventKind::DispatchExpired
        | EventKind::DispatchDeclined
        | EventKind::PreemptionRequested
        | EventKind::Preempted
        | EventKind::Restored
        | EventKind::Cancelled
        | EventKind::QuotaHit => Tint::Warn,
        _ => Tint::Faint,
    }
}
