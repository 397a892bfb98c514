//! `giga explain`

use domain::StageName;
use protocol::JobExplanation;
use scheduler::{ExplainedOutcome, Unplaced};

use crate::failure::Failure;
use crate::output::{clean, clock_time};

use super::{Context, forecast, job_id, status, wait};

/// Explains the stage and the placement of a job.
pub(super) async fn explain(context: &Context<'_>, id: &str) -> Result<(), Failure> {
    let client = context.client()?;
    let id = job_id::find(&client, id).await?;
    let explained: JobExplanation = client.get(&format!("/jobs/{id}/explain")).await?;
    let out = context.out;
    if out.is_json() {
        return out.document(&explained);
    }
    let (stage, summary) = (explained.job.stage, clean(&explained.summary));
    let (label, word) = (clean(&explained.job.label().to_string()), status::stage_word(&explained.job));
    if stage.is_terminal() && summary == stage.as_str() {
        return out.line(&format!("{label} is {word}"));
    }
    out.line(&format!("{label} is {word}: {summary}"))?;
    if let Some(profile) = explained.job.profile.as_ref().filter(|profile| !profile.applied.is_empty()) {
        out.line(&format!("profile {}", clean(&profile.text())))?;
    }
    if let Some(decision) = &explained.decision {
        out.line(&format!("placed at {} UTC: {}", clock_time(decision.at), clean(&decision.text())))?;
    } else if let Some(target) = explained.then.as_ref().and_then(|then| then.data.get("targetFactoryId")?.as_str()) {
        let at = explained.then.as_ref().map_or_else(String::new, |then| clock_time(then.at));
        out.line(&format!("last offered to `{}` at {at} UTC", clean(target)))?;
    }
    if stage.is_terminal() {
        if stage != StageName::Shipped {
            out.note(&wait::after_failure(id.short()));
        }
        return Ok(());
    }
    let table = forecast::table(&explained.now);
    let is_starting = matches!(&explained.now.answer, ExplainedOutcome::Waits { why: Unplaced::Starting { .. }, .. });
    if table.is_empty() && is_starting {
        return Ok(());
    }
    if table.is_empty() {
        out.note("no factory is enrolled: start one with `giga factory run`");
    } else {
        out.line("\nIf it were scheduled now:")?;
    }
    if let Some(weights) = protocol::weights_text(&explained.now.weights) {
        out.line(&format!("weights of product {}: {weights}", explained.job.product_id))?;
    }
    out.table(&table)
}
