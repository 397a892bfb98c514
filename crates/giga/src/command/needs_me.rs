//! `giga needs-me` and `giga dismiss`

use protocol::{DismissRequest, JobView, Need, NeedKind, NeedList};

use crate::cli::{DismissArgs, NeedsMeArgs};
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age, clean};

use super::{Context, job_id};
use client::Query;

/// Lists what needs the caller.
pub(super) async fn needs_me(context: &Context<'_>, args: NeedsMeArgs) -> Result<(), Failure> {
    let kinds: Vec<&str> = args.kinds.iter().map(|kind| kind.name()).collect();
    let product = context.config.client.product.value.as_ref();
    let path = Query::new("/needs-me")
        .with("limit", args.limit.to_string())
        .maybe("product", product.map(domain::ProductId::as_str))
        .maybe("kind", (!kinds.is_empty()).then(|| kinds.join(",")));
    let needs: NeedList = context.client()?.get(path.as_str()).await?;
    if context.out.is_json() {
        return context.out.document(&needs);
    }
    if needs.items.is_empty() {
        context.out.note("nothing needs you");
        return Ok(());
    }
    let mut table = Table::new(&["KIND", "AGE", "ABOUT", "WHAT", "REMEDY"], "WHAT").then_flexible("REMEDY");
    for need in &needs.items {
        table.row(vec![
            Cell::tinted(need.kind.name().replace('_', " "), tint(need.kind)),
            age(context.now(), need.at).into(),
            about(need).into(),
            need.text.as_str().into(),
            context.out.with_flags(&need.remedy).into(),
        ]);
    }
    context.out.table(&table)?;
    if needs.next.is_some() {
        context.out.note(&format!("{} of {}: --limit shows more", needs.items.len(), needs.total_text()));
    }
    Ok(())
}

fn about(need: &Need) -> String {
    match need.job_id {
        Some(job) => job.titled(&need.title).to_string(),
        None => need.title.clone(),
    }
}

fn tint(kind: NeedKind) -> Tint {
    match kind {
        NeedKind::DeadLetter | NeedKind::Failed | NeedKind::MergeFailed => Tint::Bad,
        NeedKind::ReadyToShip => Tint::Good,
        _ => Tint::Warn,
    }
}

/// Dismisses failed jobs.
pub(super) async fn dismiss(context: &Context<'_>, args: DismissArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let request = DismissRequest { message: args.message };
    for id in job_id::find_all(&client, &args.ids).await? {
        let dismissed = client.post(&format!("/jobs/{id}/dismiss"), &request).await;
        let job: JobView = dismissed.map_err(|error| {
            let hint = || "only failed and dead-lettered jobs can be dismissed".to_owned();
            Failure::from(error).hint_at("illegal_transition", hint)
        })?;
        match context.out.is_json() {
            true => context.out.document(&job)?,
            false => context.out.line(&format!("{}  dismissed  {}", job.id.short(), clean(&job.title)))?,
        }
    }
    Ok(())
}
