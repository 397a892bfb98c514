//! `giga product list`

use domain::{Product, ProductId};
use http::Method;
use protocol::{ProductList, ProductSettings};

use crate::cli::{ProductCommand, ProductSetArgs};
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint};

use super::Context;

/// Runs a verb of `giga product`.
pub(super) async fn product(context: &Context<'_>, command: ProductCommand) -> Result<(), Failure> {
    match command {
        ProductCommand::List => list(context).await,
        ProductCommand::Show { name } => show(context, &name).await,
        ProductCommand::Set(args) => set(context, args).await,
        ProductCommand::Pause { name } => pause(context, &name, Some(true)).await,
        ProductCommand::Resume { name } => pause(context, &name, Some(false)).await,
    }
}

async fn set(context: &Context<'_>, args: ProductSetArgs) -> Result<(), Failure> {
    let settings = ProductSettings {
        repos: args.repos.map(|repos| repos.into_iter().collect()),
        paused: None,
        auto_ship: if args.no_auto_ship { Some(false) } else { args.auto_ship },
        weight: args.weight,
        repo_seats: None,
    };
    let path = format!("/products/{}", args.name);
    let client = context.client()?;
    let known: ProductList = client.get("/products").await?;
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

/// Pauses or resumes a product that exists.
async fn pause(context: &Context<'_>, name: &ProductId, paused: Option<bool>) -> Result<(), Failure> {
    let client = context.client()?;
    let path = format!("/products/{name}");
    // PUT would create a product with a mistyped name.
    client.get::<Product>(&path).await?;
    let settings = ProductSettings { paused, ..ProductSettings::default() };
    let product: Product = client.call(Method::PUT, &path, Some(&settings)).await?;
    if context.out.is_json() {
        return context.out.document(&product);
    }
    let id = &product.id;
    if product.paused {
        context.out.line(&format!("{id} is paused: running jobs finish, no new ones start"))?;
        context.out.note(&format!("`giga product resume {id}` resumes it"));
        return Ok(());
    }
    context.out.line(&format!("{id} starts new jobs again"))
}

async fn show(context: &Context<'_>, name: &ProductId) -> Result<(), Failure> {
    let product: Product = context.client()?.get(&format!("/products/{name}")).await?;
    if context.out.is_json() {
        return context.out.document(&product);
    }
    context.out.table(&table(&[product]))
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
