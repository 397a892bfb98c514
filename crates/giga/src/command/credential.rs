//! `giga credential`

use protocol::{CredentialList, ResumeCredential};

use crate::cli::CredentialCommand;
use crate::failure::Failure;
use crate::output::{Table, age, clean};

use super::Context;

/// Runs a verb of `giga credential`.
pub(super) async fn credential(context: &Context<'_>, command: CredentialCommand) -> Result<(), Failure> {
    match command {
        CredentialCommand::List => list(context).await,
        CredentialCommand::Resume { id } => resume(context, id).await,
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let credentials: CredentialList = context.client()?.get("/credentials").await?;
    if context.out.is_json() {
        return context.out.document(&credentials);
    }
    let mut table = Table::new(&["CREDENTIAL", "ENGINE", "LIMIT", "SINCE", "AVAILABLE", "FACTORIES"], "FACTORIES");
    for one in &credentials.items {
        let available = match one.until {
            Some(until) => until.to_the_minute().to_string(),
            None if one.exhausted => "no credit left".to_owned(),
            None => "when resumed".to_owned(),
        };
        let factories: Vec<&str> = one.factories.iter().map(domain::FactoryId::as_str).collect();
        table.row(vec![
            one.credential.as_str().into(),
            one.engine.as_str().into(),
            one.window.as_deref().unwrap_or_default().into(),
            age(context.now(), one.since).into(),
            available.into(),
            factories.join(" ").into(),
        ]);
    }
    if table.is_empty() {
        context.out.note("no credential has reached its usage limit");
    }
    context.out.table(&table)
}

async fn resume(context: &Context<'_>, credential: String) -> Result<(), Failure> {
    let request = ResumeCredential { credential };
    let remaining: CredentialList = context.client()?.post("/credentials/resume", &request).await?;
    if context.out.is_json() {
        return context.out.document(&remaining);
    }
    context.out.line(&format!("{} is resumed", clean(&request.credential)))
}
