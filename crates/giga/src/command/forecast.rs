//! Where a job can run, as a sentence and as a table.

use scheduler::{ExplainedOutcome, Explanation, FactoryFit};

use crate::output::{Cell, Table, Tint, clean};

/// Where it can run, or what is missing and the remedy, in one line.
pub(super) fn sentence(forecast: &Explanation) -> String {
    match &forecast.answer {
        ExplainedOutcome::Goes { .. } => clean(&forecast.text),
        ExplainedOutcome::Waits { unplaceable: true, .. } => {
            format!("no factory can run it: {}", clean(&forecast.text))
        }
        ExplainedOutcome::Waits { .. } => format!("waits: {}", clean(&forecast.text)),
    }
}

/// Whether an operator has to act before it can run.
pub(crate) fn is_stuck(forecast: &Explanation) -> bool {
    matches!(forecast.answer, ExplainedOutcome::Waits { unplaceable: true, .. })
}

/// Every factory with its score or why it is not eligible, the best first.
pub(super) fn table(forecast: &Explanation) -> Table {
    let mut fits: Vec<&FactoryFit> = forecast.factories.iter().collect();
    fits.sort_by_key(|fit| (fit.rank.unwrap_or(u32::MAX), &fit.factory));
    let headings = ["FACTORY", "RANK", "SCORE", "FIT", "AFFINITY", "IDLE", "COST", "HEALTH", "WAIT", "VERDICT"];
    let mut table = Table::new(&headings, "VERDICT");
    for fit in fits {
        let score = &fit.score;
        let terms = [
            score.total,
            score.capability_fit,
            score.affinity,
            score.idleness,
            score.cost_fit,
            score.health,
            -score.starvation_penalty,
        ];
        let mut row: Vec<Cell> =
            vec![fit.factory.as_str().into(), fit.rank.map_or_else(String::new, |rank| rank.to_string()).into()];
        // Adding zero makes the one negative zero that a term can be an ordinary one.
        row.extend(terms.map(|term| Cell::from(format!("{:.2}", term + 0.0))));
        row.push(verdict(fit));
        table.row(row);
    }
    table
}

fn verdict(fit: &FactoryFit) -> Cell {
    if !fit.eligible {
        let reasons: Vec<String> = fit.unfit.iter().map(ToString::to_string).collect();
        return Cell::tinted(format!("no: {}", reasons.join("; ")), Tint::Warn);
    }
    let text = if fit.avoided { "yes, as a last resort (it failed here before)" } else { "yes" };
    Cell::tinted(text, Tint::Good)
}
