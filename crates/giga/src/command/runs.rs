//! `giga runs`: a job's runs, and the evidence of one of them [B4].

use protocol::{JobDetail, RunEvidence, RunList};

use crate::cli::RunsArgs;
use crate::failure::Failure;
use crate::output::{Tint, clean};

use super::{Context, job, job_id};

/// The end of a verify command's output, which usually holds the error.
const OUTPUT_LINES_SHOWN: usize = 20;

/// Lists a job's runs, or shows the evidence of one of them.
pub(super) async fn runs(context: &Context<'_>, args: RunsArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let id = job_id::find(&client, &args.id).await?;
    let Some(n) = args.run else {
        let runs = RunList { items: client.runs(id).await?, next: None };
        if context.out.is_json() {
            return context.out.document(&runs);
        }
        if runs.items.is_empty() {
            let id = id.short();
            context.out.note(&format!("it has had no run yet: `giga explain {id}` shows what it waits for"));
        }
        return job::runs_table(context, &runs.items);
    };
    let evidence: RunEvidence = client.get(&format!("/jobs/{id}/runs/{n}/evidence")).await.map_err(|error| {
        Failure::from(error).hint_at("no_such_run", || format!("`giga runs {}` lists the runs", id.short()))
    })?;
    if context.out.is_json() {
        return context.out.document(&evidence);
    }
    facts(context, &evidence)?;
    let page: RunList = client.get(&format!("/jobs/{id}/runs?cursor={}&limit=1", n.saturating_sub(1))).await?;
    let message = page.items.iter().find(|run| run.n == n).and_then(|run| run.message.as_ref());
    if let Some(message) = message.filter(|message| evidence.ending.as_ref() != Some(message)) {
        context.out.line(&format!("{:<11} {}", "message", clean(message)))?;
    }
    verified(context, &evidence)?;
    ending(context, &evidence)?;
    if !args.diff {
        return Ok(());
    }
    diff(context, &evidence)?;
    if evidence.diff.is_none() {
        let job: JobDetail = client.get(&format!("/jobs/{id}")).await?;
        context.out.note(&without_a_change(&evidence, &job));
    }
    Ok(())
}

/// Where to find a diff that is not stored with the run.
fn without_a_change(evidence: &RunEvidence, job: &JobDetail) -> String {
    let saved = job.job.checkpoint.as_ref().filter(|saved| saved.epoch == evidence.epoch);
    saved.map_or_else(
        || "no change was kept for this run".to_owned(),
        |saved| {
            let name = clean(&saved.git_ref);
            format!("the change is in the repository: `git fetch origin {name}`, then `git diff BASE...FETCH_HEAD`")
        },
    )
}

fn facts(context: &Context<'_>, evidence: &RunEvidence) -> Result<(), Failure> {
    let insights = &evidence.insights;
    let tokens = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    let changed = insights.files.map(|files| {
        let lines = |sign: char, count: Option<u32>| count.map_or_else(String::new, |n| format!(" {sign}{n}"));
        format!(
            "{}{}{}",
            domain::counted(files, "file"),
            lines('+', insights.insertions),
            lines('-', insights.deletions)
        )
    });
    let rows = [
        ("run", Some(format!("{}, epoch {}", evidence.run, evidence.epoch))),
        ("outcome", Some(job::outcome(evidence.outcome))),
        ("engine", evidence.engine.as_ref().map(ToString::to_string)),
        ("commit", evidence.sha.as_ref().map(ToString::to_string)),
        ("changed", changed),
        ("tokens", Some(format!("{} in, {} out", tokens(insights.tokens_in), tokens(insights.tokens_out)))),
        ("cost", Some(insights.cost_usd.map_or_else(|| "unknown".to_owned(), domain::dollars))),
        ("turns", insights.turns.map(|turns| turns.to_string())),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            context.out.line(&format!("{name:<11} {}", clean(&value)))?;
        }
    }
    for call in &evidence.refused {
        context.out.line(&format!("{:<11} {}", "refused", clean(call)))?;
    }
    for left in &evidence.left_branches {
        let (name, sha) = (clean(&left.name), left.sha.to_string());
        let sha = sha.get(..10).unwrap_or(&sha);
        context.out.line(&format!("{:<11} {name} at {sha}, kept in {}", "branch", clean(&left.git_ref)))?;
    }
    for commit in &evidence.commits {
        let sha = commit.sha.to_string();
        context.out.line(&format!("            {} {}", sha.get(..10).unwrap_or(&sha), clean(&commit.subject)))?;
    }
    Ok(())
}

fn verified(context: &Context<'_>, evidence: &RunEvidence) -> Result<(), Failure> {
    let out = context.out;
    for proof in &evidence.verify {
        let (word, tint) = match proof.exit {
            Some(0) => ("passed".to_owned(), Tint::Good),
            _ => (format!("failed, {}", clean(&proof.ended())), Tint::Bad),
        };
        let word = out.palette().paint(&word, tint);
        let step = if proof.step.is_verify() { "" } else { "prepare: " };
        out.line(&format!("\n$ {step}{}  {word} after {} ms", clean(&proof.command), proof.took_ms))?;
        let lines: Vec<&str> = proof.output.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(OUTPUT_LINES_SHOWN)) {
            out.line(&format!("  {}", clean(line)))?;
        }
    }
    Ok(())
}

fn ending(context: &Context<'_>, evidence: &RunEvidence) -> Result<(), Failure> {
    let Some(ending) = &evidence.ending else { return Ok(()) };
    context.out.line("\nthe engine's own ending:")?;
    ending.lines().try_for_each(|line| context.out.line(&format!("  {}", clean(line))))
}

fn diff(context: &Context<'_>, evidence: &RunEvidence) -> Result<(), Failure> {
    let out = context.out;
    let Some(diff) = &evidence.diff else { return Ok(()) };
    out.line("")?;
    for line in diff.lines() {
        let tint = match line.as_bytes().first() {
            Some(b'+') => Tint::Good,
            Some(b'-') => Tint::Bad,
            _ => Tint::Faint,
        };
        out.line(&out.palette().paint(&clean(line), tint))?;
    }
    if evidence.diff_cut {
        out.note("diff truncated");
    }
    Ok(())
}
