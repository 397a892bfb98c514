//! `giga token`

use std::collections::BTreeSet;

use domain::{Grant, ProductId, TokenId};
use http::Method;
use protocol::{NewToken, TokenList, TokenMade, TokenView};

use crate::cli::{RoleName, TokenCommand, TokenCreateArgs};
use crate::failure::Failure;
use crate::output::Table;

use super::Context;

/// Makes, lists and revokes tokens.
pub(super) async fn token(context: &Context<'_>, command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(args) => create(context, args).await,
        TokenCommand::List => list(context).await,
        TokenCommand::Revoke { id } => revoke(context, &id).await,
    }
}

async fn create(context: &Context<'_>, args: TokenCreateArgs) -> Result<(), Failure> {
    let ttl_seconds = args.ttl.map(|ttl| ttl.0.as_secs());
    let (grant, default_name) = grant(&args);
    let new = NewToken { name: args.name.unwrap_or(default_name), grant, ttl_seconds };
    let client = context.client()?;
    let made: TokenMade = client.post("/tokens", &new).await?;
    let out = context.out;
    if out.is_json() {
        return out.document(&made);
    }
    out.line(&made.secret)?;
    out.note(&format!("token {} for {}: the secret is shown this once", made.token.id, made.token.name));
    if let Some(at) = made.token.expires_at {
        out.note(&format!("it is good until {at}"));
    }
    if args.join {
        out.note(&format!("on the other machine: giga factory --api {} --join TOKEN", client.base()));
    }
    Ok(())
}

fn grant(args: &TokenCreateArgs) -> (Grant, String) {
    let products: BTreeSet<ProductId> = args.products.iter().cloned().collect();
    match args.role {
        Some(RoleName::Admin) => (Grant::Admin, "admin".to_owned()),
        Some(RoleName::Operator) => (Grant::Operator { products }, "operator".to_owned()),
        Some(RoleName::Viewer) => (Grant::Viewer { products }, "viewer".to_owned()),
        None => {
            let name = args.factory.as_ref().map_or_else(|| "join".to_owned(), |factory| format!("join {factory}"));
            let capabilities = args.capabilities.iter().cloned().collect();
            (Grant::Join { factory: args.factory.clone(), products, capabilities }, name)
        }
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let tokens: TokenList = context.client()?.get("/tokens").await?;
    if context.out.is_json() {
        return context.out.document(&tokens);
    }
    let mut table = Table::new(&["ID", "NAME", "ALLOWS", "UNTIL"], "ALLOWS");
    for token in &tokens.items {
        table.row(vec![
            token.id.to_string().into(),
            token.name.as_str().into(),
            allows(token).into(),
            token.expires_at.map_or_else(|| "for ever".to_owned(), |at| at.to_string()).into(),
        ]);
    }
    context.out.table(&table)
}

fn allows(token: &TokenView) -> String {
    let of = |products: &BTreeSet<ProductId>| {
        let names: Vec<&str> = products.iter().map(ProductId::as_str).collect();
        if names.is_empty() { "all products".to_owned() } else { names.join(" ") }
    };
    match &token.grant {
        Grant::Admin => "admin".to_owned(),
        Grant::Operator { products } => format!("operator of {}", of(products)),
        Grant::Viewer { products } => format!("viewer of {}", of(products)),
        Grant::Factory { factory, products, .. } => format!("factory {factory} for {}", of(products)),
        Grant::Join { factory: Some(factory), products, .. } => format!("enrol {factory} once for {}", of(products)),
        Grant::Join { factory: None, products, .. } => format!("enrol a factory once for {}", of(products)),
    }
}

async fn revoke(context: &Context<'_>, id: &str) -> Result<(), Failure> {
    let id: TokenId = id.parse().map_err(|_| {
        // It may be a secret, given by mistake: not repeated.
        Failure::usage("that is not the id of a token").hint("`giga token list` shows the ids")
    })?;
    let path = format!("/tokens/{id}");
    let answer: serde_json::Value = context.client()?.call(Method::DELETE, &path, None::<&()>).await?;
    if context.out.is_json() {
        return context.out.document(&answer);
    }
    context.out.line(&format!("{id} is revoked"))
}
