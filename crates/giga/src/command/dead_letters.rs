//! `giga dead-letters`

use protocol::DeadLetterList;

use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age};

use super::Context;
use super::query::Query;

/// A list that is read by a person.
const SHOWN_MAX: &str = "200";

/// Lists jobs that are out of the running.
pub(super) async fn dead_letters(context: &Context<'_>) -> Result<(), Failure> {
    let path = Query::new("/dead-letters").with("limit", SHOWN_MAX);
    let letters: DeadLetterList = context.client()?.get(path.as_str()).await?;
    if context.out.is_json() {
        return context.out.document(&letters);
    }
    let mut table = Table::new(&["ID", "TITLE", "REASON", "ATTEMPTS", "AGE", "MESSAGE"], "MESSAGE");
    for letter in &letters.items {
        let job = &letter.job;
        table.row(vec![
            job.id.to_string().into(),
            job.title.as_str().into(),
            Cell::tinted(letter.reason.name(), Tint::Bad),
            job.attempts.to_string().into(),
            age(context.now(), job.updated_at).into(),
            job.message.as_deref().unwrap_or_default().into(),
        ]);
    }
    context.out.table(&table)?;
    context.out.note(match table.is_empty() {
        true => "no dead letters",
        false => "send one round again with `giga requeue ID`",
    });
    Ok(())
}
