//! Merges that the fleet made before a restore from a backup, and no longer knows (row 28).

use domain::{BranchName, CommitSha, JobId};

use crate::error::Error;
use crate::mirror::Mirror;
use crate::refs::RefName;

impl Mirror {
    /// The merge of another commit of this job into the base branch, while `sha` is not there. A job ships once, so a
    /// fleet made that merge before it was restored from a backup.
    pub async fn prior_merge(
        &self,
        job: JobId,
        base: &BranchName,
        sha: &CommitSha,
    ) -> Result<Option<CommitSha>, Error> {
        let Some(tip) = self.fetch_ref(&RefName::branch(base)).await? else { return Ok(None) };
        self.require(sha).await?;
        if self.call("merge-base").args(["--is-ancestor", sha.as_str(), tip.as_str()]).holds().await? {
            return Ok(None);
        }
        let trailer = format!("--grep=Gigafactory-Job: {job}");
        let found = self
            .call("rev-list")
            .args(["--max-count=1", "--first-parent", "--merges", "--fixed-strings", &trailer, tip.as_str()])
            .output()
            .await?;
        Ok(String::from_utf8_lossy(&found).trim().parse().ok())
    }

    /// The job whose merge last changed these files of the base branch, if a job did: the one that another conflicts
    /// with.
    pub async fn last_job_to_change(&self, tip: &CommitSha, files: &[String]) -> Result<Option<JobId>, Error> {
        let call = self.call("rev-list").args(["--max-count=1", "--first-parent", "--no-commit-header"]).args([
            "--format=%(trailers:key=Gigafactory-Job,valueonly)",
            tip.as_str(),
            "--",
        ]);
        let found = files.iter().fold(call, |call, file| call.arg(file)).output().await?;
        let found = String::from_utf8_lossy(&found);
        Ok(found.lines().map(str::trim).find(|line| !line.is_empty()).and_then(|line| line.parse().ok()))
    }
}
