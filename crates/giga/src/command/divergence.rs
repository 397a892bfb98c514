//! `giga divergence`

use protocol::{Divergence, DivergenceReport, ShadowLag, ShadowSummary};

use crate::cli::DivergenceArgs;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age};

use super::Context;

/// Shows how push mode compares with polling.
pub(super) async fn divergence(context: &Context<'_>, args: DivergenceArgs) -> Result<(), Failure> {
    let report: DivergenceReport = context.client()?.get("/divergence").await?;
    if context.out.is_json() {
        return context.out.document(&report);
    }
    if report.products.is_empty() {
        context.out.note("nothing is compared; `giga mode shadow` compares push mode with polling");
    }
    let mut table = Table::new(
        &["PRODUCT", "MODE", "HOURS", "DECISIONS", "SAME", "OTHER", "DIVERGENT", "MISSING", "LAG", "VERDICT"],
        "VERDICT",
    );
    for product in &report.products {
        let mode = if product.compared { product.mode.to_string() } else { format!("{} (ended)", product.mode) };
        table.row(row(product.product_id.as_str().into(), mode.into(), &product.summary));
    }
    if report.products.len() > 1 {
        table.row(row("(all)".into(), "".into(), &report.summary));
    }
    context.out.table(&table)?;
    let shown = &report.divergences[..report.divergences.len().min(args.limit)];
    if shown.is_empty() {
        return Ok(());
    }
    context.out.line("")?;
    context.out.table(&differences(context, shown))?;
    let hidden = report.divergences.len() - shown.len();
    if hidden > 0 {
        context.out.note(&format!("{hidden} older ones: `giga divergence --limit {}`", report.divergences.len()));
    }
    Ok(())
}

fn row(product: Cell, mode: Cell, summary: &ShadowSummary) -> Vec<Cell> {
    let counts = &summary.counts;
    let number = |count: u64| match count {
        0 => Cell::from("0"),
        count => Cell::tinted(count.to_string(), Tint::Bad),
    };
    let verdict = Cell::tinted(&summary.verdict.text, if summary.verdict.safe { Tint::Good } else { Tint::Warn });
    vec![
        product,
        mode,
        summary.hours.to_string().into(),
        summary.decisions.to_string().into(),
        counts.same.to_string().into(),
        counts.other_eligible.to_string().into(),
        number(summary.divergent),
        number(counts.missing),
        summary.lag.map_or_else(String::new, lag_text).into(),
        verdict,
    ]
}

fn lag_text(lag: ShadowLag) -> String {
    format!("{}/{} ms", lag.p50_ms, lag.p99_ms)
}

fn differences(context: &Context<'_>, divergences: &[Divergence]) -> Table {
    let mut table = Table::new(&["AGE", "KIND", "JOB", "POLL", "PUSH"], "PUSH");
    for one in divergences {
        table.row(vec![
            age(context.now(), one.at).into(),
            one.kind.as_str().into(),
            one.job_id.short().to_string().into(),
            one.poll.as_str().into(),
            one.push.as_str().into(),
        ]);
    }
    table
}
