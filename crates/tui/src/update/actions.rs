//! Actions of an operator: the menu, the question before each, and how it ended.

use domain::{JobId, Mode, Priority, StageName, VoteDecision, counted};
use protocol::{JobReview, JobView, NeedAction};

use super::{jobs_request, open_job};
use crate::message::{Act, Acted, Deed, Effect, Request, Target};
use crate::model::{
    Dialog, DispatchRow, Field, Focus, LineEdit, Menu, MenuChoice, MenuItem, Model, Overlay, Page, Tab,
};

/// Opens the menu of what can be done here.
pub(super) fn open_menu(model: &mut Model) {
    if let Some(obstacle) = model.link.obstacle(model.now) {
        return model.warn(format!("nothing can be changed now: {obstacle}"));
    }
    let (targets, items) = choices(model);
    if items.is_empty() {
        return model.warn("there is nothing to do here");
    }
    let title = match targets.as_slice() {
        [only] => only.label(),
        several => counted(several.len(), "job"),
    };
    model.overlay = Some(Overlay::Menu(Menu { title, items, selected: 0, targets }));
}

/// What can be done with the selected row, or with the marked ones.
fn choices(model: &Model) -> (Vec<Target>, Vec<MenuItem>) {
    if model.focus == Focus::Detail {
        let job = model.detail.as_ref().and_then(|detail| detail.view());
        return job.map_or_else(Default::default, |job| (vec![target(job)], job_items(&[job])));
    }
    match model.page {
        Page::Jobs => {
            let rows = model.jobs.rows();
            let marked: Vec<&JobView> = rows.iter().copied().filter(|job| model.jobs.marks.contains(&job.id)).collect();
            let jobs = match marked.is_empty() {
                true => rows.get(model.jobs.cursor.selected).copied().into_iter().collect(),
                false => marked,
            };
            (jobs.iter().map(|job| target(job)).collect(), job_items(&jobs))
        }
        Page::Needs => needs_choices(model),
        Page::Factories => {
            let rows = model.factories.rows();
            let Some(factory) = rows.get(model.factories.cursor.selected) else { return Default::default() };
            let item = match factory.draining {
                true => item('r', "Resume: it accepts jobs again", Act::Resume),
                false => item('d', "Drain: finish the running jobs, accept no new ones", Act::Drain),
            };
            (vec![Target::Factory(factory.id.clone())], vec![item])
        }
        Page::Money => money_choices(model),
        Page::Dispatch => dispatch_choices(model),
        Page::Folder => {
            let Some(job) = model.selected_job().and_then(|id| model.jobs.get(id)) else { return Default::default() };
            (vec![target(job)], job_items(&[job]))
        }
    }
}

fn target(job: &JobView) -> Target {
    Target::Job { id: job.id, title: job.title.clone() }
}

fn item(key: char, label: &str, act: Act) -> MenuItem {
    MenuItem { key, label: label.to_owned(), choice: MenuChoice::Act(act) }
}

/// What every one of these jobs allows.
fn job_items(jobs: &[&JobView]) -> Vec<MenuItem> {
    let all = |test: &dyn Fn(&JobView) -> bool| !jobs.is_empty() && jobs.iter().all(|job| test(job));
    let is_open = |job: &JobView| !job.stage.is_terminal();
    let is_done = |job: &JobView| matches!(job.stage, StageName::Review | StageName::Testing);
    let has_ended = |job: &JobView| matches!(job.stage, StageName::Failed | StageName::DeadLetter);
    let may_requeue = |job: &JobView| has_ended(job) || is_done(job);
    let mut items = Vec::new();
    if all(&|job| job.question.is_some()) {
        items.push(item('a', "Answer its question", Act::Answer));
    }
    if let [only] = jobs
        && only.stage == StageName::Review
        && let Some(review) = &only.review
    {
        items.extend(vote_items(review));
    }
    if all(&|job| job.stage == StageName::Testing && job.repo.is_some()) {
        items.push(item('s', "Ship: merge the verified commit", Act::Ship));
    }
    if all(&may_requeue) {
        items.push(item('r', "Requeue, keep the saved work", Act::Requeue));
        items.push(item('f', "Requeue fresh, discard the saved work", Act::RequeueFresh));
    }
    if all(&|job| is_done(job) && (jobs.len() > 1 || job.review.is_none() || job.stage != StageName::Review)) {
        items.push(item('c', "Request changes", Act::RequestChanges));
        items.push(item('j', "Reject", Act::Reject));
    }
    if all(&is_open) {
        items.push(MenuItem { key: 'p', label: "Priority …".to_owned(), choice: MenuChoice::Priorities });
        items.push(MenuItem { key: 'n', label: "Pin to a factory …".to_owned(), choice: MenuChoice::Pins });
        if all(&|job| job.pause.is_some()) {
            items.push(item('u', "Resume", Act::ResumeJob));
        } else if all(&|job| job.pause.is_none()) {
            items.push(item('u', "Pause", Act::PauseJob));
        }
        items.push(item('x', "Cancel", Act::Cancel));
    }
    if all(&|job| has_ended(job) && !job.dismissed) {
        items.push(item('d', "Dismiss: remove it from what needs me", Act::Dismiss));
    }
    items
}

/// The coordinator says what the caller may do about an item.
fn needs_choices(model: &Model) -> (Vec<Target>, Vec<MenuItem>) {
    let rows = model.needs.rows();
    let marked: Vec<_> = rows.iter().copied().filter(|row| model.needs.marks.contains(&row.key)).collect();
    let chosen = match marked.is_empty() {
        true => rows.get(model.needs.cursor.selected).copied().into_iter().collect(),
        false => marked,
    };
    let Some(first) = chosen.first() else { return Default::default() };
    let targets = chosen.iter().filter_map(|row| match (&row.job_id, &row.factory_id, &row.credential) {
        (Some(id), _, _) => Some(Target::Job { id: *id, title: row.title.clone() }),
        (_, Some(id), _) => Some(Target::Factory(id.clone())),
        (_, _, Some(id)) => Some(Target::Credential(id.clone())),
        (None, None, None) => None,
    });
    let shared = first.actions.iter().filter(|action| chosen.iter().all(|row| row.actions.contains(action)));
    let items = shared.flat_map(|action| match (action, chosen.as_slice()) {
        (NeedAction::Review, [only]) => only.review.iter().flat_map(vote_items).collect(),
        (action, _) => named_items(*action),
    });
    let items = items.collect();
    (targets.collect(), items)
}

/// The votes on the work that is shown. One job at a time: a reviewer looks at each.
fn vote_items(review: &JobReview) -> Vec<MenuItem> {
    let vote = |decision| Act::Vote(review.vote(decision, None));
    vec![
        item('v', "Approve the reviewed commit", vote(VoteDecision::Approve)),
        item('c', "Request changes", vote(VoteDecision::Changes)),
        item('j', "Reject", vote(VoteDecision::Reject)),
    ]
}

fn named_items(action: NeedAction) -> Vec<MenuItem> {
    match action {
        NeedAction::Answer => vec![item('a', "Answer its question", Act::Answer)],
        NeedAction::Ship => vec![item('s', "Ship: merge the verified commit", Act::Ship)],
        // Votes are bound to one commit: several jobs have no common one.
        NeedAction::Review => Vec::new(),
        NeedAction::Requeue => vec![
            item('r', "Requeue, keep the saved work", Act::Requeue),
            item('f', "Requeue fresh, discard the saved work", Act::RequeueFresh),
        ],
        NeedAction::Redrive => vec![item('v', "Redrive: requeue the dead letter", Act::Redrive)],
        NeedAction::RequestChanges => vec![item('c', "Request changes", Act::RequestChanges)],
        NeedAction::Reject => vec![item('j', "Reject", Act::Reject)],
        NeedAction::Cancel => vec![item('x', "Cancel", Act::Cancel)],
        NeedAction::Dismiss => vec![item('d', "Dismiss: remove it from what needs me", Act::Dismiss)],
        NeedAction::Drain => vec![item('n', "Drain: finish the running jobs, accept no new ones", Act::Drain)],
        NeedAction::Prune => vec![item('p', "Prune: remove stale factories", Act::Prune)],
        NeedAction::ResumeCredential => vec![item('u', "Resume the credential now", Act::ResumeCredential)],
    }
}

fn money_choices(model: &Model) -> (Vec<Target>, Vec<MenuItem>) {
    let Some(budget) = model.money.selected() else { return Default::default() };
    let switch = match budget.paused {
        true => item('r', "Resume: its jobs start again", Act::ResumeProduct),
        false => item('p', "Pause: no job of it starts", Act::PauseProduct),
    };
    let ceiling = item('c', "Set the ceiling", Act::SetCeiling);
    (vec![Target::Product(budget.product_id.clone())], vec![switch, ceiling])
}

fn dispatch_choices(model: &Model) -> (Vec<Target>, Vec<MenuItem>) {
    let modes = MenuItem { key: 'm', label: "Dispatch mode …".to_owned(), choice: MenuChoice::Modes };
    let preemption = match model.dispatch.modes.as_ref().and_then(|modes| modes.preemption) {
        Some(true) => item('e', "Preemption: switch it off", Act::Preemption(false)),
        Some(false) | None => item('e', "Preemption: switch it on", Act::Preemption(true)),
    };
    let letters = model.dispatch.dead_letters();
    let marked: Vec<Target> = letters
        .iter()
        .map(|letter| &letter.job)
        .filter(|job| model.dispatch.marks.contains(&job.id))
        .map(target)
        .collect();
    let dismiss = || item('d', "Dismiss: take it off this list", Act::Dismiss);
    if !marked.is_empty() {
        return (marked, vec![item('r', "Redrive: requeue the dead letters", Act::Redrive), dismiss()]);
    }
    match model.dispatch.rows().get(model.dispatch.cursor.selected) {
        Some(DispatchRow::DeadLetter(letter)) => {
            let same = letters.iter().filter(|other| other.reason == letter.reason).count();
            let mut items = vec![item('r', "Redrive: requeue it", Act::Redrive), dismiss()];
            if same > 1 {
                let label = format!("Redrive all {same} with the reason {}", letter.reason);
                items.push(MenuItem { key: 'v', label, choice: MenuChoice::RedriveReason });
            }
            items.extend([modes, preemption]);
            (vec![target(&letter.job)], items)
        }
        Some(DispatchRow::Credential(credential)) => {
            let resume = item('u', "Resume the credential now", Act::ResumeCredential);
            (vec![Target::Credential(credential.credential.clone())], vec![resume, modes, preemption])
        }
        None => (vec![Target::Fleet], vec![modes, preemption]),
    }
}

/// Takes a choice of a menu.
pub(super) fn choose(model: &mut Model, menu: Menu, row: usize) {
    let Some(item) = menu.items.into_iter().nth(row) else { return };
    match item.choice {
        MenuChoice::Act(act @ Act::Preemption(_)) => ask(model, act, vec![Target::Fleet]),
        MenuChoice::Act(act) => ask(model, act, menu.targets),
        MenuChoice::Priorities => {
            let items = Priority::ALL.map(|priority| {
                let key = priority.name().chars().next().unwrap_or('p');
                item_of(key, priority.name().to_owned(), Act::Priority(priority))
            });
            let title = format!("Priority of {}", menu.title);
            model.overlay =
                Some(Overlay::Menu(Menu { title, items: items.to_vec(), selected: 2, targets: menu.targets }));
        }
        MenuChoice::Pins => {
            let factories = model.factories.names().take(30).enumerate().map(|(at, id)| {
                let key = char::from_digit(u32::try_from(at + 1).unwrap_or(36), 36).unwrap_or(' ');
                item_of(key, format!("{id}: no other factory runs it"), Act::Pin(Some(id.clone())))
            });
            let clear = item_of('0', "any factory: remove the pin".to_owned(), Act::Pin(None));
            let items = std::iter::once(clear).chain(factories).collect();
            let title = format!("Pin {}", menu.title);
            model.overlay = Some(Overlay::Menu(Menu { title, items, selected: 0, targets: menu.targets }));
        }
        MenuChoice::Modes => {
            let items = Mode::ALL.into_iter().map(|mode| {
                let key = mode.as_str().chars().next().unwrap_or('m');
                let key = match mode {
                    Mode::Poll => 'o',
                    Mode::SelfSelect => 'e',
                    _ => key,
                };
                item_of(key, format!("{mode}: {}", mode_text(mode)), Act::Mode(mode))
            });
            let menu = Menu {
                title: "Dispatch mode".to_owned(),
                items: items.collect(),
                selected: 0,
                targets: vec![Target::Fleet],
            };
            model.overlay = Some(Overlay::Menu(menu));
        }
        MenuChoice::RedriveReason => {
            let reason = match model.dispatch.rows().get(model.dispatch.cursor.selected) {
                Some(DispatchRow::DeadLetter(letter)) => letter.reason,
                _ => return,
            };
            let letters = model.dispatch.dead_letters().iter().filter(|letter| letter.reason == reason);
            let targets = letters.map(|letter| target(&letter.job)).collect();
            ask(model, Act::Redrive, targets);
        }
    }
}

fn item_of(key: char, label: String, act: Act) -> MenuItem {
    MenuItem { key, label, choice: MenuChoice::Act(act) }
}

/// What a mode does.
pub(crate) fn mode_text(mode: Mode) -> &'static str {
    match mode {
        Mode::Push => "the coordinator offers jobs to factories",
        Mode::Poll => "factories poll on a timer",
        Mode::Gate => "factories poll when the queue has changed",
        Mode::Shadow => "factories poll, and push is compared with that",
        Mode::SelfSelect => "jobs are announced to factories, which claim them",
    }
}

/// Asks before an action.
pub(super) fn ask(model: &mut Model, act: Act, targets: Vec<Target>) {
    if let Some(obstacle) = model.link.obstacle(model.now) {
        return model.warn(format!("nothing can be changed now: {obstacle}"));
    }
    let question = match targets.first() {
        Some(Target::Job { id, .. }) if act == Act::Answer => question_of(model, *id),
        Some(Target::Job { .. }) => match &act {
            Act::Vote(vote) => vote.sha.as_ref().map(|sha| format!("commit {sha}")),
            _ => None,
        },
        _ => None,
    };
    let (consequence, field) = consequence(&act, targets.len());
    model.overlay = Some(Overlay::Dialog(Dialog {
        act,
        targets,
        consequence: consequence.to_owned(),
        quote: question,
        field,
        line: LineEdit::default(),
        problem: None,
    }));
}

/// The question of a job, from wherever it is shown.
fn question_of(model: &Model, id: JobId) -> Option<String> {
    let detail = model.detail.as_ref().filter(|detail| detail.id == id).and_then(|detail| detail.view());
    let listed = detail.or_else(|| model.jobs.get(id)).and_then(|job| job.question.clone());
    let item = || model.needs.of_job(id).map(|item| item.text.clone());
    listed.or_else(item)
}

fn consequence(act: &Act, count: usize) -> (&'static str, Field) {
    let one = count == 1;
    match act {
        Act::Answer => ("The job is requeued and resumes with your answer.", Field::Required("answer")),
        Act::Ship => ("A factory merges the verified commit into the base branch.", Field::Optional("reason")),
        Act::Requeue if one => {
            ("The job is requeued and resumes from its saved work.", Field::Optional("message for the next run"))
        }
        Act::Requeue => {
            ("The jobs are requeued and resume from their saved work.", Field::Optional("message for the next run"))
        }
        Act::RequeueFresh => (
            "Saved work is discarded; the next run starts from the base branch.",
            Field::Optional("message for the next run"),
        ),
        Act::RequestChanges => {
            ("The work goes back to the agent with your message.", Field::Required("what to change"))
        }
        Act::Reject => ("The work is rejected: the job fails and is not retried.", Field::Required("reason")),
        Act::Vote(vote) => match vote.decision {
            VoteDecision::Approve => (
                "Your approval counts for the shown commit only. The last one lets it ship.",
                Field::Optional("comment"),
            ),
            VoteDecision::Changes => {
                ("The work goes back to the same branch and session with your comment.", Field::Required("comment"))
            }
            VoteDecision::Reject => {
                ("The work is rejected: the job fails and is not retried.", Field::Required("reason"))
            }
        },
        Act::Cancel if one => ("The job fails as cancelled. A running agent is stopped.", Field::Optional("reason")),
        Act::Cancel => ("The jobs fail as cancelled. Running agents are stopped.", Field::Optional("reason")),
        Act::PauseJob => {
            ("It and the jobs below it do not start. A running agent finishes its run.", Field::Optional("reason"))
        }
        Act::ResumeJob => ("It and the jobs below it may start again.", Field::None),
        Act::Priority(_) => ("The order of the queue changes. A running job continues.", Field::Optional("reason")),
        Act::Pin(Some(_)) => ("Only this factory may run it, even if it is offline.", Field::Optional("reason")),
        Act::Pin(None) => ("Any eligible factory may run it.", Field::Optional("reason")),
        Act::Dismiss => ("It leaves Needs me; it can still be requeued.", Field::Optional("reason")),
        Act::Redrive => {
            ("Dead letters are requeued with all their attempts.", Field::Optional("message for the next run"))
        }
        Act::Drain => ("It finishes its running jobs and accepts no new ones.", Field::None),
        Act::Resume => ("The factory accepts jobs again.", Field::None),
        Act::Prune => ("All stale factories are removed. One that comes back has to enrol again.", Field::None),
        Act::ResumeCredential => ("Its engines are used again before the usage window resets.", Field::None),
        Act::PauseProduct => {
            ("Nothing of it starts. Its budget says what happens to running jobs.", Field::Optional("reason"))
        }
        Act::ResumeProduct => ("Its jobs start again, if there is money for them.", Field::None),
        Act::SetCeiling => ("Dollars per period. `none` removes the ceiling.", Field::Required("ceiling")),
        Act::Mode(Mode::Push) => {
            ("The coordinator offers jobs again, for every product without a mode of its own.", Field::None)
        }
        Act::Mode(_) => ("For every product without a mode of its own. `push` switches back at any time.", Field::None),
        Act::Preemption(true) => (
            "A critical job without a seat takes that of a preemptible one, whose work is saved and continues later.",
            Field::None,
        ),
        Act::Preemption(false) => ("Critical jobs wait for a free seat.", Field::None),
    }
}

/// The verb on the button.
pub(crate) fn verb(act: &Act) -> String {
    match act {
        Act::Answer => "Answer".to_owned(),
        Act::Ship => "Ship".to_owned(),
        Act::Requeue => "Requeue".to_owned(),
        Act::RequeueFresh => "Requeue fresh".to_owned(),
        Act::RequestChanges => "Request changes of".to_owned(),
        Act::Reject => "Reject".to_owned(),
        Act::Vote(vote) => match vote.decision {
            VoteDecision::Approve => "Approve".to_owned(),
            VoteDecision::Changes => "Request changes of".to_owned(),
            VoteDecision::Reject => "Reject".to_owned(),
        },
        Act::Cancel => "Cancel".to_owned(),
        Act::PauseJob => "Pause".to_owned(),
        Act::ResumeJob => "Resume".to_owned(),
        Act::Priority(priority) => format!("Set priority {} of", priority.name()),
        Act::Pin(Some(factory)) => format!("Pin to {factory}:"),
        Act::Pin(None) => "Remove the pin of".to_owned(),
        Act::Dismiss => "Dismiss".to_owned(),
        Act::Redrive => "Redrive".to_owned(),
        Act::Drain => "Drain".to_owned(),
        Act::Resume => "Resume".to_owned(),
        Act::Prune => "Remove stale factories, such as".to_owned(),
        Act::ResumeCredential => "Resume credential".to_owned(),
        Act::PauseProduct => "Pause".to_owned(),
        Act::ResumeProduct => "Resume".to_owned(),
        Act::SetCeiling => "Set the ceiling of".to_owned(),
        Act::Mode(mode) => format!("Switch to mode {mode}:"),
        Act::Preemption(true) => "Switch preemption on:".to_owned(),
        Act::Preemption(false) => "Switch preemption off:".to_owned(),
    }
}

/// `Cancel 12 jobs`, `Drain east`.
pub(crate) fn button(act: &Act, targets: &[Target]) -> String {
    match targets {
        [only] => format!("{} {}", verb(act), only.label()),
        several => format!("{} {}", verb(act), counted(several.len(), "job")),
    }
}

/// Confirms the question.
pub(super) fn confirm(model: &mut Model, mut dialog: Dialog) -> Vec<Effect> {
    let text = dialog.line.text().trim().to_owned();
    if let Field::Required(label) = dialog.field
        && text.is_empty()
    {
        dialog.problem = Some(format!("fill in: {label}"));
        model.overlay = Some(Overlay::Dialog(dialog));
        return Vec::new();
    }
    if dialog.act == Act::SetCeiling && !is_ceiling(&text) {
        dialog.problem = Some(format!("`{text}` is no amount: write 50, 12.50 or none"));
        model.overlay = Some(Overlay::Dialog(dialog));
        return Vec::new();
    }
    let text = (!text.is_empty()).then_some(text);
    model.tell(format!("{} …", button(&dialog.act, &dialog.targets)));
    vec![Effect::Act(Deed { act: dialog.act, targets: dialog.targets, text })]
}

/// An amount in dollars, or `none`.
fn is_ceiling(text: &str) -> bool {
    let amount = text.trim_start_matches('$').parse::<f64>();
    text == "none" || amount.is_ok_and(|amount| amount.is_finite() && amount >= 0.0)
}

/// Shows how an action ended, and reads what it changed.
pub(super) fn ended(model: &mut Model, acted: &Acted) -> Vec<Effect> {
    let Acted { deed, outcomes } = acted;
    let failures: Vec<String> = deed
        .targets
        .iter()
        .zip(outcomes)
        .filter_map(|(target, outcome)| {
            let why = outcome.as_ref().err()?;
            Some(format!("{}: {why}", target.label()))
        })
        .collect();
    let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let what = button(&deed.act, &deed.targets);
    match failures.as_slice() {
        [] => model.tell(format!("{what}: done")),
        [only] if done == 0 => model.warn(format!("{} failed: {only}", verb(&deed.act))),
        several => {
            let title = format!("{what}: {done} done, {} failed", several.len());
            model.overlay = Some(Overlay::Outcomes { title, lines: failures, scroll: 0 });
            model.note = None;
        }
    }
    model.jobs.marks.clear();
    model.needs.marks.clear();
    model.dispatch.marks.clear();
    let changed = match &deed.act {
        Act::Drain | Act::Resume | Act::Prune => vec![Request::Factories, Request::Needs],
        Act::Mode(_) | Act::Preemption(_) => vec![Request::Flags],
        Act::PauseProduct | Act::ResumeProduct | Act::SetCeiling => vec![Request::Budgets, Request::Needs],
        Act::ResumeCredential => vec![Request::Credentials, Request::Needs],
        Act::Dismiss | Act::Redrive => vec![Request::DeadLetters, Request::Needs, jobs_request(model)],
        _ => {
            let jobs = deed.targets.iter().filter_map(|target| match target {
                Target::Job { id, .. } => Some(Request::Job(*id)),
                Target::Factory(_) | Target::Credential(_) | Target::Product(_) | Target::Fleet => None,
            });
            jobs.chain([Request::Needs]).collect()
        }
    };
    changed.into_iter().map(Effect::Read).collect()
}

/// Opens what the selected row is about.
pub(super) fn open_selected(model: &mut Model, tab: Tab) -> Vec<Effect> {
    match model.selected_job() {
        Some(id) => open_job(model, id, tab),
        None => {
            match model.page {
                Page::Folder => model.warn("this file was not submitted as a job yet"),
                Page::Needs => {
                    let rows = model.needs.rows();
                    let factory = rows.get(model.needs.cursor.selected).and_then(|item| item.factory_id.clone());
                    if let Some(factory) = factory {
                        let row = model.factories.rows().iter().position(|known| known.id == factory);
                        let effects = super::open_page(model, Page::Factories);
                        model.factories.cursor.selected = row.unwrap_or(0);
                        return effects;
                    }
                }
                Page::Jobs | Page::Factories | Page::Money | Page::Dispatch => {}
            }
            Vec::new()
        }
    }
}
