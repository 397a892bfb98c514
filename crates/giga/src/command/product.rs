//! `giga product list`

use std::collections::BTreeMap;

use domain::{Product, ProductId, RepoName, RunningWork, ScoreWeights};
use http::Method;
use protocol::{BudgetView, PauseRequest, ProductList, ProductSettings};

use crate::cli::{ProductCommand, ProductSetArgs, RepoSeats, TermWeight};
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint};

use super::Context;

/// Runs a verb of `giga product`.
pub(super) async fn product(context: &Context<'_>, command: ProductCommand) -> Result<(), Failure> {
    match command {
        ProductCommand::List => list(context).await,
        ProductCommand::Show { name } => show(context, &name).await,
        ProductCommand::Set(args) => set(context, args).await,
        ProductCommand::Pause { name, reason } => pause(context, &name, reason).await,
        ProductCommand::Resume { name } => resume(context, &name).await,
    }
}

async fn set(context: &Context<'_>, args: ProductSetArgs) -> Result<(), Failure> {
    let path = format!("/products/{}", args.name);
    let client = context.client()?;
    let known: ProductList = client.get("/products").await?;
    let before = known.items.iter().find(|known| known.id == args.name);
    let before = before.cloned().unwrap_or_else(|| Product::new(args.name.clone()));
    let settings = ProductSettings {
        repos: args.repos.map(|repos| repos.into_iter().collect()),
        paused: None,
        auto_ship: if args.no_auto_ship { Some(false) } else { args.auto_ship },
        weight: args.weight,
        repo_seats: (!args.repo_seats.is_empty()).then(|| with_seats(before.repo_seats, &args.repo_seats)),
        score_weights: (!args.score_weights.is_empty())
            .then(|| with_weights(before.score_weights, &args.score_weights)),
    };
    let product: Product = client.call(Method::PUT, &path, Some(&settings)).await?;
    if context.out.is_json() {
        return context.out.document(&product);
    }
    // Shows a mistyped name: it creates a product.
    let did = if known.items.iter().any(|known| known.id == product.id) { "updated" } else { "created" };
    context.out.note(&format!("{did} product `{}`", product.id));
    if settings.auto_ship == Some(true) {
        context.out.note(&format!(
            "verified jobs ship automatically; `giga product set {} --no-auto-ship` disables that",
            product.id
        ));
    }
    context.out.table(&table(&[product]))
}

/// The limits after a change; the other repositories keep theirs.
fn with_seats(mut seats: BTreeMap<RepoName, u32>, changes: &[RepoSeats]) -> BTreeMap<RepoName, u32> {
    for RepoSeats { repo, seats: limit } in changes {
        match limit {
            Some(limit) => drop(seats.insert(repo.clone(), *limit)),
            None => drop(seats.remove(repo)),
        }
    }
    seats
}

/// The weights after a change; the other terms keep theirs.
fn with_weights(mut weights: ScoreWeights, changes: &[TermWeight]) -> ScoreWeights {
    for TermWeight { term, weight } in changes {
        if let Some(place) = weights.term_mut(term) {
            *place = *weight;
        }
    }
    weights
}

/// Pauses a product that exists.
async fn pause(context: &Context<'_>, name: &ProductId, reason: Option<String>) -> Result<(), Failure> {
    let client = context.client()?;
    let product: Product = client.post(&format!("/budgets/{name}/pause"), &PauseRequest { reason }).await?;
    if context.out.is_json() {
        return context.out.document(&product);
    }
    let id = &product.id;
    let budget: BudgetView = client.get(&format!("/budgets/{id}")).await?;
    let running = match budget.running {
        RunningWork::Finish => "running jobs finish",
        RunningWork::Release => "running jobs save their work and return to the queue",
        RunningWork::Stop => "running jobs are stopped and return to the queue",
    };
    context.out.line(&format!("{id} is paused: {running}, no new ones start"))?;
    context.out.note(&format!("`giga product resume {id}` resumes it"));
    Ok(())
}

/// Resumes a product that exists.
async fn resume(context: &Context<'_>, name: &ProductId) -> Result<(), Failure> {
    let client = context.client()?;
    let product: Product = client.post(&format!("/budgets/{name}/resume"), &serde_json::json!({})).await?;
    if context.out.is_json() {
        return context.out.document(&product);
    }
    context.out.line(&format!("{} starts new jobs again", product.id))
}

async fn show(context: &Context<'_>, name: &ProductId) -> Result<(), Failure> {
    let product: Product = context.client()?.get(&format!("/products/{name}")).await?;
    if context.out.is_json() {
        return context.out.document(&product);
    }
    context.out.table(&table(std::slice::from_ref(&product)))?;
    for (repo, seats) in &product.repo_seats {
        context.out.line(&format!("{repo}: at most {} at a time in the fleet", domain::counted(*seats, "job")))?;
    }
    if let Some(weights) = protocol::weights_text(&scheduler::Weights::default().with(&product.score_weights)) {
        context.out.line(&format!("weights of its placement score: {weights}"))?;
    }
    Ok(())
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let products: ProductList = context.client()?.get("/products").await?;
    if context.out.is_json() {
        return context.out.document(&products);
    }
    context.out.table(&table(&products.items))
}

fn table(products: &[Product]) -> Table {
    let mut table = Table::new(&["PRODUCT", "STATE", "SHIP", "WEIGHT", "REPOS"], "REPOS");
    for product in products {
        let state =
            if product.paused { Cell::tinted("paused", Tint::Warn) } else { Cell::tinted("active", Tint::Good) };
        let repos: Vec<&str> = product.repos.iter().map(domain::RepoName::as_str).collect();
        table.row(vec![
            product.id.as_str().into(),
            state,
            if product.auto_ship { "automatic" } else { "manual" }.into(),
            product.weight.to_string().into(),
            repos.join(" ").into(),
        ]);
    }
    table
}
