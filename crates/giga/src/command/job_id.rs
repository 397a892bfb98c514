//! Ids as people give them: whole, or the first characters.

use domain::JobId;
use protocol::{Client, JobList, JobView};

use crate::failure::Failure;

use super::query::Query;

/// Shorter beginnings are shared by too many: an id begins with the time it was made at.
const PREFIX_LEN_MIN: usize = 8;

/// How many jobs are looked at for a beginning.
const NEWEST_MAX: u16 = 1_000;

/// More candidates than this are counted, not listed.
const LISTED_MAX: usize = 10;

/// The job that each of these means.
pub(super) async fn find_all(client: &Client, given: &[String]) -> Result<Vec<JobId>, Failure> {
    let mut newest = None;
    let mut found = Vec::with_capacity(given.len());
    for text in given {
        if let Ok(id) = text.parse() {
            found.push(id);
            continue;
        }
        let prefix = prefix(text)?;
        if newest.is_none() {
            newest = Some(newest_jobs(client).await?);
        }
        found.push(the_one(&prefix, newest.as_deref().unwrap_or_default())?);
    }
    Ok(found)
}

/// The job that this means.
pub(super) async fn find(client: &Client, given: &str) -> Result<JobId, Failure> {
    let found = find_all(client, &[given.to_owned()]).await?;
    found.into_iter().next().ok_or_else(|| Failure::not_found(format!("no job `{given}`")))
}

fn prefix(text: &str) -> Result<String, Failure> {
    let shown = domain::printable(text);
    let prefix = text.to_ascii_lowercase();
    if prefix.len() > 36 || !prefix.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return Err(Failure::usage(format!("`{shown}` is not the id of a job"))
            .hint("ids look like 0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a; `giga jobs` lists them"));
    }
    if prefix.len() < PREFIX_LEN_MIN {
        return Err(Failure::usage(format!("`{shown}` is too short for an id"))
            .hint(format!("give at least its first {PREFIX_LEN_MIN} characters")));
    }
    Ok(prefix)
}

async fn newest_jobs(client: &Client) -> Result<Vec<JobView>, Failure> {
    let page: JobList = client.get(Query::new("/jobs").with("limit", NEWEST_MAX.to_string()).as_str()).await?;
    Ok(page.items)
}

fn the_one(prefix: &str, jobs: &[JobView]) -> Result<JobId, Failure> {
    let fitting: Vec<&JobView> = jobs.iter().filter(|job| job.id.to_string().starts_with(prefix)).collect();
    match fitting.as_slice() {
        [job] => Ok(job.id),
        [] => Err(Failure::not_found(format!("none of the newest {} jobs begins with `{prefix}`", jobs.len()))
            .hint("give the whole id; `giga jobs` lists them")),
        several => {
            let listed = several.iter().take(LISTED_MAX).map(|job| format!("\n  {}  {}", job.id, job.title));
            let more = several.len().saturating_sub(LISTED_MAX);
            let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
            let listed: String = listed.collect();
            Err(Failure::usage(format!("{} jobs begin with `{prefix}`:{listed}{more}", several.len()))
                .hint("give more of the id"))
        }
    }
}
