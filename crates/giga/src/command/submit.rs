//! `giga submit`

pub(super) mod source;

use client::Client;
use domain::StageName;
use protocol::{BatchOutcome, BatchRequest, BatchResponse, SubmitRequest, SubmitResponse};

use crate::cli::{SubmitArgs, Until};
use crate::failure::Failure;
use crate::output::clean;

use super::wait::UnplaceablePolicy;
use super::{Context, forecast, status, wait};

use source::{CheckedManifests, Source};

/// How many jobs a coordinator takes in one request.
const BATCH_MAX: usize = 1_000;

/// Submits jobs, or prints where they could run.
pub(super) async fn submit(context: &Context<'_>, args: SubmitArgs) -> Result<(), Failure> {
    if args.key.is_some() && args.files.len() > 1 {
        return Err(Failure::usage("--key names one job, and there are several files").hint("submit them one by one"));
    }
    let checked = source::check_all(context.out, &args.files, args.strict)?;
    if args.batch {
        return submit_batch(context, &args, checked).await;
    }
    if let Some(failure) = checked.failure(args.dry_run) {
        return Err(failure);
    }
    let client = context.client()?;
    let mut ids = Vec::new();
    let mut stuck = Vec::new();
    for source in checked.good {
        let submitted = send(context, &client, &args, &source).await?;
        show(context, &args, &source, &submitted)?;
        if args.dry_run && forecast::is_stuck(&submitted.forecast) {
            stuck.push(format!("{}: {}", source.name, clean(&submitted.forecast.text)));
        }
        ids.push(submitted.job.id);
    }
    match stuck.as_slice() {
        [] => {}
        [one] => return Err(Failure::failed(format!("no factory can run {one}"))),
        several => {
            let lines: String = several.iter().map(|one| format!("\n  {one}")).collect();
            return Err(Failure::failed(format!("no factory can run {} of the jobs:{lines}", several.len())));
        }
    }
    if !args.wait {
        return Ok(());
    }
    let jobs = wait::watch(context, &client, &ids, Until::Finished, UnplaceablePolicy::of(args.patient)).await?;
    wait::report(context, &jobs)?;
    wait::next_step(context, &jobs);
    Ok(())
}

async fn send(
    context: &Context<'_>,
    client: &Client,
    args: &SubmitArgs,
    source: &Source,
) -> Result<SubmitResponse, Failure> {
    let path = if args.dry_run { "/jobs?dryRun=true" } else { "/jobs" };
    Ok(client.post(path, &request(context, args, source)).await?)
}

fn request(context: &Context<'_>, args: &SubmitArgs, source: &Source) -> SubmitRequest {
    SubmitRequest {
        body_md: source.text.clone(),
        idempotency_key: args.key.clone(),
        product_id: context.config.client.product.value.clone(),
        strict: args.strict,
    }
}

fn show(context: &Context<'_>, args: &SubmitArgs, source: &Source, submitted: &SubmitResponse) -> Result<(), Failure> {
    let (out, then) = (context.out, forecast::sentence(&submitted.forecast));
    let where_to = match (&submitted.job.waiting, forecast::is_stuck(&submitted.forecast)) {
        (Some(waiting), false) if submitted.job.stage == StageName::Blocked => clean(&waiting.text),
        (Some(waiting), true) if submitted.job.stage == StageName::Blocked => {
            format!("it {}, and then {then}", clean(&waiting.text))
        }
        _ => then,
    };
    if out.is_json() {
        return out.document(submitted);
    }
    if args.dry_run {
        out.line(&format!("{}: {where_to}", source.name))?;
        return out.table(&forecast::table(&submitted.forecast));
    }
    out.id(submitted.job.id)?;
    let (name, label) = (&source.name, clean(&submitted.job.label().to_string()));
    let stage = submitted.job.stage;
    if !submitted.created {
        let stage = status::stage_word(&submitted.job);
        out.note(&format!("{name}: already submitted with this key as {label}; current stage: {stage}"));
    } else if forecast::is_stuck(&submitted.forecast) {
        out.warning(&format!("{name}: submitted {label}: {stage}, but {where_to}"));
    } else {
        out.note(&format!("{name}: submitted {label}: {stage}, {where_to}"));
    }
    if submitted.created && submitted.job.repo.is_none() {
        out.note(
            "it has no repository: it runs in an empty directory that is deleted afterwards, and cannot be shipped",
        );
    }
    Ok(())
}

async fn submit_batch(context: &Context<'_>, args: &SubmitArgs, checked: CheckedManifests) -> Result<(), Failure> {
    let client = context.client()?;
    let mut ids = Vec::new();
    let mut refused = 0;
    for sources in checked.good.chunks(BATCH_MAX) {
        let batch = BatchRequest { jobs: sources.iter().map(|source| request(context, args, source)).collect() };
        let answer: BatchResponse = client.post("/jobs/batch", &batch).await?;
        ids.extend(answer.outcomes.iter().filter_map(|outcome| outcome.id));
        refused += answer.outcomes.iter().filter(|outcome| outcome.problem.is_some()).count();
        if context.out.is_json() {
            context.out.document(&answer)?;
            continue;
        }
        for (source, outcome) in sources.iter().zip(&answer.outcomes) {
            show_outcome(context, source, outcome)?;
        }
    }
    if args.wait && !ids.is_empty() {
        wait::report(
            context,
            &wait::watch(context, &client, &ids, Until::Finished, UnplaceablePolicy::of(args.patient)).await?,
        )?;
    }
    let not_taken = refused + checked.bad.len();
    if not_taken == 0 {
        return Ok(());
    }
    let all = checked.good.len() + checked.bad.len();
    Err(Failure::failed(format!("{not_taken} of {all} jobs were rejected")).problem("batch", checked.findings()))
}

fn show_outcome(context: &Context<'_>, source: &Source, outcome: &BatchOutcome) -> Result<(), Failure> {
    match (&outcome.id, &outcome.problem) {
        (_, Some(problem)) => {
            context.out.finding(&format!("{}: {problem}", source.name));
            Ok(())
        }
        (Some(id), None) => context.out.id(*id),
        (None, None) => Ok(()),
    }
}
