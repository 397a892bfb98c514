//! The command line behind `:`.

use domain::{JobId, Mode, Priority, StageName};

use super::{jobs_request, open_job, open_page, reads};
use crate::message::{Act, Effect, Target};
use crate::model::{FILTER_KEYS, Filter, Model, Page, Tab};

/// The commands and what they do, for the help.
pub(crate) const COMMANDS: [(&str, &str); 10] = [
    ("needs", "what needs an operator"),
    ("jobs", "jobs: `:jobs stage=review repo=house fix login`"),
    ("factories", "factories"),
    ("money", "budgets: what products may spend and have spent"),
    ("dispatch", "modes, paused credentials, dead letters"),
    ("job", "open a job: `:job 4f1c6890`, its id or its last characters"),
    ("mode", "switch the dispatch mode: `:mode gate`"),
    ("refresh", "read everything again"),
    ("help", "keys and commands"),
    ("quit", "leave"),
];

/// Runs a command line.
pub(super) fn run(model: &mut Model, line: &str) -> Vec<Effect> {
    let (name, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let rest = rest.trim();
    if name.is_empty() {
        return Vec::new();
    }
    let matching: Vec<&str> =
        COMMANDS.iter().map(|(known, _)| *known).filter(|known| known.starts_with(name)).collect();
    let name = match matching.as_slice() {
        [] => {
            model.warn(format!("`{name}` is not a command: `:help` lists them"));
            return Vec::new();
        }
        names if names.contains(&name) => name,
        [only] => only,
        several => {
            model.warn(format!("`{name}` is ambiguous: {}", several.join(", ")));
            return Vec::new();
        }
    };
    match name {
        "needs" => filtered_page(model, Page::Needs, rest),
        "jobs" => filtered_page(model, Page::Jobs, rest),
        "factories" => filtered_page(model, Page::Factories, rest),
        "money" => filtered_page(model, Page::Money, rest),
        "dispatch" => filtered_page(model, Page::Dispatch, rest),
        "job" => job(model, rest),
        "mode" => mode(model, rest),
        "refresh" => reads(model),
        "help" => {
            model.overlay = Some(crate::model::Overlay::Help { scroll: 0 });
            Vec::new()
        }
        _ => vec![Effect::Quit],
    }
}

fn filtered_page(model: &mut Model, page: Page, filter: &str) -> Vec<Effect> {
    let mut effects = open_page(model, page);
    effects.extend(set_filter(model, filter));
    effects
}

/// Sets the filter of the page, and reads what it asks for.
pub(super) fn set_filter(model: &mut Model, text: &str) -> Vec<Effect> {
    let filter = Filter::new(text);
    if model.page == Page::Jobs
        && let Some(problem) = filter.problem()
    {
        model.warn(problem);
        return Vec::new();
    }
    let is_same = *model.filter() == filter;
    if let Some(current) = model.filter_mut() {
        *current = filter;
    }
    model.cursor_mut().selected = 0;
    if model.page != Page::Jobs || is_same {
        return Vec::new();
    }
    model.jobs.is_loaded = false;
    model.jobs.next = None;
    vec![Effect::Read(jobs_request(model))]
}

fn job(model: &mut Model, id: &str) -> Vec<Effect> {
    let known = model.jobs.rows().into_iter().map(|job| job.id);
    let found = id.parse::<JobId>().ok().or_else(|| {
        let mut matching = known.filter(|known| id.len() >= 4 && known.to_string().ends_with(id));
        matching.next()
    });
    match found {
        Some(id) => open_job(model, id, Tab::Timeline),
        None => {
            model.warn(format!("no listed job ends in `{id}`: filter the list, or give the whole id"));
            Vec::new()
        }
    }
}

fn mode(model: &mut Model, name: &str) -> Vec<Effect> {
    match name.parse::<Mode>() {
        Ok(mode) => super::actions::ask(model, Act::Mode(mode), vec![Target::Fleet]),
        Err(error) => model.warn(error.to_string()),
    }
    Vec::new()
}

/// What the line can be completed to, whole lines.
pub(crate) fn completions(model: &Model, line: &str) -> Vec<String> {
    let Some((name, rest)) = line.split_once(' ') else {
        let names = COMMANDS.iter().map(|(name, _)| *name).filter(|name| name.starts_with(line));
        return names.map(str::to_owned).collect();
    };
    let (before, word) = rest.rsplit_once(' ').map_or(("", rest), |(before, word)| (before, word));
    let start = if before.is_empty() { format!("{name} ") } else { format!("{name} {before} ") };
    let words = match name {
        "jobs" => term_completions(model, word),
        "mode" => Mode::ALL.into_iter().map(|mode| mode.to_string()).collect(),
        "job" => model.jobs.rows().iter().take(20).map(|job| job.id.short().to_string()).collect(),
        _ => Vec::new(),
    };
    words.into_iter().filter(|known| known.starts_with(word)).map(|word| format!("{start}{word}")).collect()
}

/// Completions of a term of a filter.
pub(super) fn term_completions(model: &Model, word: &str) -> Vec<String> {
    let Some((key, value)) = word.split_once('=') else {
        return FILTER_KEYS.iter().map(|key| format!("{key}=")).filter(|key| key.starts_with(word)).collect();
    };
    let (before, _) = value.rsplit_once(',').map_or(("", value), |(before, last)| (before, last));
    let start = if before.is_empty() { format!("{key}=") } else { format!("{key}={before},") };
    let jobs = model.jobs.rows();
    let mut values: Vec<String> = match key {
        "stage" => StageName::ALL.iter().map(ToString::to_string).collect(),
        "priority" => Priority::ALL.iter().map(|priority| priority.name().to_owned()).collect(),
        "factory" => model.factories.names().map(ToString::to_string).collect(),
        "repo" => jobs.iter().filter_map(|job| job.repo.as_ref().map(ToString::to_string)).collect(),
        "tag" => jobs.iter().flat_map(|job| job.tags.iter().map(ToString::to_string)).collect(),
        "product" => jobs.iter().map(|job| job.product_id.to_string()).collect(),
        _ => Vec::new(),
    };
    if !matches!(key, "stage" | "priority") {
        values.sort();
        values.dedup();
    }
    values.into_iter().map(|value| format!("{start}{value}")).filter(|known| known.starts_with(word)).collect()
}
