//! `giga gc`

mod summary;

use std::path::PathBuf;

use serde::Serialize;
use workspace::{GcItem, GcReport};

use crate::cli::GcArgs;
use crate::compose;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, size};

use super::Context;

use summary::groups;

/// The result of a clean-up of one factory's directory.
#[derive(Serialize)]
struct GcSummary {
    state: PathBuf,
    #[serde(flatten)]
    report: GcReport,
}

/// Cleans up after every factory of this machine.
pub(super) async fn gc(context: &Context<'_>, args: &GcArgs) -> Result<(), Failure> {
    let mut cleaned = Vec::new();
    for (state, gc) in compose::clean_ups(&context.config, || context.client())? {
        let report = if args.dry_run { gc.dry_run().await } else { gc.run().await };
        let report = report
            .map_err(|error| anyhow::Error::from(error).context(format!("cannot clean up {}", state.display())))?;
        cleaned.push(GcSummary { state, report });
    }
    if context.out.is_json() {
        return context.out.document(&cleaned);
    }
    if cleaned.is_empty() {
        context.out.note("no factory has run on this machine: nothing to clean up");
    }
    cleaned.iter().try_for_each(|one| show(context, one))
}

fn show(context: &Context<'_>, cleaned: &GcSummary) -> Result<(), Failure> {
    let (out, report) = (context.out, &cleaned.report);
    let is_cut = !out.is_verbose() && summarize(context, report)?;
    if out.is_verbose() {
        list(context, report)?;
    }
    let (freed, removed) = if report.dry_run { ("could be freed", "would go") } else { ("freed", "removed") };
    let more = if is_cut { "; --verbose names them all" } else { "" };
    out.note(&format!(
        "{}: {} {freed}, {} {removed}, {} kept{more}",
        cleaned.state.display(),
        size(report.freed_bytes),
        report.removed.len(),
        report.kept.len()
    ));
    Ok(())
}

/// What was removed, and its description.
fn gone(report: &GcReport) -> (&'static str, Tint) {
    if report.dry_run { ("would go", Tint::Warn) } else { ("gone", Tint::Good) }
}

/// By kind and reason; whether names are left out.
fn summarize(context: &Context<'_>, report: &GcReport) -> Result<bool, Failure> {
    let (out, (gone, tint)) = (context.out, gone(report));
    let mut is_cut = false;
    for (word, tint, items) in [(gone, Some(tint), &report.removed), ("kept", None, &report.kept)] {
        let label = format!("{word:<width$}", width = gone.len());
        let label = tint.map_or_else(|| label.clone(), |tint| out.palette().paint(&label, tint));
        for group in groups(items) {
            out.line(&format!("{label}  {}", group.heading()))?;
            for name in group.names() {
                let name = out.palette().paint(&name, Tint::Faint);
                out.line(&format!("{:indent$}{name}", "", indent = gone.len() + 4))?;
            }
            is_cut |= group.is_cut();
        }
    }
    Ok(is_cut)
}

/// Everything, one by one.
fn list(context: &Context<'_>, report: &GcReport) -> Result<(), Failure> {
    let (gone, tint) = gone(report);
    let mut table = Table::new(&["STATE", "KIND", "NAME", "SIZE", "WHY"], "WHY");
    let mut row = |state: Cell, item: &GcItem| {
        let bytes = if item.bytes == 0 { String::new() } else { size(item.bytes) };
        table.row(vec![
            state,
            item.kind.name().into(),
            item.name.as_str().into(),
            bytes.into(),
            item.why.as_str().into(),
        ]);
    };
    for item in &report.removed {
        row(Cell::tinted(gone, tint), item);
    }
    for item in &report.kept {
        row("kept".into(), item);
    }
    context.out.table(&table)
}
