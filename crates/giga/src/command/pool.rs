//! `giga pool`: factories that are started on demand.

use std::time::Duration;

use domain::{Capability, Pool, PoolName};
use http::Method;
use protocol::{PoolList, PoolSettings, PoolView};

use crate::cli::{PoolCommand, PoolSetArgs};
use crate::config::HumanDuration;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age};

use super::Context;

/// Runs a verb of `giga pool`.
pub(super) async fn pool(context: &Context<'_>, command: PoolCommand) -> Result<(), Failure> {
    match command {
        PoolCommand::List => list(context).await,
        PoolCommand::Show { name } => show(context, &name).await,
        PoolCommand::Set(args) => set(context, args).await,
        PoolCommand::Remove { name } => remove(context, &name).await,
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let pools: PoolList = context.client()?.get("/pools").await?;
    if context.out.is_json() {
        return context.out.document(&pools);
    }
    if pools.items.is_empty() {
        context.out.note("no pools: declare one with `giga pool set NAME --max N --engines NAMES`");
    }
    context.out.table(&table(context, &pools.items))
}

async fn show(context: &Context<'_>, name: &PoolName) -> Result<(), Failure> {
    let view: PoolView = context.client()?.get(&format!("/pools/{name}")).await?;
    if context.out.is_json() {
        return context.out.document(&view);
    }
    context.out.table(&table(context, std::slice::from_ref(&view)))?;
    for line in details(&view.pool) {
        context.out.line(&line)?;
    }
    if !view.scale.members.is_empty() {
        let members: Vec<&str> = view.scale.members.iter().map(domain::FactoryId::as_str).collect();
        context.out.line(&format!("members: {}", members.join(" ")))?;
    }
    if view.broken {
        context.out.note(
            "a factory of this pool joined without what the pool declares: `giga alerts` has the details, and `giga pool set` \
             makes the pool try again",
        );
    }
    Ok(())
}

async fn set(context: &Context<'_>, args: PoolSetArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let known: PoolList = client.get("/pools").await?;
    let before = known.items.into_iter().find(|view| view.pool.name == args.name);
    let did = if before.is_some() { "updated" } else { "created" };
    let settings = match (before.map(|view| PoolSettings::of(&view.pool)), args.max) {
        (Some(before), _) => before,
        (None, Some(max)) => PoolSettings::of(&Pool::new(args.name.clone(), max)),
        (None, None) => {
            return Err(Failure::usage(format!("pool `{}` does not exist yet, and has no --max", args.name))
                .hint("the maximum bounds what a pool may cost: `giga pool set NAME --max N --engines NAMES`"));
        }
    };
    let name = args.name.clone();
    let view: PoolView = client.call(Method::PUT, &format!("/pools/{name}"), Some(&changed(settings, args))).await?;
    if context.out.is_json() {
        return context.out.document(&view);
    }
    context.out.note(&format!("{did} pool `{name}`"));
    context.out.table(&table(context, std::slice::from_ref(&view)))
}

/// The settings after a change; those that were not given stay.
fn changed(before: PoolSettings, args: PoolSetArgs) -> PoolSettings {
    let millis = |time: HumanDuration| u64::try_from(time.0.as_millis()).unwrap_or(u64::MAX);
    PoolSettings {
        capabilities: args.capabilities.map_or(before.capabilities, |names| names.0),
        engines: args.engines.map_or(before.engines, |names| names.0),
        repos: args.repos.map_or(before.repos, |names| names.0),
        clones: args.clones.unwrap_or(before.clones),
        products: args.products.map_or(before.products, |names| names.0),
        seats: args.seats.or(before.seats),
        warm: args.warm.unwrap_or(before.warm),
        max: args.max.unwrap_or(before.max),
        cost: args.cost.unwrap_or(before.cost),
        start_within_ms: args.start_within.map(millis).or(before.start_within_ms),
        idle_after_ms: args.idle_after.map(millis).or(before.idle_after_ms),
    }
}

async fn remove(context: &Context<'_>, name: &PoolName) -> Result<(), Failure> {
    let answer: serde_json::Value =
        context.client()?.call(Method::DELETE, &format!("/pools/{name}"), None::<&()>).await?;
    if context.out.is_json() {
        return context.out.document(&answer);
    }
    context.out.line(&format!("{name} is removed: its factories finish their jobs and leave"))
}

fn details(pool: &Pool) -> Vec<String> {
    let span = |millis: u64| HumanDuration(Duration::from_millis(millis)).to_string();
    let engines = pool.engines.iter().map(Capability::engine);
    let repos = pool.repos.iter().map(Capability::repo);
    let offers: Vec<String> =
        engines.chain(pool.capabilities.iter().cloned()).chain(repos).map(|one| one.to_string()).collect();
    let clones = if pool.clones { ", and clones other repositories" } else { "" };
    let products: Vec<&str> = pool.products.iter().map(domain::ProductId::as_str).collect();
    let products = if products.is_empty() { "all products".to_owned() } else { products.join(" ") };
    vec![
        format!("each factory offers {}{clones}", offers.join(" ")),
        format!("works for {products}, at cost {}", pool.cost),
        format!(
            "joins within {}, is told to leave after {} without work",
            span(pool.start_within_ms),
            span(pool.idle_after_ms)
        ),
    ]
}

fn table(context: &Context<'_>, pools: &[PoolView]) -> Table {
    let mut table =
        Table::new(&["POOL", "STATE", "WANTED", "LIVE", "STARTING", "WAITING", "SEATS", "WARM", "MAX"], "POOL");
    for PoolView { pool, scale, broken } in pools {
        let since = |text: &str| match scale.since {
            Some(since) => format!("{text} for {}", age(context.now(), since)),
            None => text.to_owned(),
        };
        let state = match (broken, scale.overdue, scale.starting, scale.live) {
            (true, ..) => Cell::tinted("does not fit", Tint::Bad),
            (_, true, ..) => Cell::tinted(since("not starting"), Tint::Bad),
            (_, _, 1.., _) => Cell::tinted(since("starting"), Tint::Warn),
            (_, _, 0, 0) => Cell::from("idle"),
            (_, _, 0, _) => Cell::tinted("running", Tint::Good),
        };
        table.row(vec![
            pool.name.as_str().into(),
            state,
            scale.wanted.to_string().into(),
            scale.live.to_string().into(),
            scale.starting.to_string().into(),
            scale.waiting.to_string().into(),
            format!("{}/{}", scale.used, u64::from(scale.live) * u64::from(pool.seats)).into(),
            pool.warm.to_string().into(),
            pool.max.to_string().into(),
        ]);
    }
    table
}
