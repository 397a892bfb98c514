//! `giga gc`

use std::path::PathBuf;

use factory::{GcItem, GcReport};
use serde::Serialize;

use crate::cli::GcArgs;
use crate::failure::Failure;
use crate::fleet;
use crate::output::{Cell, Table, Tint};

use super::Context;

/// What a clean-up of one factory's folder did.
#[derive(Serialize)]
struct Cleaned {
    state: PathBuf,
    #[serde(flatten)]
    report: GcReport,
}

/// Cleans up after every factory of this machine.
pub(super) async fn gc(context: &Context<'_>, args: &GcArgs) -> Result<(), Failure> {
    let mut cleaned = Vec::new();
    for (state, gc) in fleet::clean_ups(&context.config, &context.client()?)? {
        let report = if args.dry_run { gc.dry_run().await } else { gc.run().await };
        let report = report
            .map_err(|error| anyhow::Error::from(error).context(format!("cannot clean up {}", state.display())))?;
        cleaned.push(Cleaned { state, report });
    }
    if context.out.is_json() {
        return context.out.document(&cleaned);
    }
    if cleaned.is_empty() {
        context.out.note("no factory has worked on this machine: there is nothing to clean up");
    }
    cleaned.iter().try_for_each(|one| show(context, one))
}

fn show(context: &Context<'_>, cleaned: &Cleaned) -> Result<(), Failure> {
    let report = &cleaned.report;
    let (gone, tint) = if report.dry_run { ("would go", Tint::Warn) } else { ("gone", Tint::Good) };
    let mut table = Table::new(&["", "KIND", "NAME", "SIZE", "WHY"], "WHY");
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
    if !table.is_empty() {
        context.out.table(&table)?;
    }
    let (verb, count) = (if report.dry_run { "could be freed" } else { "freed" }, report.removed.len());
    context.out.note(&format!(
        "{}: {} {verb}, {count} removed, {} kept",
        cleaned.state.display(),
        size(report.freed_bytes),
        report.kept.len()
    ));
    Ok(())
}

/// A size as people read it.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => {
            let tenths = bytes.saturating_mul(10) / unit;
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_read_at_a_glance() {
        assert_eq!(
            [0, 1023, 1536, 5 << 20, (3 << 30) + (1 << 29)].map(size),
            ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.5 GiB"]
        );
    }
}
