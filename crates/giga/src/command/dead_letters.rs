//! `giga dead-letters`

use protocol::{ActionRequest, DeadLetterList, JobView};

use crate::cli::DeadLettersCommand;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age, clean};

use super::{Context, job_id};
use client::Query;

/// A list for users.
const SHOWN_MAX: &str = "200";

/// Lists dead-lettered jobs, or dismisses some.
pub(super) async fn dead_letters(context: &Context<'_>, command: Option<DeadLettersCommand>) -> Result<(), Failure> {
    match command {
        Some(DeadLettersCommand::Dismiss { ids, message }) => dismiss(context, &ids, message).await,
        None => list(context).await,
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let path = Query::new("/dead-letters").with("limit", SHOWN_MAX);
    let letters: DeadLetterList = context.client()?.get(path.as_str()).await?;
    if context.out.is_json() {
        return context.out.document(&letters);
    }
    let mut table = Table::new(&["ID", "TITLE", "REASON", "ATTEMPTS", "AGE", "MESSAGE"], "MESSAGE");
    for letter in &letters.items {
        let job = &letter.job;
        table.row(vec![
            job.id.short().to_string().into(),
            job.title.as_str().into(),
            Cell::tinted(letter.reason.name(), Tint::Bad),
            job.attempts.to_string().into(),
            age(context.now(), job.updated_at).into(),
            job.message.as_deref().unwrap_or_default().into(),
        ]);
    }
    context.out.table(&table)?;
    context.out.note(&match letters.items.first() {
        None => "no dead letters".to_owned(),
        Some(first) => format!(
            "requeue one with `giga requeue {id}`, or dismiss it with `giga dead-letters dismiss {id}`",
            id = first.job.id.short()
        ),
    });
    Ok(())
}

async fn dismiss(context: &Context<'_>, ids: &[String], message: Option<String>) -> Result<(), Failure> {
    let client = context.client()?;
    let ids = job_id::find_all(&client, ids).await?;
    let request = ActionRequest { message, ..ActionRequest::default() };
    for id in ids {
        let job: JobView = client.post(&format!("/dead-letters/{id}/dismiss"), &request).await?;
        match context.out.is_json() {
            true => context.out.document(&job)?,
            false => context.out.line(&format!("{}  dismissed  {}", job.id.short(), clean(&job.title)))?,
        }
    }
    Ok(())
}
