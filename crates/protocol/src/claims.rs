//! Asking for work, where it is not offered [D1].

use domain::{ClaimNonce, DispatchSeq, EngineName, FactoryId, InstanceId, JobId, ProductId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::operations::QueueState;
use crate::work::AcceptResponse;

/// Asks for work. A nonce is used until it has won something: asked again, it gives the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRequest {
    /// Must be the token's own, when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// The process that will work.
    pub instance: InstanceId,
    /// Random, kept on the factory's disk before it is shown.
    pub claim_nonce: ClaimNonce,
    /// Jobs at most; 1 when absent, and never more than there are free seats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only jobs of these products; of all that the token covers when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<Vec<ProductId>>,
    /// No jobs of these products: for a factory that is told to ask for all but those that are pushed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except_products: Vec<ProductId>,
}

impl ClaimRequest {
    /// Whether it asks for jobs of a product.
    pub fn asks_for(&self, product: &ProductId) -> bool {
        self.products.as_ref().is_none_or(|asked| asked.contains(product)) && !self.except_products.contains(product)
    }
}

/// The answer to a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimResponse {
    /// What the factory holds under this nonce. A dry run shows here what was granted before, and grants nothing.
    pub granted: Vec<GrantedJob>,
    /// Jobs that wait for a seat, of all products that the token covers.
    pub waiting: u64,
    /// What would be granted: only in the answer to a dry run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub would_grant: Vec<WouldGrant>,
    /// What would not be granted, and why: only in the answer to a dry run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<NotGranted>,
}

/// A job that was claimed: the same as the answer to an accept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantedJob {
    /// The dispatch that the claim made and accepted in one write.
    pub dispatch_seq: DispatchSeq,
    /// The lease, and everything needed to work.
    #[serde(flatten)]
    pub accepted: AcceptResponse,
}

/// A job that a claim would be given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WouldGrant {
    /// The job.
    pub job_id: JobId,
    /// Whose it is.
    pub product_id: ProductId,
    /// The engine whose seat it would take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// How well the factory suits it.
    pub score: f64,
}

/// A job that a claim would not be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotGranted {
    /// The job: the first of those that need the same; absent if it is about the factory itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// Why, in words.
    pub why: String,
}

/// What became of the queue since it was last asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueVersion {
    /// Nothing.
    Same,
    /// It has moved.
    Moved {
        /// What stands for this answer: to be shown when asking again.
        tag: String,
        /// By product.
        products: Vec<QueueState>,
    },
}
