//! `giga artifact`

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use client::{Client, Query};
use domain::{ArtifactId, byte_size, counted};
use http::Method;
use protocol::{ArtifactList, ArtifactView};
use sha2::{Digest, Sha256};

use crate::cli::{ArtifactCommand, ArtifactGetArgs};
use crate::failure::Failure;
use crate::output::{Table, age, clean};

use super::Context;
use super::job_id::find;

/// Runs a verb of `giga artifact`.
pub(super) async fn artifact(context: &Context<'_>, command: ArtifactCommand) -> Result<(), Failure> {
    match command {
        ArtifactCommand::List { job } => list(context, &job).await,
        ArtifactCommand::Get(args) => get(context, &args).await,
        ArtifactCommand::Remove { artifact } => remove(context, &artifact).await,
    }
}

async fn list(context: &Context<'_>, job: &str) -> Result<(), Failure> {
    let client = context.client()?;
    let found = artifacts_of(&client, job).await?;
    if context.out.is_json() {
        return context.out.document(&found);
    }
    if found.items.is_empty() {
        context.out.note("no artifacts: `artifacts` in the manifest names the files to attach after a run");
        return Ok(());
    }
    let mut table = Table::new(&["ID", "NAME", "SIZE", "TYPE", "RUN", "ATTACHED"], "NAME");
    for artifact in &found.items {
        table.row(vec![
            short(artifact.id).into(),
            clean(artifact.name.as_str()).into(),
            byte_size(artifact.bytes).into(),
            artifact.content_type.as_str().into(),
            artifact.run.to_string().into(),
            format!("{} ago", age(context.now(), artifact.at)).into(),
        ]);
    }
    context.out.table(&table)?;
    let (used, max) = (byte_size(found.bytes), byte_size(found.bytes_max));
    context.out.note(&format!("{}, {used} of {max}", counted(found.items.len() as u64, "artifact")));
    Ok(())
}

async fn get(context: &Context<'_>, args: &ArtifactGetArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let artifact = find_artifact(&client, &args.artifact).await?;
    let path = format!("/artifacts/{}?proxied=true", artifact.id);
    if args.output.as_deref() == Some(Path::new("-")) {
        let mut bytes = client.download(&path, "etag").await?.bytes;
        while let Some(piece) = bytes.next().await? {
            context.out.bytes(&piece)?;
        }
        return Ok(());
    }
    let to = match &args.output {
        Some(path) => path.clone(),
        None => default_file(&artifact)?,
    };
    // Neither a file nor the target of a link is ever overwritten.
    let opened = OpenOptions::new().write(true).create_new(true).open(&to);
    let mut file = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::failed(format!("{} exists, not changed", to.display()))
            .hint("write it elsewhere with --output FILE"),
        _ => Failure::failed(format!("cannot write {}: {error}", to.display())),
    })?;
    let fetched = fetch(&client, &path, &artifact, &mut file).await;
    if let Err(failure) = fetched {
        let _ = std::fs::remove_file(&to);
        return Err(failure);
    }
    if context.out.is_json() {
        return context.out.document(&artifact);
    }
    context.out.line(&to.display().to_string())?;
    context.out.note(&format!("{}, the SHA-256 digest matches", byte_size(artifact.bytes)));
    Ok(())
}

async fn fetch(client: &Client, path: &str, artifact: &ArtifactView, file: &mut std::fs::File) -> Result<(), Failure> {
    let mut bytes = client.download(path, "etag").await?.bytes;
    let mut digest = Sha256::new();
    while let Some(piece) = bytes.next().await? {
        digest.update(&piece);
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    if domain::Sha256::of(digest.finalize().into()) != artifact.sha256 {
        let failure = Failure::failed("the bytes do not match the artifact's digest: the file was removed");
        return Err(failure.hint("try again; if it persists, the blob store is damaged"));
    }
    Ok(())
}

/// The last part of the name. A hidden file is written only where the user says so.
fn default_file(artifact: &ArtifactView) -> Result<PathBuf, Failure> {
    match artifact.name.file_name() {
        name if name.starts_with('.') => {
            Err(Failure::usage(format!("the name `{}` begins with a dot", clean(artifact.name.as_str())))
                .hint("name the file with --output FILE"))
        }
        name => Ok(PathBuf::from(name)),
    }
}

async fn remove(context: &Context<'_>, artifact: &str) -> Result<(), Failure> {
    let client = context.client()?;
    let artifact = find_artifact(&client, artifact).await?;
    let removed: ArtifactView =
        client.call::<(), _>(Method::DELETE, &format!("/artifacts/{}", artifact.id), None).await?;
    if context.out.is_json() {
        return context.out.document(&removed);
    }
    context.out.note(&format!("removed {} ({})", clean(removed.name.as_str()), byte_size(removed.bytes)));
    Ok(())
}

async fn artifacts_of(client: &Client, job: &str) -> Result<ArtifactList, Failure> {
    let id = find(client, job).await?;
    Ok(client.get(Query::new(format!("/jobs/{id}/artifacts")).as_str()).await?)
}

/// The artifact that an id means: whole, or the last characters of the job's id, `-` and the number.
async fn find_artifact(client: &Client, given: &str) -> Result<ArtifactView, Failure> {
    let missing = || Failure::not_found(format!("no artifact `{}`", clean(given))).hint("see `giga artifact list JOB`");
    let (job, n) = given.rsplit_once('-').ok_or_else(missing)?;
    let n: u32 = n.parse().map_err(|_| missing())?;
    let found = artifacts_of(client, job).await?;
    found.items.into_iter().find(|artifact| artifact.id.n() == n).ok_or_else(missing)
}

/// The job's short id and the number.
fn short(id: ArtifactId) -> String {
    format!("{}-{}", id.job().short(), id.n())
}
