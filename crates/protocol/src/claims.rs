//! Claims: factories that poll for work [D1].

use domain::{ClaimNonce, DispatchSeq, EngineName, FactoryId, InstanceId, JobId, ProductId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::operations::QueueState;
use crate::work::AcceptResponse;

/// Polls for work. A nonce is used until it wins a job; a repeated claim with it gets the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRequest {
    /// Must match the token's factory, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// The process that will do the work.
    pub instance: InstanceId,
    /// Random. The factory persists it before it sends the request.
    pub claim_nonce: ClaimNonce,
    /// Maximum number of jobs; 1 when absent, and never more than the free seats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Claims these waiting jobs, as far as the factory is eligible for them, instead of the next ones; 1,000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<JobId>>,
    /// Restricts the claim to these products; all products of the token when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<Vec<ProductId>>,
    /// Excludes these products, such as those in push mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except_products: Vec<ProductId>,
}

impl ClaimRequest {
    /// Whether the claim covers a product.
    pub fn asks_for(&self, product: &ProductId) -> bool {
        self.products.as_ref().is_none_or(|asked| asked.contains(product)) && !self.except_products.contains(product)
    }
}

/// The answer to a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimResponse {
    /// Jobs that the factory holds under this nonce. A dry run lists earlier grants and grants nothing.
    pub granted: Vec<GrantedJob>,
    /// Number of jobs waiting for a seat, over all products of the token.
    pub waiting: u64,
    /// Jobs that would be granted. Only in a dry run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub would_grant: Vec<WouldGrant>,
    /// Jobs that would not be granted, and why. Only in a dry run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<NotGranted>,
}

/// A claimed job, equal to the answer to an accept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantedJob {
    /// The dispatch that the claim created and accepted in one write.
    pub dispatch_seq: DispatchSeq,
    /// The lease and the assignment.
    #[serde(flatten)]
    pub accepted: AcceptResponse,
}

/// A job that a claim would get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WouldGrant {
    /// The job.
    pub job_id: JobId,
    /// The product that owns the job.
    pub product_id: ProductId,
    /// The engine whose seat it would use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// The factory's score for the job.
    pub score: f64,
}

/// A job that a claim would not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotGranted {
    /// The first job of its shape; absent if the reason concerns the factory itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// The reason.
    pub why: String,
}

/// Whether the queue changed since the last poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueVersion {
    /// Unchanged.
    Same,
    /// Changed.
    Moved {
        /// The version tag for the next poll.
        tag: String,
        /// Queue state by product.
        products: Vec<QueueState>,
    },
}
