//! The clean-up of a factory, and what it asks the coordinator and the engines.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use client::{Client, ClientError};
use domain::{Clock, JobId, RepoName, StageName};
use forge::ForgeConfig;
use protocol::JobDetail;
use workspace::{EngineCredentials, Gc, Host, JobLookup, JobRecord, JobStatus, RepoConfig, StateDir};

use super::{WorkerError, WorkerSettings};
use crate::detect::repos_under;

impl WorkerSettings {
    /// A clean-up of the factory that these settings describe, whether it runs or not.
    pub fn gc(&self, client: Client, clock: Arc<dyn Clock>) -> Result<Gc, WorkerError> {
        let state = StateDir::new(&self.state)?;
        let found = self.repo_base.as_deref().map(repos_under).unwrap_or_default();
        let repos = self.all_repos(&found);
        let host = self.host(&state, clock)?;
        Ok(gc(host, repos, &self.forge, client, self.housekeeping.retention))
    }
}

/// A clean-up of `host`, which works on `repos` and names branches as `forge` configures; `client` returns the state of
/// jobs.
pub(super) fn gc(
    host: Host,
    repos: BTreeMap<RepoName, RepoConfig>,
    forge: &ForgeConfig,
    client: Client,
    retention: Duration,
) -> Gc {
    let branches = repos.keys().filter_map(|repo| Some((repo.clone(), forge.branch(repo)?.clone()))).collect();
    Gc::new(host, repos, branches, (Arc::new(CoordinatorJobs(client)), Arc::new(CredentialsOfEngines)), retention)
}

/// Jobs as the coordinator has them.
struct CoordinatorJobs(Client);

#[async_trait]
impl JobLookup for CoordinatorJobs {
    async fn job(&self, job: JobId) -> JobStatus {
        let answer: Result<JobDetail, ClientError> = self.0.get(&format!("/jobs/{job}")).await;
        let job = match answer {
            Ok(detail) => detail.job,
            Err(error) if error.code() == Some("no_such_job") => return JobStatus::Unknown,
            Err(error) => return JobStatus::Silent(error.to_string()),
        };
        let runs = match job.stage {
            StageName::Shipped => self.0.runs(job.id).await,
            _ => Ok(Vec::new()),
        };
        match runs {
            Ok(runs) => JobStatus::Known(Box::new(JobRecord {
                stage: job.stage,
                lease_epoch: job.lease_epoch,
                rev: job.rev,
                base: job.base,
                completed_sha: job.completed_sha,
                updated_at: job.updated_at,
                runs,
            })),
            Err(error) => JobStatus::Silent(error.to_string()),
        }
    }
}

/// The credentials of this factory's engines.
struct CredentialsOfEngines;

impl EngineCredentials for CredentialsOfEngines {
    fn recover_credentials(&self, sessions: &Path, clock: &dyn Clock, is_active: &dyn Fn(&Path) -> bool) {
        engines::recover_credentials(sessions, clock, is_active);
    }

    fn has_credential_note(&self, home: &Path) -> bool {
        engines::has_credential_note(home)
    }

    fn is_credential_note(&self, path: &Path) -> bool {
        engines::is_credential_note(path)
    }
}
