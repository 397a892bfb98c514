//! One job in full.

use domain::{JobEvent, Timestamp};
use protocol::{JobDetail, JobView, Progress};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{draw_lines, explain, jobs, log, paragraph, span, tree};
use crate::look::{Tint, stage_tint, stage_word};
use crate::model::{Detail, Focus, Model, Tab};
use crate::text::{columns, cut, one_line};
use crate::times::{clock_time, since};

pub(super) fn draw(model: &Model, detail: &Detail, area: Rect, screen: &mut Buffer) {
    let Some(full) = &detail.job else {
        let text = match (&detail.error, model.link_state().is_current()) {
            (Some(error), _) => format!("cannot be read: {error}"),
            (None, true) => "reading …".to_owned(),
            (None, false) => "not read yet: the coordinator does not answer".to_owned(),
        };
        draw_lines(&paragraph(&text, area.width, 1, model.look.style(Tint::Faint)), 0, area, screen);
        return;
    };
    let mut lines = head(model, full, area.width);
    lines.extend(attention(model, &full.job, area.width));
    lines.truncate(usize::from(area.height / 2).max(3));
    draw_lines(&lines, 0, area, screen);
    let used = u16::try_from(lines.len()).unwrap_or(area.height).min(area.height);
    let rest = Rect { y: area.y + used, height: area.height - used, ..area };
    if rest.height < 2 {
        return;
    }
    tabs(model, detail, Rect { height: 1, ..rest }, screen);
    if let Some(error) = &detail.error {
        let lines = paragraph(&format!("cannot be read: {error}"), area.width, 1, model.look.style(Tint::Bad));
        return draw_lines(&lines, 0, Rect { y: rest.y + 1, height: rest.height - 1, ..rest }, screen);
    }
    body(model, detail, full, Rect { y: rest.y + 1, height: rest.height - 1, ..rest }, screen);
}

fn body(model: &Model, detail: &Detail, full: &JobDetail, area: Rect, screen: &mut Buffer) {
    match detail.tab {
        Tab::Timeline => timeline(model, detail, area, screen),
        Tab::Log => log::draw(model, detail, area, screen),
        Tab::Explain => explain::draw(model, detail, area, screen),
        Tab::Dependencies => tree::draw(model, detail, area, screen),
        Tab::Manifest => {
            let lines = paragraph(&manifest(full), area.width, 1, model.look.style(Tint::Plain));
            draw_lines(&lines, detail.scroll, area, screen);
        }
    }
}

/// The manifest, and the persona that precedes its text in the prompt.
fn manifest(full: &JobDetail) -> String {
    match (&full.persona, &full.job.profile) {
        (Some(persona), Some(profile)) => {
            format!("{}\n\nPersona of {}:\n\n{persona}", full.body_md.trim_end(), profile.reference)
        }
        _ => full.body_md.clone(),
    }
}

fn tabs(model: &Model, detail: &Detail, area: Rect, screen: &mut Buffer) {
    let look = model.look;
    let has_focus = model.focus == Focus::Detail;
    let mut spans = Vec::new();
    for tab in Tab::ALL {
        let (key, title) = tab.label();
        let style = match (tab == detail.tab, has_focus) {
            (true, true) => look.selected(),
            (true, false) => look.style(Tint::Strong),
            (false, _) => look.style(Tint::Faint),
        };
        spans.push(span(format!(" {key} {title} "), style));
    }
    screen.set_line(area.x, area.y, &Line::from(spans), area.width);
}

/// The title and the facts, two to a line where they fit.
fn head(model: &Model, full: &JobDetail, width: u16) -> Vec<Line<'static>> {
    let (look, job) = (model.look, &full.job);
    let room = usize::from(width).saturating_sub(2);
    let stage = look.style(stage_tint(job.stage));
    let word = stage_word(job);
    let title = cut(&one_line(&job.title), room.saturating_sub(columns(word) + 5));
    let mut lines = vec![Line::from(vec![
        span(format!(" {} ", look.stage_glyph(job.stage)), stage),
        span(format!("{title}  "), look.style(Tint::Strong)),
        span(word, stage),
    ])];
    let facts = facts(model, full);
    let half = room / 2;
    let mut pending: Option<String> = None;
    for (name, value) in facts {
        let fact = format!("{name} {}", one_line(&value));
        let is_short = columns(&fact) < half;
        match pending.take() {
            Some(left) if is_short => {
                lines.push(Line::from(span(format!(" {left:<half$}{fact}"), look.style(Tint::Faint))));
            }
            Some(left) => {
                lines.push(Line::from(span(format!(" {left}"), look.style(Tint::Faint))));
                lines.push(Line::from(span(format!(" {}", cut(&fact, room)), look.style(Tint::Faint))));
            }
            None if is_short => pending = Some(fact),
            None => lines.push(Line::from(span(format!(" {}", cut(&fact, room)), look.style(Tint::Faint)))),
        }
    }
    lines.extend(pending.map(|left| Line::from(span(format!(" {left}"), look.style(Tint::Faint)))));
    lines
}

fn facts(model: &Model, full: &JobDetail) -> Vec<(&'static str, String)> {
    let job = &full.job;
    let base = job.base.as_ref().map_or_else(String::new, |base| format!(" on {base}"));
    let holder = job.holder_factory_id.as_ref().map(|id| {
        let run = job.run.as_ref().map_or_else(String::new, |run| format!(", run {}", run.n));
        format!("{id}{run}, {}", jobs::age(model, job))
    });
    let runs = match job.runs {
        0 => None,
        runs => {
            let lost = if job.lost_leases > 0 {
                format!(", {}", domain::counted(job.lost_leases, "lost lease"))
            } else {
                String::new()
            };
            Some(format!("{runs}, {} failed{lost}", job.attempts))
        }
    };
    let facts = [
        ("id", Some(job.id.short().to_string())),
        ("product", Some(job.product_id.to_string())),
        ("priority", Some(job.priority.name().to_owned())),
        ("repo", job.repo.as_ref().map(|repo| format!("{repo}{base}"))),
        ("factory", holder),
        ("offered to", job.target_factory_id.as_ref().map(ToString::to_string)),
        ("profile", job.profile.as_ref().map(protocol::JobProfile::text)),
        ("pinned to", job.pin.as_ref().map(ToString::to_string)),
        ("runs", runs),
        ("cost", jobs::cost(model, job).map(domain::dollars)),
        ("submitted", Some(format!("{} by {}", since(model.now, job.created_at), job.created_by))),
        ("checkpoint", job.checkpoint.as_ref().map(|saved| saved.sha.to_string().chars().take(10).collect())),
        ("pull request", job.pull_request.as_ref().map(|request| request.url.clone())),
        (
            "item",
            job.item.as_ref().map(|item| item.url.clone().unwrap_or_else(|| format!("{}:{}", item.source, item.key))),
        ),
        ("artifacts", (job.artifacts > 0).then(|| job.artifacts.to_string())),
        ("needs", some_list(&job.capabilities)),
        ("tags", some_list(&job.tags)),
    ];
    facts.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

fn some_list<T: ToString>(items: &[T]) -> Option<String> {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// What the job does, waits for or asks, below its facts.
fn attention(model: &Model, job: &JobView, width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    let progress = model.detail.as_ref().and_then(|detail| detail.job.as_ref()).and_then(|full| full.progress.as_ref());
    let (text, tint) = match (&job.question, progress) {
        (Some(question), _) => (format!("asks: {question}  (a: answer)"), Tint::Warn),
        (None, Some(progress)) if job.run.is_some() => (activity(progress), Tint::Busy),
        (None, _) => (jobs::reason(job), if job.stage.is_terminal() { stage_tint(job.stage) } else { Tint::Accent }),
    };
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut lines = paragraph(&text, width, 1, look.style(tint));
    lines.truncate(6);
    lines
}

/// What an agent is doing, and what it has used so far.
fn activity(progress: &Progress) -> String {
    let tokens = [progress.tokens_in, progress.tokens_out].into_iter().flatten().reduce(u64::saturating_add);
    let used = [
        progress.turns.map(|turns| domain::counted(turns, "turn")),
        progress.tool_calls.map(|calls| domain::counted(calls, "tool call")),
        tokens.map(|tokens| format!("{} tokens", domain::grouped(tokens))),
        progress.cost_usd.map(domain::dollars),
    ];
    let used: Vec<String> = used.into_iter().flatten().collect();
    let doing = progress.doing.clone().unwrap_or_else(|| "at work".to_owned());
    if used.is_empty() { doing } else { format!("{doing} ({})", used.join(", ")) }
}

/// The events, with the texts that the coordinator gave them.
fn timeline(model: &Model, detail: &Detail, area: Rect, screen: &mut Buffer) {
    let look = model.look;
    let mut lines = Vec::new();
    let mut day = String::new();
    for event in &detail.events {
        let date = date_of(event.at);
        if date != day {
            if date != date_of(model.now) || !day.is_empty() {
                lines.push(Line::from(span(format!(" {date}"), look.style(Tint::Faint))));
            }
            day = date;
        }
        lines.extend(event_lines(model, event, area.width));
    }
    if lines.is_empty() {
        lines.push(Line::from(span(" reading …", look.style(Tint::Faint))));
    }
    // The newest events are what one comes for: the start is a scroll away.
    let height = usize::from(area.height);
    let first = lines.len().saturating_sub(height);
    draw_lines(&lines, first.saturating_sub(detail.scroll.min(first)), area, screen);
}

fn date_of(at: Timestamp) -> String {
    at.to_string().get(..10).unwrap_or_default().to_owned()
}

fn event_lines(model: &Model, event: &JobEvent, width: u16) -> Vec<Line<'static>> {
    let look = model.look;
    let room = usize::from(width).saturating_sub(13).max(10);
    let texts = crate::text::wrap(&event.sentence(), room);
    let stage = look.style(stage_tint(event.stage));
    texts
        .into_iter()
        .enumerate()
        .map(|(at, text)| match at {
            0 => Line::from(vec![
                span(format!(" {} ", clock_time(event.at)), look.style(Tint::Faint)),
                span(format!("{} ", look.stage_glyph(event.stage)), stage),
                span(text, look.style(Tint::Plain)),
            ]),
            _ => Line::from(span(format!("{:12}{text}", ""), look.style(Tint::Plain))),
        })
        .collect()
}
