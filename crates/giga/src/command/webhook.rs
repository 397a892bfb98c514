//! `giga webhook`

use domain::WebhookName;
use protocol::{WebhookList, WebhookTestResponse, WebhookView};

use crate::cli::WebhookCommand;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age, clean};

use super::Context;

/// Runs a verb of `giga webhook`.
pub(super) async fn webhook(context: &Context<'_>, command: WebhookCommand) -> Result<(), Failure> {
    match command {
        WebhookCommand::List => list(context).await,
        WebhookCommand::Test { name } => test(context, &name).await,
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let webhooks: WebhookList = context.client()?.get("/webhooks").await?;
    if context.out.is_json() {
        return context.out.document(&webhooks);
    }
    let mut table = Table::new(&["WEBHOOK", "STATE", "EVENTS", "TO", "DELIVERED", "DROPPED", "LAST", "ERROR"], "ERROR");
    for one in &webhooks.items {
        table.row(vec![
            one.name.as_str().into(),
            state(one),
            one.events.join(" ").into(),
            format!("{} ({})", one.address, one.format.name()).into(),
            one.delivered.to_string().into(),
            one.dropped.to_string().into(),
            one.last_delivery_at.map_or_else(|| "-".to_owned(), |at| age(context.now(), at)).into(),
            clean(one.error.as_deref().unwrap_or("-")).into(),
        ]);
    }
    if table.is_empty() {
        context.out.note("the coordinator has no webhooks: configure them in its giga.toml, as [webhooks.NAME]");
    }
    context.out.table(&table)
}

fn state(webhook: &WebhookView) -> Cell {
    match (webhook.failures, webhook.delivered) {
        (0, 0) => Cell::from("unused"),
        (0, _) => Cell::tinted("ok", Tint::Good),
        _ => Cell::tinted("failing", Tint::Bad),
    }
}

async fn test(context: &Context<'_>, name: &WebhookName) -> Result<(), Failure> {
    let path = format!("/webhooks/{name}/test");
    let tested: WebhookTestResponse = context.client()?.post(&path, &serde_json::json!({})).await?;
    if context.out.is_json() {
        context.out.document(&tested)?;
    } else if tested.delivered {
        context.out.line(&format!("{name} took delivery {}", clean(&tested.delivery_id)))?;
    }
    match tested.error {
        None => Ok(()),
        Some(error) => Err(Failure::failed(format!("{name} was not delivered: {}", clean(&error)))
            .hint("check the address in the coordinator's giga.toml, and the receiver")),
    }
}
