//! `giga products`

use domain::Product;
use http::Method;
use protocol::{ProductList, ProductSettings};

use crate::cli::{ProductSetArgs, ProductsCommand};
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint};

use super::Context;

/// Lists products, or changes one.
pub(super) async fn products(context: &Context<'_>, command: Option<ProductsCommand>) -> Result<(), Failure> {
    match command {
        Some(ProductsCommand::Set(args)) => set(context, args).await,
        None => list(context).await,
    }
}

async fn set(context: &Context<'_>, args: ProductSetArgs) -> Result<(), Failure> {
    let settings = ProductSettings {
        repos: args.repos.map(|repos| repos.into_iter().collect()),
        paused: match (args.pause, args.resume) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        },
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
    // A name that was mistyped is seen by this alone.
    let did = if known.items.iter().any(|known| known.id == product.id) { "changed" } else { "made" };
    context.out.note(&format!("{did} product `{}`", product.id));
    way_back(context, &settings, &product);
    context.out.table(&table(&[product]))
}

/// How what was switched on just now is switched off again.
fn way_back(context: &Context<'_>, settings: &ProductSettings, product: &Product) {
    let id = &product.id;
    if settings.auto_ship == Some(true) {
        context.out.note(&format!(
            "what is ready ships by itself: `giga products set {id} --no-auto-ship` has it wait for `giga ship` again"
        ));
    }
    if settings.paused == Some(true) {
        context.out.note(&format!("nothing new starts: `giga products set {id} --resume` lets it"));
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let products: ProductList = context.client()?.get("/products").await?;
    if context.out.is_json() {
        return context.out.document(&products);
    }
    context.out.table(&table(&products.items))
}

fn table(products: &[Product]) -> Table {
    let mut table = Table::new(&["PRODUCT", "STATE", "SHIPS", "WEIGHT", "REPOS"], "REPOS");
    for product in products {
        let state = if product.paused { Cell::tinted("paused", Tint::Warn) } else { Cell::tinted("open", Tint::Good) };
        let repos: Vec<&str> = product.repos.iter().map(domain::RepoName::as_str).collect();
        table.row(vec![
            product.id.as_str().into(),
            state,
            if product.auto_ship { "by itself" } else { "when asked" }.into(),
            product.weight.to_string().into(),
            repos.join(" ").into(),
        ]);
    }
    table
}
