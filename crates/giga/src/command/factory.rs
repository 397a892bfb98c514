//! `giga factory list`

use domain::{EngineHealth, FactoryId, Receives};
use http::Method;
use protocol::{CredentialList, DrainRequest, FactoryList, FactoryView, Presence, PruneResponse};

use crate::cli::FactoryCommand;
use crate::compose;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age, clean};

use super::Context;

/// Runs a verb of `giga factory`.
pub(super) async fn factory(context: &Context<'_>, command: FactoryCommand) -> Result<(), Failure> {
    match command {
        FactoryCommand::Run(args) => {
            let join = args.join();
            let membership = if args.pool.is_some() { compose::Membership::Pool } else { compose::Membership::None };
            Ok(compose::factory(&context.config, join.as_deref(), args.parent_watch(), membership).await?)
        }
        FactoryCommand::List => list(context).await,
        FactoryCommand::Show { id } => show(context, &id).await,
        FactoryCommand::Drain { id } => drain(context, &id, DrainRequest { draining: true }).await,
        FactoryCommand::Resume { id } => drain(context, &id, DrainRequest { draining: false }).await,
        FactoryCommand::Prune => prune(context).await,
        FactoryCommand::Remove { id } => remove(context, &id).await,
    }
}

async fn drain(context: &Context<'_>, factory: &FactoryId, drain: DrainRequest) -> Result<(), Failure> {
    let view: FactoryView = context.client()?.post(&format!("/factories/{factory}/drain"), &drain).await?;
    if context.out.is_json() {
        return context.out.document(&view);
    }
    let id = &view.id;
    if !view.draining {
        return context.out.line(&format!("{id} accepts work again"));
    }
    let running = match view.seats.len() {
        0 => "it takes no new jobs".to_owned(),
        1 => "it finishes 1 running job and takes no new ones".to_owned(),
        jobs => format!("it finishes {jobs} running jobs and takes no new ones"),
    };
    context.out.line(&format!("{id} is draining: {running}"))?;
    context.out.note(&format!("`giga factory resume {id}` resumes it"));
    Ok(())
}

async fn prune(context: &Context<'_>) -> Result<(), Failure> {
    let pruned: PruneResponse = context.client()?.post("/factories/prune", &serde_json::json!({})).await?;
    if context.out.is_json() {
        return context.out.document(&pruned);
    }
    if pruned.factories.is_empty() {
        context.out.note("no stale factories");
    }
    pruned.factories.iter().try_for_each(|factory| context.out.line(factory.as_str()))
}

async fn remove(context: &Context<'_>, factory: &FactoryId) -> Result<(), Failure> {
    let path = format!("/factories/{factory}");
    let answer: serde_json::Value = context.client()?.call(Method::DELETE, &path, None::<&()>).await?;
    if context.out.is_json() {
        return context.out.document(&answer);
    }
    context.out.line(&format!("{factory} is removed, its tokens are revoked"))
}

async fn show(context: &Context<'_>, factory: &FactoryId) -> Result<(), Failure> {
    let view: FactoryView = context.client()?.get(&format!("/factories/{factory}")).await?;
    if context.out.is_json() {
        return context.out.document(&view);
    }
    context.out.table(&table(context, std::slice::from_ref(&view)))?;
    if view.receives == Receives::Broker {
        context.out.note(&format!("{} receives offers from the broker", view.id));
    }
    Ok(())
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let factories: FactoryList = context.client()?.get("/factories").await?;
    if context.out.is_json() {
        return context.out.document(&factories);
    }
    let table = table(context, &factories.items);
    if table.is_empty() {
        context
            .out
            .note("no factories: start one with `giga up`, or enrol another machine with `giga token create --join`");
    }
    context.out.table(&table)?;
    let used: usize = factories.items.iter().map(|factory| factory.seats.len()).sum();
    let seats: u64 = factories.items.iter().map(|factory| u64::from(factory.seat_limit)).sum();
    if seats > 0 {
        let percent = protocol::percent_in_use(used as u64, seats);
        context.out.note(&format!("{used} of {seats} seats in use ({percent} %)"));
    }
    if let Some(draining) = factories.items.iter().find(|factory| factory.draining && factory.pool.is_none()) {
        context.out.note(&format!("`giga factory resume {}` resumes a draining factory", draining.id));
    }
    let is_unavailable = |engine: &EngineHealth| engine.problem.is_some() || engine.window_until.is_some();
    if factories.items.iter().flat_map(|factory| &factory.engines).any(is_unavailable) {
        resume_hints(context).await;
    }
    Ok(())
}

fn table(context: &Context<'_>, factories: &[FactoryView]) -> Table {
    let columns = ["FACTORY", "PRESENCE", "SEEN", "SEATS", "JOBS", "ENGINES", "CAPABILITIES"];
    let mut table = Table::new(&columns, "CAPABILITIES");
    for factory in factories {
        let seen = factory.last_heartbeat_at.map_or_else(String::new, |at| age(context.now(), at));
        let capabilities = factory.capabilities.iter().map(domain::Capability::as_str);
        let capabilities: Vec<&str> = capabilities.filter(|capability| !capability.starts_with("engine:")).collect();
        table.row(vec![
            factory.id.as_str().into(),
            presence(factory),
            seen.into(),
            format!("{}/{}", factory.seats.len(), factory.seat_limit).into(),
            jobs(factory).into(),
            engines(factory),
            capabilities.join(" ").into(),
        ]);
    }
    table
}

/// Prints how to resume a credential that is suspended until an operator resumes it. If it cannot be read, only the table is printed.
async fn resume_hints(context: &Context<'_>) {
    let Ok(client) = context.client() else { return };
    let Ok(known) = client.get::<CredentialList>("/credentials").await else { return };
    for one in known.items.iter().filter(|one| one.until.is_none()) {
        let why =
            if one.exhausted { "has no credit left: add some, then resume it" } else { "is suspended: resume it" };
        let credential = clean(&one.credential);
        context.out.note(&format!(
            "credential `{credential}` of `{}` {why} with `giga credential resume {credential}`",
            one.engine
        ));
    }
}

/// Each engine, and why it gets no work.
fn engines(factory: &FactoryView) -> Cell {
    let describe = |engine: &EngineHealth| {
        let version = engine.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
        let why = match (&engine.problem, engine.signed_in, engine.window_until) {
            (Some(problem), ..) => match engine.retry_at {
                Some(at) => format!("{problem}; next try at {}", at.to_the_second()),
                None => problem.clone(),
            },
            (None, Some(false), _) => "not signed in".to_owned(),
            (None, _, Some(until)) => format!("resets at {}", until.to_the_minute()),
            (None, _, None) => return format!("{}{version}", engine.name),
        };
        // To resume it earlier, the user has to name the credential.
        let credential =
            engine.credential.as_ref().map_or_else(String::new, |credential| format!("; credential {credential}"));
        format!("{}{version} ({why}{credential})", engine.name)
    };
    let is_unavailable = factory.engines.iter().any(|engine| !engine.is_usable() || engine.window_until.is_some());
    let text = factory.engines.iter().map(describe).collect::<Vec<_>>().join(", ");
    if is_unavailable { Cell::tinted(text, Tint::Warn) } else { text.into() }
}

fn presence(factory: &FactoryView) -> Cell {
    match factory.presence {
        Presence::Live if factory.draining => Cell::tinted("draining", Tint::Warn),
        Presence::Live => Cell::tinted("live", Tint::Good),
        Presence::Disconnected => Cell::tinted("disconnected", Tint::Bad),
        Presence::Warming => Cell::tinted("warming", Tint::Warn),
        Presence::Stale => Cell::tinted("stale", Tint::Bad),
        Presence::Stopped => Cell::tinted("stopped", Tint::Warn),
    }
}

fn jobs(factory: &FactoryView) -> String {
    let titles = factory.seats.iter().map(|seat| match seat.dispatched_only {
        true => format!("{} (offered)", seat.title),
        false => seat.title.clone(),
    });
    titles.collect::<Vec<_>>().join(", ")
}
