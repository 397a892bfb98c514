//! `giga tracker`

use protocol::{EchoRequest, RejectedItem, TrackerItemView, TrackerList, TrackerSourceView};

use crate::cli::TrackerCommand;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age, clean};

use super::Context;
use super::job_id;

/// Runs a verb of `giga tracker`.
pub(super) async fn tracker(context: &Context<'_>, command: TrackerCommand) -> Result<(), Failure> {
    match command {
        TrackerCommand::List => list(context).await,
        TrackerCommand::Echo { id } => echo(context, &id).await,
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let trackers: TrackerList = context.client()?.get("/tracker").await?;
    if context.out.is_json() {
        return context.out.document(&trackers);
    }
    let mut sources = Table::new(&["TRACKER", "STATUS", "LABEL", "DELIVERIES", "LAST", "ERROR"], "ERROR");
    for source in &trackers.sources {
        sources.row(vec![
            source.name.as_str().into(),
            status(source),
            clean(source.label.as_deref().unwrap_or("-")).into(),
            source.deliveries.to_string().into(),
            source.last_delivery_at.map_or_else(|| "-".to_owned(), |at| age(context.now(), at)).into(),
            clean(source.error.as_deref().unwrap_or("-")).into(),
        ]);
    }
    if sources.is_empty() {
        context.out.note("the coordinator has no trackers: configure them in its giga.toml, as [tracker.github]");
    }
    context.out.table(&sources)?;
    if !trackers.rejected.is_empty() {
        context.out.line("")?;
        context.out.table(&rejected(context, &trackers.rejected))?;
    }
    if trackers.items.is_empty() {
        return Ok(());
    }
    context.out.line("")?;
    let mut items = Table::new(&["ITEM", "JOB", "STAGE", "AGE", "TITLE", "ERROR"], "TITLE");
    for item in &trackers.items {
        items.row(vec![
            format!("{}:{}", item.item.source, clean(&item.item.key)).into(),
            item.job_id.short().to_string().into(),
            item.stage.map_or_else(|| "closed".to_owned(), |stage| stage.to_string()).into(),
            age(context.now(), item.created_at).into(),
            clean(&item.title).into(),
            clean(item.error.as_deref().unwrap_or("-")).into(),
        ]);
    }
    context.out.table(&items)
}

/// The items that became no job.
fn rejected(context: &Context<'_>, items: &[RejectedItem]) -> Table {
    let mut table = Table::new(&["BECAME NO JOB", "AGE", "WHY"], "WHY");
    for item in items {
        table.row(vec![
            Cell::tinted(format!("{}:{}", item.source, clean(&item.key)), Tint::Bad),
            age(context.now(), item.at).into(),
            clean(&item.error).into(),
        ]);
    }
    table
}

fn status(source: &TrackerSourceView) -> Cell {
    match (source.shows_status, source.failures) {
        (false, _) => Cell::from("not shown"),
        (true, 0) => Cell::tinted("shown", Tint::Good),
        (true, _) => Cell::tinted("failing", Tint::Bad),
    }
}

async fn echo(context: &Context<'_>, id: &str) -> Result<(), Failure> {
    let client = context.client()?;
    let job_id = job_id::find(&client, id).await?;
    let item: TrackerItemView = client.post("/tracker/echo", &EchoRequest { job_id }).await?;
    if context.out.is_json() {
        return context.out.document(&item);
    }
    let (source, key) = (&item.item.source, clean(&item.item.key));
    match (&item.error, item.shown_at) {
        (None, Some(_)) => context.out.line(&format!("{source}:{key} shows the status of job {}", job_id.short())),
        (error, _) => {
            let why = error.as_deref().map_or_else(|| "it is sent in a moment".to_owned(), clean);
            Err(Failure::failed(format!(
                "{source}:{key} does not show the status of job {} yet: {why}",
                job_id.short()
            )))
        }
    }
}
