//! What a message does to the model, and what it asks for. No I/O.

mod actions;
mod answers;
mod command;
mod keys;
mod stream;

use std::time::Duration;

use domain::Timestamp;

use crate::layout::{layout, list_height};
use crate::message::{Effect, LogPiece, Msg, Request};
use crate::model::{Detail, Focus, LinkState, Log, Model, Page, Tab};

pub(crate) use actions::{button, mode_text};
pub(crate) use command::{COMMANDS, completions};

/// Between two reads of the lists while there is no stream.
const POLL_EVERY: Duration = Duration::from_secs(5);

/// A cursor that stays this long on a row wants its detail.
const REST: Duration = Duration::from_millis(150);

/// Changes are collected for this long before they are read.
const COLLECT: Duration = Duration::from_millis(250);

/// Ages are shown in minutes.
const AGE_EVERY: Duration = Duration::from_secs(10);

/// Applies a message.
pub(crate) fn update(model: &mut Model, msg: Msg) -> Vec<Effect> {
    let mut effects = match msg {
        Msg::Clock(now) => return clock(model, now),
        Msg::Key(key) => keys::pressed(model, key),
        Msg::Paste(text) => keys::pasted(model, &text),
        Msg::Resize(width, height) => {
            model.size = (width, height);
            Vec::new()
        }
        Msg::Stream(news) => stream::received(model, news),
        Msg::Answer(answer) => answers::received(model, *answer),
        Msg::Acted(acted) => actions::ended(model, &acted),
        Msg::Log(msg) => {
            let log = model.detail.as_mut().and_then(|detail| detail.log.as_mut());
            if let Some(log) = log.filter(|log| log.opening == msg.opening) {
                match msg.piece {
                    LogPiece::Text(text) => log.append(&text),
                    LogPiece::End => (log.has_ended, log.is_loaded) = (true, true),
                    LogPiece::Failed(why) => (log.error, log.is_loaded) = (Some(why), true),
                }
            }
            Vec::new()
        }
        Msg::Folder(listing) => {
            if let Some(folder) = &mut model.folder {
                match listing {
                    Ok(listing) => folder.replace(listing),
                    Err(why) => folder.error = Some(why),
                }
            }
            Vec::new()
        }
        Msg::Note(text) => {
            model.tell(text);
            Vec::new()
        }
    };
    effects.extend(settle(model));
    effects
}

/// What the passing of time brings.
fn clock(model: &mut Model, now: Timestamp) -> Vec<Effect> {
    model.now = now;
    let mut effects = Vec::new();
    if model.changes_at.is_some_and(|at| at <= now) {
        model.changes_at = None;
        effects.extend(stream::reread(model));
    }
    if !model.link.is_open() && model.poll_at <= now {
        model.poll_at = now.after(POLL_EVERY);
        if model.link_state() == LinkState::Polling {
            effects.extend(reads(model));
        }
        if model.folder.is_some() {
            effects.push(Effect::ListFolder);
        }
    }
    effects.extend(read_detail(model));
    effects
}

/// When the model wants to know the time next; `None` if nothing that is shown depends on it.
pub(crate) fn next_clock(model: &Model) -> Option<Duration> {
    let until = |at: Timestamp| at.since(model.now).max(Duration::from_millis(10));
    let due = model.detail.as_ref().and_then(|detail| detail.due_at);
    let soon = [model.changes_at, due].into_iter().flatten().map(until).min();
    let slow = match (model.link.is_open(), model.has_running_jobs()) {
        (false, _) => Some(Duration::from_secs(1)),
        (true, true) => Some(AGE_EVERY),
        (true, false) => None,
    };
    [soon, slow].into_iter().flatten().min()
}

/// Everything that the pages show, read again.
pub(crate) fn reads(model: &mut Model) -> Vec<Effect> {
    let mut requests = vec![Request::Metrics, Request::Factories, Request::Pools, Request::Needs, Request::Flags];
    requests.push(jobs_request(model));
    if model.page == Page::Dispatch || model.dispatch.is_loaded {
        requests.extend([Request::DeadLetters, Request::Credentials, Request::History, Request::Divergence]);
    }
    if model.page == Page::Money || model.money.is_loaded {
        requests.push(Request::Budgets);
    }
    let mut effects: Vec<Effect> = requests.into_iter().map(Effect::Read).collect();
    if let Some(detail) = &mut model.detail {
        detail.due_at = Some(model.now);
    }
    effects.extend(read_detail(model));
    effects
}

/// The list of jobs, as long as it is shown.
pub(crate) fn jobs_request(model: &Model) -> Request {
    let limit = model.jobs.len().next_multiple_of(crate::model::PAGE_LEN).clamp(crate::model::PAGE_LEN, 1_000);
    Request::Jobs { query: format!("?limit={limit}{}", model.jobs.filter.query()), cursor: None }
}

/// Opens a page.
pub(crate) fn open_page(model: &mut Model, page: Page) -> Vec<Effect> {
    let mut effects = close_detail(model);
    model.page = page;
    if page == Page::Dispatch {
        let lists = [Request::DeadLetters, Request::Credentials];
        effects.extend(lists.map(Effect::Read));
        effects.extend([Request::Flags, Request::History, Request::Divergence].map(Effect::Read));
    }
    if page == Page::Money {
        effects.push(Effect::Read(Request::Budgets));
    }
    if page == Page::Folder {
        effects.push(Effect::ListFolder);
    }
    effects
}

/// Shows a job in full, with the keys.
pub(crate) fn open_job(model: &mut Model, id: domain::JobId, tab: Tab) -> Vec<Effect> {
    let mut effects = Vec::new();
    if model.detail.as_ref().is_none_or(|detail| detail.id != id) {
        effects.extend(close_log(model));
        model.detail = Some(Detail::new(id, tab, model.now));
    }
    model.focus = Focus::Detail;
    effects.extend(open_tab(model, tab));
    effects.extend(read_detail(model));
    effects
}

/// Shows another part of the job.
pub(crate) fn open_tab(model: &mut Model, tab: Tab) -> Vec<Effect> {
    let mut effects = Vec::new();
    if tab != Tab::Log {
        effects.extend(close_log(model));
    }
    let Some(detail) = &mut model.detail else { return effects };
    if detail.tab != tab {
        detail.scroll = 0;
    }
    detail.tab = tab;
    if detail.due_at.is_none() {
        effects.extend(read_tab(model));
    }
    effects
}

/// Back to the list.
pub(crate) fn close_detail(model: &mut Model) -> Vec<Effect> {
    let effects = close_log(model);
    model.focus = Focus::List;
    model.detail = None;
    effects
}

fn close_log(model: &mut Model) -> Vec<Effect> {
    let open = model.detail.as_mut().and_then(|detail| detail.log.take());
    open.map(|_| Effect::CloseLog).into_iter().collect()
}

/// Reads the detail when it is due.
fn read_detail(model: &mut Model) -> Vec<Effect> {
    let now = model.now;
    let Some(detail) = model.detail.as_mut().filter(|detail| detail.due_at.is_some_and(|at| at <= now)) else {
        return Vec::new();
    };
    detail.due_at = None;
    let id = detail.id;
    let mut effects = vec![Effect::Read(Request::Job(id)), Effect::Read(Request::Events { job: id, after: None })];
    effects.extend(read_tab(model));
    effects
}

fn read_tab(model: &mut Model) -> Vec<Effect> {
    let Some(detail) = &mut model.detail else { return Vec::new() };
    match detail.tab {
        Tab::Timeline | Tab::Manifest => Vec::new(),
        Tab::Explain => vec![Effect::Read(Request::Explain(detail.id))],
        Tab::Dependencies => vec![Effect::Read(Request::Dag(detail.id))],
        Tab::Log if detail.log.as_ref().is_some_and(|log| log.error.is_none()) => Vec::new(),
        Tab::Log => {
            model.log_openings += 1;
            detail.log = Some(Log::opened(model.log_openings));
            vec![Effect::OpenLog { job: detail.id, opening: model.log_openings }]
        }
    }
}

/// Keeps the cursor in view and the detail beside it.
fn settle(model: &mut Model) -> Vec<Effect> {
    let (count, height) = (model.row_count(), list_height(model));
    if layout(model).list.is_some() {
        model.cursor_mut().reveal(count, height);
    }
    let mut effects = Vec::new();
    if model.focus == Focus::List {
        let wanted = model.selected_job().filter(|_| model.is_wide() && model.page.has_jobs());
        let shown = model.detail.as_ref().map(|detail| detail.id);
        if wanted != shown {
            let tab = model.detail.as_ref().map_or(Tab::Timeline, |detail| detail.tab);
            effects.extend(close_log(model));
            model.detail = wanted.map(|id| Detail::new(id, tab, model.now.after(REST)));
        }
    }
    effects.extend(next_page(model, height));
    effects
}

/// Reads more jobs before the cursor reaches the end of the list.
fn next_page(model: &mut Model, height: usize) -> Option<Effect> {
    if model.page != Page::Jobs || model.jobs.is_extending || model.jobs.typed.is_some() {
        return None;
    }
    let cursor = model.jobs.next.clone()?;
    if model.jobs.cursor.selected + 2 * height < model.jobs.len() {
        return None;
    }
    model.jobs.is_extending = true;
    let query = format!("?limit={}{}", crate::model::PAGE_LEN, model.jobs.filter.query());
    Some(Effect::Read(Request::Jobs { query, cursor: Some(cursor) }))
}

/// Has changed jobs read soon.
pub(crate) fn collect_changes(model: &mut Model) {
    let at = model.now.after(COLLECT);
    model.changes_at.get_or_insert(at);
}
