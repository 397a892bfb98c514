//! What a future that the fleet has lost may have merged already (row 28).

use domain::{BranchName, CommitSha, JobId};

use crate::error::Error;
use crate::mirror::Mirror;
use crate::refs::RefName;

impl Mirror {
    /// The merge that brought another commit of this job into the base branch, while `sha` is not there. A job ships once, so
    /// that merge was made by a fleet that knew more than this one: it was put back from a backup since.
    pub async fn merged_before(
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
}
