//! `giga factories`

use domain::{EngineHealth, FactoryId, Timestamp};
use protocol::{Drain, FactoryList, FactoryView, Presence, Pruned};

use crate::cli::FactoriesArgs;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age, clock_time};

use super::Context;

/// Lists factories, or takes one out of service.
pub(super) async fn factories(context: &Context<'_>, args: FactoriesArgs) -> Result<(), Failure> {
    match args {
        FactoriesArgs { drain: Some(factory), .. } => drain(context, &factory, Drain { draining: true }).await,
        FactoriesArgs { resume: Some(factory), .. } => drain(context, &factory, Drain { draining: false }).await,
        FactoriesArgs { prune: true, .. } => prune(context).await,
        FactoriesArgs { .. } => list(context).await,
    }
}

async fn drain(context: &Context<'_>, factory: &FactoryId, drain: Drain) -> Result<(), Failure> {
    let view: FactoryView = context.client()?.post(&format!("/factories/{factory}/drain"), &drain).await?;
    if context.out.is_json() {
        return context.out.document(&view);
    }
    let does = if view.draining { "takes nothing new" } else { "takes work again" };
    context.out.line(&format!("{} {does}", view.id))?;
    if view.draining && !view.seats.is_empty() {
        context.out.note(&format!("it still works on {} jobs", view.seats.len()));
    }
    Ok(())
}

async fn prune(context: &Context<'_>) -> Result<(), Failure> {
    let pruned: Pruned = context.client()?.post("/factories/prune", &serde_json::json!({})).await?;
    if context.out.is_json() {
        return context.out.document(&pruned);
    }
    if pruned.factories.is_empty() {
        context.out.note("every factory is still there: nothing to forget");
    }
    pruned.factories.iter().try_for_each(|factory| context.out.line(factory.as_str()))
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let factories: FactoryList = context.client()?.get("/factories").await?;
    if context.out.is_json() {
        return context.out.document(&factories);
    }
    let mut table = Table::new(&["FACTORY", "PRESENCE", "SEEN", "SEATS", "WORKS ON", "ENGINES", "OFFERS"], "OFFERS");
    for factory in &factories.items {
        let seen = factory.last_heartbeat_at.map_or_else(String::new, |at| age(context.now(), at));
        let offers: Vec<&str> = factory.capabilities.iter().map(domain::Capability::as_str).collect();
        table.row(vec![
            factory.id.as_str().into(),
            presence(factory),
            seen.into(),
            format!("{}/{}", factory.seats.len(), factory.seat_limit).into(),
            works_on(factory).into(),
            engines(factory, context.now()).into(),
            offers.join(" ").into(),
        ]);
    }
    if table.is_empty() {
        context.out.note(
            "no factories yet: `giga up` brings one, or make a token with `giga token create --join` \
             and run `giga factory` on another machine",
        );
    }
    context.out.table(&table)
}

fn presence(factory: &FactoryView) -> Cell {
    match factory.presence {
        Presence::Live if factory.draining => Cell::tinted("draining", Tint::Warn),
        Presence::Live => Cell::tinted("live", Tint::Good),
        Presence::Warming => Cell::tinted("warming", Tint::Warn),
        Presence::Stale => Cell::tinted("stale", Tint::Bad),
    }
}

/// Each engine with its version, and what keeps it from being used.
fn engines(factory: &FactoryView, now: Timestamp) -> String {
    let engine = |engine: &EngineHealth| {
        let version = engine.version.as_deref().map_or_else(String::new, |version| format!(" {version}"));
        let state = match (engine.signed_in, engine.window_until) {
            (Some(false), _) => " (signed out)".to_owned(),
            (_, Some(until)) if until > now => format!(" (used up until {})", clock_time(until)),
            _ => String::new(),
        };
        format!("{}{version}{state}", engine.name)
    };
    factory.engines.iter().map(engine).collect::<Vec<_>>().join(", ")
}

fn works_on(factory: &FactoryView) -> String {
    let titles = factory.seats.iter().map(|seat| match seat.dispatched_only {
        true => format!("{} (offered)", seat.title),
        false => seat.title.clone(),
    });
    titles.collect::<Vec<_>>().join(", ")
}
