//! Everything that can stand in the way of a use case.

use domain::{BrokerError, FactoryId, Finding, JobId, Mode, ProductId, Refusal, RepoName, StoreError, Timestamp};

/// Why a use case did not happen. Nothing was written unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rules do not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such job, or the caller may not see it.
    #[error("no job `{0}`")]
    NoSuchJob(JobId),
    /// There is no such factory.
    #[error("no factory `{0}`")]
    NoSuchFactory(FactoryId),
    /// There is no such token.
    #[error("no such token")]
    NoSuchToken,
    /// The manifest cannot be read.
    #[error("{}", findings(.0))]
    Manifest(Vec<Finding>),
    /// Nobody registered that product.
    #[error("no product `{given}`: the known ones are {}", list(.known))]
    UnknownProduct {
        /// What was asked for.
        given: ProductId,
        /// What there is.
        known: Vec<ProductId>,
    },
    /// The repository belongs to somebody else.
    #[error("repository `{repo}` belongs to product `{owner}`: submit the job there, or have `{owner}` give it up")]
    RepoOwned {
        /// The repository.
        repo: RepoName,
        /// Its owner.
        owner: ProductId,
    },
    /// The key was used for something else.
    #[error(
        "idempotency key `{key}` was used for job `{job}` with another body: use another key, or submit the same body"
    )]
    IdempotencyConflict {
        /// The key.
        key: String,
        /// The job that has it.
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
    #[error("not now: {0}")]
    NotReady(String),
    /// There is no such run.
    #[error("job `{job}` has no run {n}")]
    NoSuchRun {
        /// The job.
        job: JobId,
        /// The run's number.
        n: u32,
    },
    /// What was to be changed is not what the caller has seen.
    #[error("it was changed in the meantime: read it again, then change it")]
    Outdated,
    /// The contract knows the mode; this program does not work in it.
    #[error("mode `{0}` is not available yet: use `push`, `poll` or `gate`")]
    ModeNotAvailable(Mode),
    /// No token, or one that nobody knows.
    #[error("a valid bearer token is needed: see `giga doctor` for where yours comes from")]
    Unauthenticated,
    /// The join token was used before.
    #[error("factory `{by}` has used this join token before: make another with `giga token create --join`")]
    JoinTokenUsed {
        /// Who used it.
        by: FactoryId,
    },
    /// The join token is too old.
    #[error("this join token expired at {at}: make another with `giga token create --join`")]
    JoinTokenExpired {
        /// When it expired.
        at: Timestamp,
    },
    /// The token does not cover it.
    #[error("this token does not allow it: {0}")]
    Forbidden(String),
    /// The instance id in the request is another factory's.
    #[error("this instance id belongs to another factory: restart the factory, which generates a new one")]
    ForeignInstance,
    /// Too many writers at once on one job.
    #[error("job `{0}` is being changed by too many writers at once: try again")]
    Contended(JobId),
    /// The factory speaks a protocol that is no longer served.
    #[error("protocol version {found} is not served any more: update the factory")]
    OldProtocol {
        /// What it speaks.
        found: u32,
    },
    /// The store did not answer.
    #[error("the store did not answer")]
    Store(#[source] StoreError),
    /// The broker did not answer.
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
