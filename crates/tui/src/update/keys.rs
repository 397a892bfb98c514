//! Keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::command::{self, set_filter, term_completions};
use super::{actions, close_detail, open_page, open_tab, reads};
use crate::layout::list_height;
use crate::message::Effect;
use crate::model::{Dialog, DispatchRow, Filter, Focus, Input, InputKind, LineEdit, Menu, Model, Overlay, Page, Tab};

pub(super) fn pressed(model: &mut Model, key: KeyEvent) -> Vec<Effect> {
    if key.kind == KeyEventKind::Release {
        return Vec::new();
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        match key.code {
            KeyCode::Char('c') => return vec![Effect::Quit],
            KeyCode::Char('z') => return vec![Effect::Suspend],
            KeyCode::Char('l') => return vec![Effect::Redraw],
            _ => {}
        }
    }
    model.note = None;
    match model.overlay.take() {
        Some(Overlay::Help { scroll }) => in_text(model, key, scroll, |scroll| Overlay::Help { scroll }),
        Some(Overlay::Outcomes { title, lines, scroll }) => {
            in_text(model, key, scroll, |scroll| Overlay::Outcomes { title, lines, scroll });
        }
        Some(Overlay::Menu(menu)) => in_menu(model, key, menu),
        Some(Overlay::Dialog(dialog)) => return in_dialog(model, key, dialog),
        Some(Overlay::Input(input)) => return in_input(model, key, input),
        None if model.focus == Focus::Detail => return in_detail(model, key),
        None => return in_list(model, key),
    }
    Vec::new()
}

pub(super) fn pasted(model: &mut Model, text: &str) -> Vec<Effect> {
    match &mut model.overlay {
        Some(Overlay::Dialog(dialog)) => dialog.line.insert(text),
        Some(Overlay::Input(input)) => input.line.insert(text),
        _ => {}
    }
    Vec::new()
}

fn in_text(model: &mut Model, key: KeyEvent, scroll: usize, overlay: impl FnOnce(usize) -> Overlay) {
    let by = match key.code {
        KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | '?') => return,
        KeyCode::Char('j') | KeyCode::Down => 1,
        KeyCode::Char('k') | KeyCode::Up => -1,
        KeyCode::PageDown | KeyCode::Char(' ') => 10,
        KeyCode::PageUp => -10,
        _ => 0,
    };
    model.overlay = Some(overlay(scroll.saturating_add_signed(by)));
}

fn in_menu(model: &mut Model, key: KeyEvent, mut menu: Menu) {
    let last = menu.items.len().saturating_sub(1);
    match key.code {
        KeyCode::Esc | KeyCode::Char('q') => return,
        KeyCode::Enter => {
            let row = menu.selected;
            return actions::choose(model, menu, row);
        }
        KeyCode::Down => menu.selected = (menu.selected + 1).min(last),
        KeyCode::Up => menu.selected = menu.selected.saturating_sub(1),
        KeyCode::Char(c) => {
            if let Some(row) = menu.items.iter().position(|item| item.key == c) {
                return actions::choose(model, menu, row);
            }
            match c {
                'j' => menu.selected = (menu.selected + 1).min(last),
                'k' => menu.selected = menu.selected.saturating_sub(1),
                _ => {}
            }
        }
        _ => {}
    }
    model.overlay = Some(Overlay::Menu(menu));
}

fn in_dialog(model: &mut Model, key: KeyEvent, mut dialog: Dialog) -> Vec<Effect> {
    match key.code {
        KeyCode::Esc => return Vec::new(),
        KeyCode::Enter => return actions::confirm(model, dialog),
        _ => {
            dialog.problem = None;
            if dialog.field != crate::model::Field::None {
                dialog.line.key(key);
            }
        }
    }
    model.overlay = Some(Overlay::Dialog(dialog));
    Vec::new()
}

fn in_input(model: &mut Model, key: KeyEvent, mut input: Input) -> Vec<Effect> {
    match key.code {
        KeyCode::Esc => {
            let before = std::mem::take(&mut input.before);
            return cancel_input(model, input.kind, &before);
        }
        KeyCode::Enter => return take_input(model, &input),
        KeyCode::Backspace if input.line.text().is_empty() => {
            let before = std::mem::take(&mut input.before);
            return cancel_input(model, input.kind, &before);
        }
        KeyCode::Tab => complete(model, &mut input),
        _ => drop(input.line.key(key)),
    }
    if input.kind == InputKind::Filter {
        narrow(model, &input.line.text());
    }
    model.overlay = Some(Overlay::Input(input));
    Vec::new()
}

/// Shows what the filter leaves while it is typed.
fn narrow(model: &mut Model, text: &str) {
    let filter = Filter::new(text);
    if model.page == Page::Jobs {
        model.jobs.typed = Some(filter);
    } else if let Some(current) = model.filter_mut() {
        *current = filter;
    }
    model.cursor_mut().selected = 0;
}

fn cancel_input(model: &mut Model, kind: InputKind, before: &str) -> Vec<Effect> {
    if kind == InputKind::Filter {
        model.jobs.typed = None;
        if let Some(current) = model.filter_mut() {
            *current = Filter::new(before);
        }
    }
    Vec::new()
}

fn take_input(model: &mut Model, input: &Input) -> Vec<Effect> {
    let text = input.line.text();
    match input.kind {
        InputKind::Command => command::run(model, &text),
        InputKind::Search => {
            if let Some(log) = model.detail.as_mut().and_then(|detail| detail.log.as_mut()) {
                log.search = text.trim().to_owned();
                if !log.find(true) && log.matches() == 0 && !log.search.is_empty() {
                    let missing = format!("`{}` is not in the lines that were read", log.search);
                    model.warn(missing);
                }
            }
            Vec::new()
        }
        InputKind::Filter => {
            model.jobs.typed = None;
            if model.page != Page::Jobs
                && let Some(current) = model.filter_mut()
            {
                *current = Filter::new(&input.before);
            }
            set_filter(model, &text)
        }
    }
}

/// Completes as far as all candidates agree.
fn complete(model: &Model, input: &mut Input) {
    let line = input.line.text();
    let candidates = match input.kind {
        InputKind::Command => command::completions(model, &line),
        InputKind::Filter if model.page == Page::Jobs => {
            let (before, word) = line
                .rsplit_once(' ')
                .map_or((String::new(), line.as_str()), |(before, word)| (format!("{before} "), word));
            term_completions(model, word).into_iter().map(|word| format!("{before}{word}")).collect()
        }
        InputKind::Filter | InputKind::Search => Vec::new(),
    };
    if let Some(common) = common_start(&candidates).filter(|common| common.len() > line.len()) {
        input.line = LineEdit::of(&common);
    } else if let [only] = candidates.as_slice()
        && !only.ends_with('=')
        && input.kind == InputKind::Command
    {
        input.line = LineEdit::of(&format!("{only} "));
    }
}

fn common_start(candidates: &[String]) -> Option<String> {
    let mut common = candidates.first()?.clone();
    for candidate in candidates {
        let shared = common.chars().zip(candidate.chars()).take_while(|(one, other)| one == other).count();
        common = common.chars().take(shared).collect();
    }
    Some(common)
}

fn input(model: &mut Model, kind: InputKind) {
    let before = match kind {
        InputKind::Filter => model.filter().text().to_owned(),
        InputKind::Command | InputKind::Search => String::new(),
    };
    let line = LineEdit::of(&before);
    model.overlay = Some(Overlay::Input(Input { kind, line, before }));
}

/// Keys that mean the same in a list and in a job.
fn anywhere(model: &mut Model, key: KeyEvent) -> Option<Vec<Effect>> {
    let pages = model.pages();
    let at = pages.iter().position(|page| *page == model.page).unwrap_or(0);
    let effects = match key.code {
        KeyCode::Char('e') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            model.is_folded = !model.is_folded;
            Vec::new()
        }
        KeyCode::Char(digit @ '1'..='5') => {
            let row = usize::try_from(u32::from(digit) - u32::from('1')).unwrap_or(0);
            pages.get(row).map_or_else(Vec::new, |page| open_page(model, *page))
        }
        KeyCode::Tab => open_page(model, pages[(at + 1) % pages.len()]),
        KeyCode::BackTab => open_page(model, pages[(at + pages.len() - 1) % pages.len()]),
        KeyCode::Char('?') => {
            model.overlay = Some(Overlay::Help { scroll: 0 });
            Vec::new()
        }
        KeyCode::Char(':') => {
            input(model, InputKind::Command);
            Vec::new()
        }
        KeyCode::Char('a') => {
            actions::open_menu(model);
            Vec::new()
        }
        KeyCode::Char('y') => copy(model),
        KeyCode::Char('o') => browse(model),
        KeyCode::Char('r') if !model.link.is_open() => {
            model.tell("connecting …");
            vec![Effect::Reconnect]
        }
        KeyCode::Char('r') => {
            model.tell("read again");
            reads(model)
        }
        _ => return None,
    };
    Some(effects)
}

fn in_list(model: &mut Model, key: KeyEvent) -> Vec<Effect> {
    if let Some(effects) = anywhere(model, key) {
        return effects;
    }
    let (count, height) = (model.row_count(), list_height(model));
    let page = isize::try_from(height.saturating_sub(1).max(1)).unwrap_or(10);
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('d') if control => model.cursor_mut().step(page / 2, count),
        KeyCode::Char('u') if control => model.cursor_mut().step(-page / 2, count),
        KeyCode::Char('j') | KeyCode::Down => model.cursor_mut().step(1, count),
        KeyCode::Char('k') | KeyCode::Up => model.cursor_mut().step(-1, count),
        KeyCode::PageDown => model.cursor_mut().step(page, count),
        KeyCode::PageUp => model.cursor_mut().step(-page, count),
        KeyCode::Char('g') | KeyCode::Home => to_top(model),
        KeyCode::Char('G') | KeyCode::End => model.cursor_mut().select(usize::MAX, count),
        KeyCode::Char('.') => to_top(model),
        KeyCode::Char('/') => input(model, InputKind::Filter),
        KeyCode::Char(' ') => mark(model),
        KeyCode::Enter | KeyCode::Right => return actions::open_selected(model, Tab::Timeline),
        KeyCode::Char(c) if tab_of(c).is_some() => {
            return actions::open_selected(model, tab_of(c).unwrap_or(Tab::Timeline));
        }
        KeyCode::Esc => return escape(model),
        KeyCode::Char('q') => return vec![Effect::Quit],
        _ => {}
    }
    Vec::new()
}

fn tab_of(key: char) -> Option<Tab> {
    Tab::ALL.into_iter().find(|tab| tab.label().0 == key)
}

fn to_top(model: &mut Model) {
    if model.page == Page::Jobs {
        model.jobs.show_unseen();
    }
    model.cursor_mut().selected = 0;
}

/// Takes back the last thing: marks, then the filter.
fn escape(model: &mut Model) -> Vec<Effect> {
    let had_marks = !(model.jobs.marks.is_empty() && model.needs.marks.is_empty() && model.dispatch.marks.is_empty());
    model.jobs.marks.clear();
    model.needs.marks.clear();
    model.dispatch.marks.clear();
    if had_marks || model.filter().is_empty() {
        return Vec::new();
    }
    set_filter(model, "")
}

fn mark(model: &mut Model) {
    let at = model.cursor().selected;
    match model.page {
        Page::Jobs => {
            let id = model.jobs.rows().get(at).map(|job| job.id);
            if let Some(id) = id
                && !model.jobs.marks.remove(&id)
            {
                model.jobs.marks.insert(id);
            }
        }
        Page::Needs => {
            let key = model.needs.rows().get(at).map(|item| item.key.clone());
            if let Some(key) = key
                && !model.needs.marks.remove(&key)
            {
                model.needs.marks.insert(key);
            }
        }
        Page::Dispatch => {
            let id = match model.dispatch.rows().get(at) {
                Some(DispatchRow::DeadLetter(letter)) => Some(letter.job.id),
                _ => None,
            };
            if let Some(id) = id
                && !model.dispatch.marks.remove(&id)
            {
                model.dispatch.marks.insert(id);
            }
        }
        Page::Factories | Page::Money | Page::Folder => return,
    }
    let count = model.row_count();
    model.cursor_mut().step(1, count);
}

fn in_detail(model: &mut Model, key: KeyEvent) -> Vec<Effect> {
    if let KeyCode::Char('/') = key.code
        && model.detail.as_ref().is_some_and(|detail| detail.tab == Tab::Log)
    {
        input(model, InputKind::Search);
        return Vec::new();
    }
    if let Some(effects) = anywhere(model, key) {
        return effects;
    }
    match key.code {
        KeyCode::Esc | KeyCode::Char('q') => return leave(model),
        KeyCode::Char(c) if tab_of(c).is_some() => return open_tab(model, tab_of(c).unwrap_or(Tab::Timeline)),
        KeyCode::Left => return turn(model, Tab::ALL.len() - 1),
        KeyCode::Right => return turn(model, 1),
        KeyCode::Char('[') => return neighbour(model, -1),
        KeyCode::Char(']') => return neighbour(model, 1),
        _ => {}
    }
    let Some(detail) = &mut model.detail else { return Vec::new() };
    match (&mut detail.log, detail.tab) {
        (Some(log), Tab::Log) => in_log(log, key),
        // A timeline opens at its end: its scroll counts from there.
        (_, Tab::Timeline) => scroll(&mut detail.scroll, upside_down(key)),
        _ => scroll(&mut detail.scroll, key),
    }
    Vec::new()
}

/// Back to the list, which still has its place.
fn leave(model: &mut Model) -> Vec<Effect> {
    if model.is_wide() {
        model.focus = Focus::List;
        return Vec::new();
    }
    close_detail(model)
}

fn turn(model: &mut Model, by: usize) -> Vec<Effect> {
    let Some(detail) = &model.detail else { return Vec::new() };
    let at = Tab::ALL.iter().position(|tab| *tab == detail.tab).unwrap_or(0);
    open_tab(model, Tab::ALL[(at + by) % Tab::ALL.len()])
}

/// The previous or next job of the list that this one is from.
fn neighbour(model: &mut Model, by: isize) -> Vec<Effect> {
    let count = model.row_count();
    let tab = model.detail.as_ref().map_or(Tab::Timeline, |detail| detail.tab);
    model.cursor_mut().step(by, count);
    actions::open_selected(model, tab)
}

fn scroll(at: &mut usize, key: KeyEvent) {
    *at = match key.code {
        KeyCode::Char('j') | KeyCode::Down => at.saturating_add(1),
        KeyCode::Char('k') | KeyCode::Up => at.saturating_sub(1),
        KeyCode::PageDown | KeyCode::Char(' ') => at.saturating_add(15),
        KeyCode::PageUp => at.saturating_sub(15),
        KeyCode::Char('g') | KeyCode::Home => 0,
        // The view stops at the end.
        KeyCode::Char('G') | KeyCode::End => usize::MAX / 2,
        _ => *at,
    };
}

fn upside_down(key: KeyEvent) -> KeyEvent {
    let code = match key.code {
        KeyCode::Char('j') | KeyCode::Down => KeyCode::Up,
        KeyCode::Char('k') | KeyCode::Up => KeyCode::Down,
        KeyCode::PageDown | KeyCode::Char(' ') => KeyCode::PageUp,
        KeyCode::PageUp => KeyCode::PageDown,
        KeyCode::Char('g') | KeyCode::Home => KeyCode::End,
        KeyCode::Char('G') | KeyCode::End => KeyCode::Home,
        code => code,
    };
    KeyEvent { code, ..key }
}

fn in_log(log: &mut crate::model::Log, key: KeyEvent) {
    match key.code {
        KeyCode::Char('j') | KeyCode::Down => log.scroll(1),
        KeyCode::Char('k') | KeyCode::Up => log.scroll(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => log.scroll(15),
        KeyCode::PageUp => log.scroll(-15),
        KeyCode::Char('g') | KeyCode::Home => log.scroll(isize::MIN / 2),
        KeyCode::Char('G' | 'f') | KeyCode::End => log.back = 0,
        KeyCode::Char('w') => log.is_wrapped = !log.is_wrapped,
        KeyCode::Char('n') => drop(log.find(true)),
        KeyCode::Char('N') => drop(log.find(false)),
        _ => {}
    }
}

fn copy(model: &mut Model) -> Vec<Effect> {
    let Some(text) = subject(model) else { return Vec::new() };
    model.tell(format!("copied {text}"));
    vec![Effect::Copy(text)]
}

/// The id of what is selected.
fn subject(model: &Model) -> Option<String> {
    if model.focus == Focus::Detail {
        return model.detail.as_ref().map(|detail| detail.id.to_string());
    }
    match model.page {
        Page::Factories => model.factories.rows().get(model.factories.cursor.selected).map(|row| row.id.to_string()),
        Page::Folder => {
            let folder = model.folder.as_ref()?;
            folder.rows().get(folder.cursor.selected).map(|file| file.name.clone())
        }
        Page::Money => model.money.selected().map(|budget| budget.product_id.to_string()),
        Page::Needs | Page::Jobs | Page::Dispatch => model.selected_job().map(|id| id.to_string()),
    }
}

fn browse(model: &mut Model) -> Vec<Effect> {
    let job = match model.focus {
        Focus::Detail => model.detail.as_ref().map(|detail| detail.id),
        Focus::List => model.selected_job(),
    };
    let path = match (job, model.page) {
        (Some(id), _) => format!("/jobs/{id}"),
        (None, Page::Factories) => match model.factories.rows().get(model.factories.cursor.selected) {
            Some(factory) => format!("/factories/{}", factory.id),
            None => "/".to_owned(),
        },
        (None, Page::Needs) => "/needs-me".to_owned(),
        (None, Page::Money) => match model.money.selected() {
            Some(budget) => format!("/budgets/{}", budget.product_id),
            None => "/budgets".to_owned(),
        },
        (None, Page::Dispatch) => "/dispatch".to_owned(),
        (None, Page::Jobs | Page::Folder) => "/jobs".to_owned(),
    };
    if model.link.api.is_empty() {
        model.warn("not connected yet");
        return Vec::new();
    }
    vec![Effect::Browse(format!("{}{path}", model.link.api))]
}
