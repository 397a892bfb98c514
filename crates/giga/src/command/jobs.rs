//! `giga jobs`

use client::Client;
use domain::StageName;
use protocol::{JobList, JobView};

use crate::cli::JobsArgs;
use crate::failure::Failure;
use crate::output::{Cell, Table, Tint, age};

use super::{Context, status};
use client::Query;

/// The largest page that a coordinator gives.
const PAGE_MAX: usize = 1_000;

/// Lists jobs, newest first.
pub(super) async fn jobs(context: &Context<'_>, args: JobsArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let limit = if args.all { usize::MAX } else { usize::from(args.limit) };
    let jobs = read(context, &client, &args, limit).await?;
    if context.out.is_json() {
        return context.out.document(&jobs);
    }
    if jobs.items.is_empty() {
        let filtered = is_filtered(&args) || context.config.client.product.value.is_some();
        context.out.note(match filtered {
            true => "no such jobs: `giga jobs` without a filter shows the others",
            false => "no jobs yet: submit one with `giga submit job.md`",
        });
    }
    let columns = ["ID", "TITLE", "STAGE", "PRODUCT", "PRIORITY", "FACTORY", "AGE", "REASON"];
    let mut table = Table::new(&columns, "REASON").then_flexible("TITLE");
    for job in &jobs.items {
        let factory = job.holder_factory_id.as_ref().or(job.target_factory_id.as_ref());
        table.row(vec![
            job.id.short().to_string().into(),
            job.title.as_str().into(),
            stage(job),
            job.product_id.as_str().into(),
            job.priority.name().into(),
            factory.map_or("", domain::FactoryId::as_str).into(),
            age(context.now(), job.created_at).into(),
            status::reason(job).into(),
        ]);
    }
    context.out.table(&table)?;
    if jobs.next.is_some() {
        context.out.note("there are more: --all shows them");
    }
    if let Some(total) = jobs.total {
        let bound = if total.is_exact { "" } else { "at least " };
        context.out.note(&format!("{bound}{} in total", domain::counted(total.count, "job")));
    }
    Ok(())
}

fn is_filtered(args: &JobsArgs) -> bool {
    let JobsArgs { stages, factory, tags, text, repo, .. } = args;
    !stages.is_empty() || factory.is_some() || !tags.is_empty() || text.is_some() || repo.is_some()
}

async fn read(context: &Context<'_>, client: &Client, args: &JobsArgs, limit: usize) -> Result<JobList, Failure> {
    let stages: Vec<&str> = args.stages.iter().map(|stage| stage.as_str()).collect();
    let tags: Vec<&str> = args.tags.iter().map(|tag| tag.as_str()).collect();
    let product = context.config.client.product.value.as_ref();
    let mut found = JobList { items: Vec::new(), next: None, total: None };
    loop {
        let page_limit = (limit - found.items.len()).min(PAGE_MAX);
        let path = Query::new("/jobs")
            .with("limit", page_limit.to_string())
            .maybe("product", product.map(domain::ProductId::as_str))
            .maybe("stage", (!stages.is_empty()).then(|| stages.join(",")))
            .maybe("factory", args.factory.as_ref().map(domain::FactoryId::as_str))
            .maybe("tag", (!tags.is_empty()).then(|| tags.join(",")))
            .maybe("text", args.text.as_deref())
            .maybe("repo", args.repo.as_ref().map(domain::RepoName::as_str))
            .maybe("total", (args.total && found.total.is_none()).then_some("true"))
            .maybe("cursor", found.next.take());
        let page: JobList = client.get(path.as_str()).await?;
        found.items.extend(page.items);
        found.total = found.total.or(page.total);
        found.next = page.next;
        if found.next.is_none() || found.items.len() >= limit {
            return Ok(found);
        }
    }
}

/// The stage in its colour.
pub(super) fn stage(job: &JobView) -> Cell {
    let tint = match job.stage {
        StageName::Testing if status::is_merge_given_up(job) => Tint::Bad,
        StageName::Failed if status::stage_word(job) == "cancelled" => Tint::Faint,
        StageName::Shipped | StageName::Testing => Tint::Good,
        StageName::Failed | StageName::DeadLetter => Tint::Bad,
        StageName::Blocked | StageName::Review => Tint::Warn,
        StageName::Assigned | StageName::Building => Tint::Strong,
        StageName::Queued => Tint::Faint,
    };
    Cell::tinted(status::stage_word(job), tint)
}
