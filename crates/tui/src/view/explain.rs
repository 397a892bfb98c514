//! Why a job is where it is: first in words, then every factory.

use protocol::JobExplanation;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use scheduler::{ExplainedOutcome, FactoryFit};

use super::{draw_lines, paragraph, span};
use crate::look::Tint;
use crate::model::{Detail, Model};
use crate::times::clock_time;

pub(super) fn draw(model: &Model, detail: &Detail, area: Rect, screen: &mut Buffer) {
    let lines = match &detail.explanation {
        Some(explanation) => lines(model, explanation, area.width),
        None => vec![Line::from(span(" reading …", model.look.style(Tint::Faint)))],
    };
    draw_lines(&lines, detail.scroll, area, screen);
}

fn lines(model: &Model, explanation: &JobExplanation, width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    let mut lines = paragraph(&explanation.summary, width, 1, look.style(Tint::Strong));
    if let Some(decision) = &explanation.decision {
        let placed = format!("placed at {} UTC: {}", clock_time(decision.at), decision.text());
        lines.extend(paragraph(&placed, width, 1, look.style(Tint::Faint)));
    } else if let Some(then) = &explanation.then {
        let offered = format!("{} at {} UTC", then.sentence(), clock_time(then.at));
        lines.extend(paragraph(&offered, width, 1, look.style(Tint::Faint)));
    }
    if explanation.job.stage.is_terminal() {
        return lines;
    }
    lines.push(Line::default());
    let now = &explanation.now;
    let (text, tint) = match &now.answer {
        ExplainedOutcome::Goes { .. } => (now.text.clone(), Tint::Good),
        ExplainedOutcome::Waits { unplaceable: true, .. } => {
            (format!("no factory can run it: {}", now.text), Tint::Warn)
        }
        ExplainedOutcome::Waits { .. } => (format!("waits: {}", now.text), Tint::Plain),
    };
    lines.extend(paragraph(&format!("if it were scheduled now: {text}"), width, 1, look.style(tint)));
    if let Some(weights) = protocol::weights_text(&now.weights) {
        let weights = format!("weights of product {}: {weights}", explanation.job.product_id);
        lines.extend(paragraph(&weights, width, 1, look.style(Tint::Faint)));
    }
    lines.push(Line::default());
    let mut fits: Vec<&FactoryFit> = now.factories.iter().collect();
    fits.sort_by_key(|fit| (fit.rank.unwrap_or(u32::MAX), &fit.factory));
    if fits.is_empty() {
        lines.push(Line::from(span(" no factory is enrolled", look.style(Tint::Warn))));
    }
    for fit in fits {
        lines.extend(fit_lines(model, fit, width));
    }
    lines
}

fn fit_lines(model: &Model, fit: &FactoryFit, width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    let rank = fit.rank.map_or_else(|| "–".to_owned(), |rank| rank.to_string());
    let (verdict, tint) = match (fit.eligible, fit.avoided) {
        (true, false) => ("eligible".to_owned(), Tint::Good),
        (true, true) => ("eligible as a last resort (it failed here before)".to_owned(), Tint::Warn),
        (false, _) => {
            let reasons: Vec<String> = fit.unfit.iter().map(ToString::to_string).collect();
            (format!("no: {}", reasons.join("; ")), Tint::Warn)
        }
    };
    let mut lines = vec![Line::from(vec![
        span(format!(" {rank:>2} "), look.style(Tint::Faint)),
        span(format!("{} ", fit.factory), look.style(Tint::Strong)),
        span(format!("{:.2}", fit.score.total), look.style(Tint::Plain)),
    ])];
    lines.extend(paragraph(&verdict, width, 4, look.style(tint)));
    if fit.eligible {
        let score = &fit.score;
        // Adding zero makes a negative zero an ordinary one.
        let terms = format!(
            "fit {:.2}  affinity {:.2}  idle {:.2}  cost {:.2}  health {:.2}  wait {:.2}",
            score.capability_fit,
            score.affinity,
            score.idleness,
            score.cost_fit,
            score.health,
            0.0 - score.starvation_penalty
        );
        lines.extend(paragraph(&terms, width, 4, look.style(Tint::Faint)));
    }
    lines
}
