//! `giga alerts`

use protocol::{Alert, AlertList};

use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age};

use super::Context;

/// Lists what needs an operator.
pub(super) async fn alerts(context: &Context<'_>) -> Result<(), Failure> {
    let alerts: AlertList = context.client()?.get("/alerts").await?;
    if context.out.is_json() {
        return context.out.document(&alerts);
    }
    let mut table = Table::new(&["ALERT", "SINCE", "ABOUT", "MESSAGE"], "MESSAGE");
    for alert in &alerts.items {
        let since = age(context.now(), alert.since);
        table.row(vec![
            Cell::tinted(code(alert), Tint::Warn),
            since.into(),
            about(alert).into(),
            context.out.with_flags(&alert.message).into(),
        ]);
    }
    if table.is_empty() {
        context.out.note("no alerts");
    }
    context.out.table(&table)
}

fn code(alert: &Alert) -> String {
    let code = serde_json::to_value(alert.code).ok();
    code.and_then(|code| code.as_str().map(str::to_owned)).unwrap_or_default()
}

fn about(alert: &Alert) -> String {
    match (alert.job_id, &alert.factory_id, alert.jobs) {
        (Some(job), _, _) => job.perhaps_titled(alert.job_title.as_deref()).to_string(),
        (None, Some(factory), _) => factory.to_string(),
        (None, None, Some(1)) => "1 job".to_owned(),
        (None, None, Some(jobs)) => format!("{jobs} jobs"),
        (None, None, None) => String::new(),
    }
}
