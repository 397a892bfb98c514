//! `giga budget`

use std::fmt::Write as _;

use domain::{BudgetSettings, DispatchModes, dollars};
use http::Method;
use protocol::{BudgetList, BudgetView, SpendShare};

use crate::cli::{BudgetCommand, BudgetSetArgs};
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, clean};

use super::Context;

/// Runs a verb of `giga budget`.
pub(super) async fn budget(context: &Context<'_>, command: BudgetCommand) -> Result<(), Failure> {
    match command {
        BudgetCommand::Show { name: None } => list(context).await,
        BudgetCommand::Show { name: Some(name) } => {
            let budget: BudgetView = context.client()?.get(&format!("/budgets/{name}")).await?;
            show(context, &budget)
        }
        BudgetCommand::Set(args) => set(context, args).await,
        BudgetCommand::Enforce { switch } => enforce(context, switch.is_on()).await,
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let budgets: BudgetList = context.client()?.get("/budgets").await?;
    if context.out.is_json() {
        return context.out.document(&budgets);
    }
    let mut table = Table::new(&["PRODUCT", "STATE", "SPENT", "CEILING", "LEFT", "PER MERGE"], "PRODUCT");
    for budget in &budgets.items {
        table.row(vec![
            budget.product_id.as_str().into(),
            state(budget),
            dollars(budget.spent_usd).into(),
            budget.ceiling_usd.map_or_else(|| "no ceiling".to_owned(), |usd| ceiling(usd, budget)).into(),
            budget.left_usd.map_or_else(String::new, dollars).into(),
            budget.cost_per_merged_usd.map_or_else(String::new, dollars).into(),
        ]);
    }
    context.out.table(&table)?;
    note_unenforced(context, &budgets.items);
    Ok(())
}

fn ceiling(usd: f64, budget: &BudgetView) -> String {
    format!("{} {}", dollars(usd), budget.period.per())
}

fn state(budget: &BudgetView) -> Cell {
    match (budget.paused, &budget.waiting, budget.used_percent) {
        (true, ..) => Cell::tinted("paused", Tint::Warn),
        (false, Some(_), _) => Cell::tinted("waits for money", Tint::Warn),
        (false, None, Some(percent)) if percent >= 80.0 => Cell::tinted("nearly spent", Tint::Warn),
        (false, None, _) => Cell::tinted("active", Tint::Good),
    }
}

/// Ceilings that are set and have no effect are worth a word.
fn note_unenforced(context: &Context<'_>, budgets: &[BudgetView]) {
    if budgets.iter().any(|budget| budget.ceiling_usd.is_some() && !budget.enforced) {
        context.out.note("ceilings are not enforced; `giga budget enforce on` or FLEET_BUDGETS=1 enforces them");
    }
}

fn show(context: &Context<'_>, budget: &BudgetView) -> Result<(), Failure> {
    if context.out.is_json() {
        return context.out.document(budget);
    }
    context.out.line(&description(budget))?;
    for (title, shares) in [("ENGINE", &budget.by_engine), ("REPO", &budget.by_repo), ("PROFILE", &budget.by_profile)] {
        if !shares.is_empty() {
            context.out.line("")?;
            context.out.table(&breakdown(title, shares))?;
        }
    }
    note_unenforced(context, std::slice::from_ref(budget));
    Ok(())
}

fn description(budget: &BudgetView) -> String {
    let mut text = format!("{}\n", budget.product_id);
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<12}{value}");
    };
    row(
        "ceiling",
        match budget.ceiling_usd {
            Some(usd) => ceiling(usd, budget),
            None => "none".to_owned(),
        },
    );
    let percent = budget.used_percent.map_or_else(String::new, |percent| format!(" ({percent:.0} %)"));
    row("spent", format!("{}{percent}", dollars(budget.spent_usd)));
    if budget.running_usd > 0.0 || budget.reserved_usd > 0.0 {
        let (running, reserved) = (dollars(budget.running_usd), dollars(budget.reserved_usd));
        row("running", format!("{running} spent by running jobs, {reserved} more reserved"));
    }
    if let Some(left) = budget.left_usd {
        row("left", dollars(left));
    }
    if budget.subscription_usd > 0.0 {
        row("covered", format!("{} by subscriptions, not counted", dollars(budget.subscription_usd)));
    }
    row("rate", projection(budget));
    let mut runs = format!("{}, {} failed", domain::counted(count(budget.runs), "run"), budget.failed_runs);
    if budget.runs_without_cost > 0 {
        let _ = write!(runs, ", {} without a known cost", budget.runs_without_cost);
    }
    row("runs", runs);
    row(
        "merged",
        match budget.cost_per_merged_usd {
            Some(usd) => format!("{}, {} each, failed attempts included", budget.merged, dollars(usd)),
            None => "0".to_owned(),
        },
    );
    if let Some(pause) = &budget.pause {
        let reason = pause.reason.as_deref().map_or_else(String::new, |reason| format!(": {}", clean(reason)));
        row("paused", format!("by {} since {}{reason}", clean(&pause.by), pause.at.to_the_minute()));
    } else if budget.paused {
        row("paused", "yes".to_owned());
    }
    if let Some(waiting) = &budget.waiting {
        row("waiting", waiting.text(&budget.product_id));
    }
    row(
        "on pause",
        match budget.running {
            domain::RunningWork::Finish => "running jobs finish".to_owned(),
            domain::RunningWork::Release => "running jobs save their work and return to the queue".to_owned(),
            domain::RunningWork::Stop => "running jobs are stopped and return to the queue".to_owned(),
        },
    );
    text.trim_end().to_owned()
}

fn projection(budget: &BudgetView) -> String {
    let projection = budget.projection;
    let mut text = format!("{} per hour", dollars(projection.usd_per_hour));
    if let Some(at_end) = projection.at_end_usd {
        let _ = write!(text, ", {} by the end of the period", dollars(at_end));
    }
    if let Some(at) = projection.reached_at.filter(|_| budget.left_usd.is_some_and(|left| left > 0.0)) {
        let _ = write!(text, ", ceiling reached at {}", at.to_the_minute());
    }
    text
}

fn count(runs: u64) -> u32 {
    u32::try_from(runs).unwrap_or(u32::MAX)
}

fn breakdown(title: &'static str, shares: &[SpendShare]) -> Table {
    let mut table = Table::new(&[title, "SPENT", "COVERED", "RUNS", "FAILED"], title);
    for share in shares {
        let covered = if share.subscription_usd > 0.0 { dollars(share.subscription_usd) } else { String::new() };
        table.row(vec![
            share.name.as_str().into(),
            dollars(share.usd).into(),
            covered.into(),
            share.runs.to_string().into(),
            share.failed_runs.to_string().into(),
        ]);
    }
    table
}

/// Changes the given settings, and keeps the others.
async fn set(context: &Context<'_>, args: BudgetSetArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let path = format!("/budgets/{}", args.name);
    let known: BudgetView = client.get(&path).await?;
    let settings = BudgetSettings {
        ceiling_usd: if args.no_ceiling { None } else { args.ceiling.or(known.ceiling_usd) },
        period: args.period.map_or(known.period, Into::into),
        job_usd: args.per_job.or(known.job_usd),
        running: args.on_pause.map_or(known.running, Into::into),
    };
    let budget: BudgetView = client.call(Method::PUT, &path, Some(&settings)).await?;
    show(context, &budget)
}

async fn enforce(context: &Context<'_>, is_on: bool) -> Result<(), Failure> {
    let client = context.client()?;
    let (known, tag) = client.flags().await?;
    let wanted = DispatchModes { budgets: Some(is_on), ..known };
    let flags = client.set_flags(&wanted, Some(&tag)).await?;
    if context.out.is_json() {
        return context.out.document(&flags);
    }
    context.out.line(match is_on {
        true => "ceilings are enforced: a product without money starts no jobs",
        false => "ceilings are not enforced",
    })
}
