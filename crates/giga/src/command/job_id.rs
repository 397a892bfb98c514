//! Ids as people give them: whole, or the last characters.

use client::Client;
use domain::JobId;
use protocol::{JobList, JobView};

use crate::failure::Failure;
use crate::output::clean;

use client::Query;

/// Shorter endings are shared by too many jobs.
const SUFFIX_LEN_MIN: usize = 4;

/// The largest page that a coordinator gives.
const PAGE_MAX: u16 = 1_000;

/// Pages that are searched, newest jobs first: an older job is found by its whole id.
const PAGES_MAX: usize = 20;

/// More candidates than this are counted, not listed.
const LISTED_MAX: usize = 10;

/// The job that each of these means.
pub(super) async fn find_all(client: &Client, given: &[String]) -> Result<Vec<JobId>, Failure> {
    let mut known = Jobs { client, read: Vec::new(), next: Next::Page(None) };
    let mut found = Vec::with_capacity(given.len());
    for text in given {
        found.push(match text.parse() {
            Ok(id) => id,
            Err(_) => known.ending_with(&suffix(text)?).await?,
        });
    }
    Ok(found)
}

/// The job that this means.
pub(super) async fn find(client: &Client, given: &str) -> Result<JobId, Failure> {
    let found = find_all(client, &[given.to_owned()]).await?;
    found.into_iter().next().ok_or_else(|| Failure::not_found(format!("no job `{given}`")))
}

/// Jobs, read page by page as far as they are needed.
struct Jobs<'c> {
    client: &'c Client,
    read: Vec<JobView>,
    next: Next,
}

/// What is left to be read.
enum Next {
    /// The page behind this cursor; the first one without it.
    Page(Option<String>),
    Nothing,
}

impl Jobs<'_> {
    /// The job whose id ends with `suffix`. A page is searched as a whole: two candidates of one page are ambiguous.
    async fn ending_with(&mut self, suffix: &str) -> Result<JobId, Failure> {
        loop {
            let ends = |job: &&JobView| job.id.to_string().ends_with(suffix);
            let candidates: Vec<&JobView> = self.read.iter().filter(ends).collect();
            match candidates.as_slice() {
                [job] => return Ok(job.id),
                [] => {}
                several => return Err(ambiguous(suffix, several)),
            }
            if !self.read_more().await? {
                return Err(self.not_found(suffix));
            }
        }
    }

    fn not_found(&self, suffix: &str) -> Failure {
        let message = match self.next {
            Next::Nothing => format!("no job's id ends with `{suffix}`"),
            Next::Page(_) => format!("none of the ids of the newest {} jobs ends with `{suffix}`", self.read.len()),
        };
        Failure::not_found(message).hint("`giga jobs` lists the jobs; a whole id always works")
    }

    /// Reads one more page, if there is one.
    async fn read_more(&mut self) -> Result<bool, Failure> {
        if self.read.len() >= PAGES_MAX * usize::from(PAGE_MAX) {
            return Ok(false);
        }
        let Next::Page(cursor) = &self.next else { return Ok(false) };
        let path = Query::new("/jobs").with("limit", PAGE_MAX.to_string()).maybe("cursor", cursor.clone());
        let page: JobList = self.client.get(path.as_str()).await?;
        self.read.extend(page.items);
        self.next = page.next.map_or(Next::Nothing, |next| Next::Page(Some(next)));
        Ok(true)
    }
}

fn suffix(text: &str) -> Result<String, Failure> {
    let shown = domain::escape_for_terminal(text);
    let suffix = text.to_ascii_lowercase();
    if suffix.len() > 36 || !suffix.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return Err(Failure::usage(format!("`{shown}` is not the id of a job"))
            .hint("ids look like 4f1c689, or 0190f3a4-7c1e-7b52-9d0a-1f2e34f1c689; `giga jobs` lists them"));
    }
    if suffix.len() < SUFFIX_LEN_MIN {
        return Err(Failure::usage(format!("`{shown}` is too short for an id"))
            .hint(format!("give at least its last {SUFFIX_LEN_MIN} characters")));
    }
    Ok(suffix)
}

fn ambiguous(suffix: &str, candidates: &[&JobView]) -> Failure {
    let listed = candidates.iter().take(LISTED_MAX).map(|job| format!("\n  {}  {}", job.id, clean(&job.title)));
    let listed: String = listed.collect();
    let more = match candidates.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    Failure::usage(format!("the ids of {} jobs end with `{suffix}`:{listed}{more}", candidates.len()))
        .hint("give more of the id")
}
