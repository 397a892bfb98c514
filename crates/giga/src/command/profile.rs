//! `giga profile list`

use std::io::IsTerminal;

use domain::{ProfileOwner, ProfileRef, ProfileText};
use protocol::{CreateProfileRequest, CreateProfileResponse, ProfileDetail, ProfileList, ProfileView};

use crate::cli::{ProfileCommand, ProfileCreateArgs, ProfileShowArgs};
use crate::failure::Failure;
use crate::output::{Table, age, clean, clean_lines};
use crate::profile_files;

use super::Context;
use super::submit::source;

/// Runs a verb of `giga profile`.
pub(super) async fn profile(context: &Context<'_>, command: ProfileCommand) -> Result<(), Failure> {
    match command {
        ProfileCommand::List => list(context).await,
        ProfileCommand::Show(args) => show(context, args).await,
        ProfileCommand::Create(args) => create(context, args).await,
    }
}

async fn list(context: &Context<'_>) -> Result<(), Failure> {
    let profiles: ProfileList = context.client()?.get("/profiles").await?;
    if context.out.is_json() {
        return context.out.document(&profiles);
    }
    if profiles.items.is_empty() {
        context.out.note("no profile yet: `giga init` writes six samples, `giga profile create FILE` creates one");
        return Ok(());
    }
    let mut table = Table::new(&["PROFILE", "FOR", "CREATED", "SETS", "DESCRIPTION"], "DESCRIPTION");
    for profile in &profiles.items {
        table.row(vec![
            profile.reference().to_string().into(),
            owner(&profile.product_id).into(),
            format!("{} ago", age(context.now(), profile.created_at)).into(),
            sets(profile).into(),
            profile.description.as_deref().unwrap_or_default().into(),
        ]);
    }
    context.out.table(&table)
}

async fn show(context: &Context<'_>, args: ProfileShowArgs) -> Result<(), Failure> {
    let ProfileRef { name, version } = args.profile;
    let query = version.map_or_else(String::new, |version| format!("?version={version}"));
    let detail: ProfileDetail = context.client()?.get(&format!("/profiles/{name}{query}")).await?;
    let out = context.out;
    if out.is_json() {
        return out.document(&detail);
    }
    if args.text {
        // A file gets it byte for byte, a terminal nothing that moves its cursor.
        return match std::io::stdout().is_terminal() {
            true => out.line(&clean_lines(&detail.body_md)),
            false => out.bytes(detail.body_md.as_bytes()),
        };
    }
    let profile = &detail.profile;
    let defaults = &profile.defaults;
    let list = |items: Vec<String>| (!items.is_empty()).then(|| items.join(", "));
    let newest = detail.versions.first().map_or(profile.version, |newest| newest.version);
    let version = match newest == profile.version {
        true => format!("{} (the newest)", profile.version),
        false => format!("{} (the newest is {newest})", profile.version),
    };
    let budget = [
        defaults.budget.usd.map(domain::dollars),
        defaults.budget.wall_ms.map(|ms| crate::output::span(std::time::Duration::from_millis(ms))),
        defaults.budget.tokens.map(|tokens| format!("{} tokens", domain::grouped(tokens))),
    ];
    let models = defaults.models.iter().map(|(engine, model)| format!("{engine}: {model}")).collect();
    let rows = [
        ("profile", Some(profile.name.to_string())),
        ("for", profile.description.clone()),
        ("version", Some(version)),
        ("usable by", Some(owner(&profile.product_id))),
        ("needs", list(defaults.capabilities.iter().map(ToString::to_string).collect())),
        ("engines", list(defaults.engines.iter().map(ToString::to_string).collect())),
        ("models", list(models)),
        ("budget", list(budget.into_iter().flatten().collect())),
        ("verify", list(defaults.verify.clone())),
        ("created", Some(format!("{} ago, by {}", age(context.now(), profile.created_at), profile.created_by))),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            out.line(&format!("{name:<11} {}", clean(&value)))?;
        }
    }
    if !detail.persona.is_empty() {
        out.line("")?;
        out.line(&clean_lines(&detail.persona))?;
    }
    Ok(())
}

async fn create(context: &Context<'_>, args: ProfileCreateArgs) -> Result<(), Failure> {
    let mut requests = Vec::new();
    let mut bad = Vec::new();
    for file in &args.files {
        let source = source::read(file)?;
        if let Err(findings) = ProfileText::parse(&source.text) {
            source::print(context.out, &source.name, &findings);
            bad.push(source.name);
            continue;
        }
        let name = match &args.name {
            Some(name) => name.clone(),
            None => profile_files::name_of(file).map_err(|why| {
                Failure::usage(format!("{}: {why}", source.name)).hint("name the profile with --name")
            })?,
        };
        let product_id = args.fleet.then_some(ProfileOwner::Fleet);
        requests.push(CreateProfileRequest { name, product_id, body_md: source.text });
    }
    if !bad.is_empty() {
        let verb = if bad.len() == 1 { "has" } else { "have" };
        let failure = Failure::failed(format!("{} {verb} errors: nothing was created", bad.join(", ")));
        return Err(failure.hint("docs/how-to/profiles.md shows what a profile looks like"));
    }
    let client = context.client()?;
    let mut created = Vec::new();
    for request in requests {
        created.push(client.post::<_, CreateProfileResponse>("/profiles", &request).await?);
    }
    if context.out.is_json() {
        return context.out.document(&created);
    }
    for made in &created {
        let profile = &made.profile.profile;
        context.out.line(&profile.reference().to_string())?;
        let did = if made.created { "created" } else { "already exists with this text:" };
        context.out.note(&format!("{did} `{}`, usable by {}", profile.reference(), owner(&profile.product_id)));
    }
    Ok(())
}

fn owner(owner: &ProfileOwner) -> String {
    match owner {
        ProfileOwner::Fleet => "every product".to_owned(),
        ProfileOwner::Product(product) => product.to_string(),
    }
}

fn sets(profile: &ProfileView) -> String {
    profile.defaults.keys().join(" ")
}
