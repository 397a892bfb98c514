//! `giga factories`

use domain::{EngineHealth, FactoryId};
use protocol::{CredentialList, DrainRequest, FactoryList, FactoryView, Presence, PruneResponse, ResumeCredential};

use crate::cli::FactoriesArgs;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age, clean};

use super::Context;

/// Lists factories, or takes one out of service.
pub(super) async fn factories(context: &Context<'_>, args: FactoriesArgs) -> Result<(), Failure> {
    match args {
        FactoriesArgs { drain: Some(factory), .. } => drain(context, &factory, DrainRequest { draining: true }).await,
        FactoriesArgs { resume: Some(factory), .. } => drain(context, &factory, DrainRequest { draining: false }).await,
        FactoriesArgs { prune: true, .. } => prune(context).await,
        FactoriesArgs { reopen: Some(login), .. } => reopen(context, login).await,
        FactoriesArgs { .. } => list(context).await,
    }
}

async fn drain(context: &Context<'_>, factory: &FactoryId, drain: DrainRequest) -> Result<(), Failure> {
    let view: FactoryView = context.client()?.post(&format!("/factories/{factory}/drain"), &drain).await?;
    if context.out.is_json() {
        return context.out.document(&view);
    }
    let does = if view.draining { "takes nothing new" } else { "takes work again" };
    context.out.line(&format!("{} {does}", view.id))?;
    if !view.draining {
        return Ok(());
    }
    match view.seats.len() {
        0 => {}
        1 => context.out.note("it still works on 1 job"),
        jobs => context.out.note(&format!("it still works on {jobs} jobs")),
    }
    context.out.note(&format!("`giga factories --resume {}` lets it take work again", view.id));
    Ok(())
}

async fn prune(context: &Context<'_>) -> Result<(), Failure> {
    let pruned: PruneResponse = context.client()?.post("/factories/prune", &serde_json::json!({})).await?;
    if context.out.is_json() {
        return context.out.document(&pruned);
    }
    if pruned.factories.is_empty() {
        context.out.note("every factory is still there: nothing to forget");
    }
    pruned.factories.iter().try_for_each(|factory| context.out.line(factory.as_str()))
}

async fn reopen(context: &Context<'_>, credential: String) -> Result<(), Failure> {
    let request = ResumeCredential { credential };
    let left: CredentialList = context.client()?.post("/credentials/reopen", &request).await?;
    if context.out.is_json() {
        return context.out.document(&left);
    }
    context.out.line(&format!("{} gets work again", clean(&request.credential)))
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let factories: FactoryList = context.client()?.get("/factories").await?;
    if context.out.is_json() {
        return context.out.document(&factories);
    }
    let columns = ["FACTORY", "PRESENCE", "SEEN", "SEATS", "WORKS ON", "ENGINES", "OFFERS"];
    let mut table = Table::new(&columns, "OFFERS");
    for factory in &factories.items {
        let seen = factory.last_heartbeat_at.map_or_else(String::new, |at| age(context.now(), at));
        let offers = factory.capabilities.iter().map(domain::Capability::as_str);
        let offers: Vec<&str> = offers.filter(|token| !token.starts_with("engine:")).collect();
        table.row(vec![
            factory.id.as_str().into(),
            presence(factory),
            seen.into(),
            format!("{}/{}", factory.seats.len(), factory.seat_limit).into(),
            works_on(factory).into(),
            engines(factory),
            offers.join(" ").into(),
        ]);
    }
    if table.is_empty() {
        context.out.note(
            "no factories yet: `giga up` brings one, or make a token with `giga token create --join` \
             and run `giga factory` on another machine",
        );
    }
    context.out.table(&table)?;
    if let Some(draining) = factories.items.iter().find(|factory| factory.draining) {
        context.out.note(&format!("`giga factories --resume {}` lets a draining one take work again", draining.id));
    }
    let is_resting = |engine: &EngineHealth| engine.problem.is_some() || engine.window_until.is_some();
    if factories.items.iter().flat_map(|factory| &factory.engines).any(is_resting) {
        resume_hints(context).await;
    }
    Ok(())
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
            "login `{credential}` of `{}` {why} with `giga factories --reopen {credential}`",
            one.engine
        ));
    }
}

/// Each engine, and why it gets no work.
fn engines(factory: &FactoryView) -> Cell {
    let said = |engine: &EngineHealth| {
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
        let login = engine.credential.as_ref().map_or_else(String::new, |login| format!("; login {login}"));
        format!("{}{version} ({why}{login})", engine.name)
    };
    let is_resting = factory.engines.iter().any(|engine| !engine.is_usable() || engine.window_until.is_some());
    let text = factory.engines.iter().map(said).collect::<Vec<_>>().join(", ");
    if is_resting { Cell::tinted(text, Tint::Warn) } else { text.into() }
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

fn works_on(factory: &FactoryView) -> String {
    let titles = factory.seats.iter().map(|seat| match seat.dispatched_only {
        true => format!("{} (offered)", seat.title),
        false => seat.title.clone(),
    });
    titles.collect::<Vec<_>>().join(", ")
}
