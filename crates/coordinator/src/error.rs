//! The errors of use cases.

use domain::{
    ArtifactId, BrokerError, FactoryId, Finding, JobId, PoolName, ProductId, ProfileName, Refusal, RepoName,
    StoreError, Timestamp, WebhookName,
};

/// Why a use case failed. Nothing was written unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job's state machine refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The job does not exist, or the caller may not see it.
    #[error("no job `{0}`")]
    NoSuchJob(JobId),
    /// The factory does not exist.
    #[error("no factory `{0}`")]
    NoSuchFactory(FactoryId),
    /// The pool does not exist, or the caller may not see it.
    #[error("no pool `{0}`: `giga pool list` shows the pools")]
    NoSuchPool(PoolName),
    /// Without this token no administrator could sign in.
    #[error("`{0}` is the last admin token: create another one first with `giga token create --role admin`")]
    LastAdminToken(String),
    /// The token does not exist.
    #[error("no such token")]
    NoSuchToken,
    /// The artifact does not exist, or the caller may not see it.
    #[error("no artifact `{0}`: see `giga artifact list JOB`")]
    NoSuchArtifact(ArtifactId),
    /// The bytes of the artifact are not in the blob store.
    #[error("the bytes of artifact `{0}` are gone: the blob store does not have them")]
    ArtifactGone(ArtifactId),
    /// The manifest is invalid.
    #[error("{}", findings(.0))]
    Manifest(Vec<Finding>),
    /// The profile does not exist, or the caller may not see it.
    #[error("no profile `{name}`{}", meant.as_ref().map_or_else(String::new, |meant| format!("; did you mean `{meant}`?")))]
    NoSuchProfile {
        /// The name in the request.
        name: ProfileName,
        /// A profile of a similar name.
        meant: Option<String>,
    },
    /// No webhook of this name is configured.
    #[error("no webhook `{0}`: `giga webhook list` shows those of giga.toml")]
    NoSuchWebhook(WebhookName),
    /// The profile has no such version.
    #[error("{0}")]
    NoSuchProfileVersion(String),
    /// The product does not exist.
    #[error("unknown product `{given}`: the known products are {}", list(.known))]
    UnknownProduct {
        /// The product in the request.
        given: ProductId,
        /// The products that exist.
        known: Vec<ProductId>,
    },
    /// The repository belongs to another product.
    #[error(
        "repository `{repo}` belongs to product `{owner}`: submit the job there, or remove the repository from `{owner}`"
    )]
    RepoOwned {
        /// The repository.
        repo: RepoName,
        /// The product that owns it.
        owner: ProductId,
    },
    /// The idempotency key was used for a different submit.
    #[error(
        "idempotency key `{key}` was used for job `{job}` with another body: use another key, or submit the same body"
    )]
    IdempotencyConflict {
        /// The idempotency key.
        key: String,
        /// The job that was submitted with it.
        job: JobId,
    },
    /// A dependency does not exist.
    #[error("dependency `{0}` does not exist: submit it first, or in the same batch")]
    NoSuchDep(String),
    /// A job would wait for itself.
    #[error("the dependencies form a cycle: {0}")]
    DependencyCycle(String),
    /// A value outside its bounds.
    #[error("{what}: {why}")]
    Invalid {
        /// The field.
        what: &'static str,
        /// The rule it breaks.
        why: String,
    },
    /// The job cannot start now, and stays queued.
    #[error("not ready: {0}")]
    NotReady(String),
    /// The product waits for money: the job stays queued.
    #[error("not ready: the product waits for money: the job needs {}, {} is left", domain::dollars(.0.amount.dollars()), domain::dollars(.0.left.dollars()))]
    OutOfMoney(domain::OutOfMoney),
    /// The run does not exist.
    #[error("job `{job}` has no run {n}")]
    NoSuchRun {
        /// The job.
        job: JobId,
        /// The run's number.
        n: u32,
    },
    /// The revision does not match: the resource was changed in the meantime.
    #[error("it was changed concurrently: read it again, then change it")]
    Outdated,
    /// The token is missing or unknown.
    #[error("a valid bearer token is needed: see `giga doctor` for where yours comes from")]
    Unauthenticated,
    /// The join token was already used.
    #[error("this join token was already used by factory `{by}`: create another with `giga token create --join`")]
    JoinTokenUsed {
        /// The factory that used it.
        by: FactoryId,
    },
    /// The join token has expired.
    #[error("this join token expired at {at}: create another with `giga token create --join`")]
    JoinTokenExpired {
        /// When it expired.
        at: Timestamp,
    },
    /// The token's scope does not allow it.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The instance id in the request belongs to another factory.
    #[error("this instance id belongs to another factory: restart the factory, which generates a new one")]
    ForeignInstance,
    /// Too many concurrent writers on one job.
    #[error("job `{0}` is being changed by too many writers at once: try again")]
    Contended(JobId),
    /// The factory's protocol version is no longer supported.
    #[error("protocol version {found} is no longer supported: update the factory")]
    OldProtocol {
        /// The factory's protocol version.
        found: u32,
    },
    /// Another coordinator may lead: this one has not heard from the store for too long.
    #[error("this coordinator does not lead: it has lost its connection to the store, or another one has taken over")]
    NotLeading,
    /// The store failed.
    #[error("the store did not answer")]
    Store(#[source] StoreError),
    /// The broker failed.
    #[error("the broker did not answer")]
    Broker(#[source] BrokerError),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<BrokerError> for Error {
    fn from(error: BrokerError) -> Self {
        Self::Broker(error)
    }
}

fn findings(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn list(products: &[ProductId]) -> String {
    products.iter().map(|product| format!("`{product}`")).collect::<Vec<_>>().join(", ")
}
