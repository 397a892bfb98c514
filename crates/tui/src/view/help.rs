//! The help of the current view.

use ratatui::text::Line;

use super::span;
use crate::look::Tint;
use crate::model::{Focus, Model, Page, Tab};
use crate::update::COMMANDS;

pub(super) fn lines(model: &Model) -> Vec<Line<'static>> {
    let look = model.look;
    let mut lines = Vec::new();
    let mut section = |title: &str, rows: &[(&str, &str)]| {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::from(span(format!(" {title}"), look.style(Tint::Accent))));
        for (key, text) in rows {
            lines.push(Line::from(vec![
                span(format!("   {key:<12}"), look.style(Tint::Strong)),
                span((*text).to_owned(), look.style(Tint::Plain)),
            ]));
        }
    };
    match (model.focus, model.detail.as_ref().map(|detail| detail.tab)) {
        (Focus::Detail, Some(Tab::Log)) => section("This log", &LOG),
        (Focus::Detail, _) => section("This job", &JOB),
        (Focus::List, _) => match model.page {
            Page::Needs => section("Needs me", &NEEDS),
            Page::Jobs => section("Jobs", &JOBS),
            Page::Factories => section("Factories", &FACTORIES),
            Page::Money => section("Money", &MONEY),
            Page::Dispatch => section("Dispatch", &DISPATCH),
            Page::Folder => section("Folder queue", &FOLDER),
        },
    }
    section("Everywhere", &ANYWHERE);
    let commands: Vec<(String, &str)> = COMMANDS.iter().map(|(name, text)| (format!(":{name}"), *text)).collect();
    let commands: Vec<(&str, &str)> = commands.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    section("Commands", &commands);
    let stages = domain::StageName::ALL.map(|stage| (look.stage_glyph(stage).to_string(), stage_text(stage)));
    let stages: Vec<(&str, &str)> = stages.iter().map(|(glyph, text)| (glyph.as_str(), *text)).collect();
    section("Stages", &stages);
    section("Times", &[("12m, 1h05", "how long it has been running"), ("12:04, Nov 17", "since when, in UTC")]);
    lines
}

fn stage_text(stage: domain::StageName) -> &'static str {
    use domain::StageName;
    match stage {
        StageName::Queued => "queued: waits for a seat",
        StageName::Blocked => "blocked: waits for other jobs or for an answer",
        StageName::Assigned => "assigned: a factory holds the lease",
        StageName::Building => "building: the agent is running",
        StageName::Review => "review: waits for reviewers",
        StageName::Testing => "testing: verified, ready to ship",
        StageName::Shipped => "shipped: merged",
        StageName::Failed => "failed, or cancelled",
        StageName::DeadLetter => "dead letter: given up until an operator acts",
    }
}

const ANYWHERE: [(&str, &str); 11] = [
    ("1-5, Tab", "pages"),
    ("a", "act: every action asks before it does anything"),
    (":", "command, Tab completes"),
    ("y", "copy the id to the clipboard of the terminal"),
    ("o", "open in the browser"),
    ("r", "read again; connect now while the coordinator is down"),
    ("Ctrl-E", "fold the header"),
    ("Ctrl-L", "draw the screen again"),
    ("Ctrl-Z", "suspend"),
    ("Esc", "back; clears marks, then the filter"),
    ("q", "back, then quit"),
];

const JOBS: [(&str, &str); 8] = [
    ("j k g G", "move; also arrows, PageUp, PageDown, Ctrl-D, Ctrl-U"),
    ("Enter", "open the job"),
    ("t l e d m", "its timeline, log, explanation, dependencies, manifest"),
    ("/", "filter: words, stage=review,testing, repo=, factory=, tag=, …"),
    ("Space", "mark, for an action on several jobs"),
    ("a", "ship, requeue, request changes, reject, cancel, answer, …"),
    (".", "show new jobs"),
    ("[ ]", "in a job: the previous and the next one"),
];

const NEEDS: [(&str, &str); 5] = [
    ("j k g G", "move"),
    ("Enter", "open the job or the factory"),
    ("a", "what can be done about it"),
    ("Space", "mark, for an action on several items"),
    ("/", "filter by words: question, review, dead letter, …"),
];

const FACTORIES: [(&str, &str); 4] = [
    ("j k g G", "move"),
    ("a", "drain: finish running jobs, accept no new ones; resume"),
    ("/", "filter by name, state or capability"),
    ("y", "copy the name"),
];

const MONEY: [(&str, &str); 4] = [
    ("j k g G", "move"),
    ("a", "pause or resume the product; set its ceiling"),
    ("/", "filter by name"),
    ("y", "copy the name"),
];

const DISPATCH: [(&str, &str); 5] = [
    ("a", "switch the mode; redrive or dismiss; resume a credential"),
    ("Enter", "open the dead-lettered job"),
    ("Space", "mark dead letters"),
    ("/", "filter by title, reason or message"),
    (":mode", "switch the dispatch mode"),
];

const FOLDER: [(&str, &str); 4] = [
    ("Enter", "open the job of the file"),
    ("a", "act on the job of the file"),
    ("t l e d m", "its timeline, log, explanation, dependencies, manifest"),
    ("/", "filter by name or folder"),
];

const JOB: [(&str, &str); 6] = [
    ("t l e d m", "timeline, log, explanation, dependencies, manifest"),
    ("Left, Right", "the part before, the part behind"),
    ("j k g G", "scroll"),
    ("a", "what can be done with it"),
    ("[ ]", "the previous and the next job of the list"),
    ("Esc, q", "back to the list"),
];

const LOG: [(&str, &str); 6] = [
    ("j k g G", "scroll; it follows again at the end"),
    ("f", "follow the output"),
    ("/", "search"),
    ("n N", "the match above, the match below"),
    ("w", "wrap long lines"),
    ("Esc, q", "back to the list"),
];
