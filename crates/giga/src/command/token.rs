//! `giga token`

use std::collections::BTreeSet;

use domain::{ProductId, TokenId, TokenScope};
use http::Method;
use protocol::{CreateTokenRequest, CreateTokenResponse, TokenList, TokenView};
use serde::Serialize;

use crate::cli::{RoleName, TokenCommand, TokenCreateArgs};
use crate::config::{is_fingerprint, is_loopback};
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
    if args.role == Some(RoleName::Admin) && !args.products.is_empty() {
        return Err(Failure::usage("an admin token is not limited to products")
            .hint("remove `--products`, or use `--role operator`"));
    }
    let ttl_seconds = args.ttl.as_ref().map(|ttl| ttl.0.as_secs());
    let (grant, default_name) = grant(&args);
    let new = CreateTokenRequest {
        name: args.name.clone().or_else(|| args.owner.clone()).unwrap_or(default_name),
        grant,
        ttl_seconds,
        owner: args.owner.clone(),
        forge_login: args.forge_login.clone(),
    };
    let client = context.client()?;
    let made: CreateTokenResponse = client.post("/tokens", &new).await?;
    let out = context.out;
    let joining = args.join.then(|| JoinCommand::of(context, client.base(), &args, &made));
    if out.is_json() {
        let command = joining.map(|joining| joining.command);
        return out.document(&CreatedToken { made: &made, command });
    }
    out.line(&made.secret)?;
    out.note(&format!("token {} for {}: the secret is shown this once", made.token.id, made.token.name));
    if let Some(at) = made.token.expires_at {
        out.note(&format!("it expires at {at}"));
    }
    if let Some(JoinCommand { command, remark }) = joining {
        out.note(&format!("on the other machine, run:\n\n  {command}\n"));
        remark.iter().for_each(|remark| out.note(remark));
    }
    Ok(())
}

#[derive(Serialize)]
struct CreatedToken<'m> {
    #[serde(flatten)]
    made: &'m CreateTokenResponse,
    /// What enrols the factory, for a shell of the other machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

/// What the user runs on the other machine.
struct JoinCommand {
    command: String,
    /// What the command line cannot contain.
    remark: Option<String>,
}

impl JoinCommand {
    fn of(context: &Context<'_>, base: &str, args: &TokenCreateArgs, made: &CreateTokenResponse) -> Self {
        let place = made.coordinator.clone().unwrap_or_default();
        // An address that this client reaches from elsewhere is good; of a coordinator on this machine its own word counts.
        let is_near = is_loopback(base);
        let address = if is_near { place.addresses.first().map_or(base, String::as_str) } else { base };
        let own_ca = context.config.client.ca.value.as_deref().filter(|_| !is_near);
        let pin = own_ca.filter(|ca| is_fingerprint(ca)).map(|ca| ca.display().to_string()).or(place.certificate);
        let remark = if is_near && place.addresses.is_empty() {
            Some(format!(
                "{base} can be reached from this machine alone: for other machines start the coordinator with --listen, \
                 --tls-cert, --tls-key and --host, or use a tunnel"
            ))
        } else {
            let file = own_ca.filter(|_| pin.is_none());
            file.map(|file| {
                format!("copy {} to the other machine and put GIGA_CA=FILE in front of the command", file.display())
            })
        };
        let pin = pin.map_or_else(String::new, |pin| format!("GIGA_CA={pin} "));
        let pool = args.pool.as_ref().map_or_else(String::new, |pool| format!("--pool {pool} "));
        let name = args.factory.as_ref().map_or_else(String::new, |name| format!("--name {name} "));
        Self { command: format!("GIGA_API={address} {pin}giga factory run {pool}{name}--join {}", made.secret), remark }
    }
}

fn grant(args: &TokenCreateArgs) -> (TokenScope, String) {
    let products: BTreeSet<ProductId> = args.products.iter().cloned().collect();
    match args.role {
        Some(RoleName::Admin) => (TokenScope::Admin, "admin".to_owned()),
        Some(RoleName::Operator) => (TokenScope::Operator { products }, "operator".to_owned()),
        Some(RoleName::Viewer) => (TokenScope::Viewer { products }, "viewer".to_owned()),
        None => {
            let name = args.factory.as_ref().map_or_else(|| "join".to_owned(), |factory| format!("join {factory}"));
            let capabilities = args.capabilities.iter().cloned().collect();
            let name =
                args.pool.as_ref().filter(|_| args.factory.is_none()).map_or(name, |pool| format!("join pool {pool}"));
            (TokenScope::Join { factory: args.factory.clone(), products, capabilities, pool: args.pool.clone() }, name)
        }
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let tokens: TokenList = context.client()?.get("/tokens").await?;
    if context.out.is_json() {
        return context.out.document(&tokens);
    }
    let mut table = Table::new(&["ID", "NAME", "PERSON", "ALLOWS", "UNTIL"], "ALLOWS");
    for token in &tokens.items {
        table.row(vec![
            token.id.to_string().into(),
            token.name.as_str().into(),
            person(token).into(),
            allows(token).into(),
            token.expires_at.map_or_else(|| "never expires".to_owned(), |at| at.to_string()).into(),
        ]);
    }
    context.out.table(&table)
}

/// The person that the token acts for in reviews, with the login on the forge; a factory is none.
fn person(token: &TokenView) -> String {
    if matches!(token.grant, TokenScope::Factory { .. } | TokenScope::Join { .. }) {
        return String::new();
    }
    let person = token.owner.as_deref().unwrap_or(&token.name);
    token.forge_login.as_ref().map_or_else(|| person.to_owned(), |login| format!("{person} (@{login})"))
}

fn allows(token: &TokenView) -> String {
    let of = |products: &BTreeSet<ProductId>| {
        let names: Vec<&str> = products.iter().map(ProductId::as_str).collect();
        if names.is_empty() { "all products".to_owned() } else { names.join(" ") }
    };
    match &token.grant {
        TokenScope::Admin => "admin".to_owned(),
        TokenScope::Operator { products } => format!("operator of {}", of(products)),
        TokenScope::Viewer { products } => format!("viewer of {}", of(products)),
        TokenScope::Factory { factory, products, .. } => format!("factory {factory} for {}", of(products)),
        TokenScope::Join { factory: Some(factory), products, .. } => {
            format!("enrol {factory} once for {}", of(products))
        }
        TokenScope::Join { factory: None, pool: Some(pool), products, .. } => {
            format!("enrol factories of pool {pool} for {}", of(products))
        }
        TokenScope::Join { factory: None, products, .. } => format!("enrol a factory once for {}", of(products)),
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
