//! Maps every error to an answer: RFC 9457 problem details with a stable code.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use coordinator::{Error, NotReady};
use domain::{BrokerError, Refusal, StoreError};
use http::header::{self, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tracing::info;

use crate::backup_service::BackupServiceError;
use crate::problem_code::{self as code, ProblemCode};

/// The part for the client, and the part for the log.
#[derive(Debug)]
pub(crate) struct Problem {
    // Boxed, because every result includes it.
    parts: Box<Parts>,
}

#[derive(Debug)]
struct Parts {
    told: protocol::Problem,
    cause: Option<String>,
    header: Option<(HeaderName, HeaderValue)>,
}

/// The cause of a 5xx answer, attached to it for the request log.
#[derive(Debug, Clone)]
pub(crate) struct Cause(pub(crate) String);

impl Problem {
    /// A problem with a stable code.
    pub(crate) fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        let told = protocol::Problem {
            kind: format!("urn:gigafactory:problem:{}", code.name),
            title: code.name.replace('_', " "),
            status: code.status.as_u16(),
            detail: detail.into(),
            code: code.name.to_owned(),
            more: Value::Null,
        };
        Self { parts: Box::new(Parts { told, cause: None, header: None }) }
    }

    /// An invalid value.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(code::INVALID, detail)
    }

    /// A key or a query parameter that the operation does not have.
    pub(crate) fn unknown_key(what: &str, key: &str, meant: Option<&str>) -> Self {
        let hint = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
        let more = match meant {
            Some(meant) => json!({ "key": key, "suggestion": meant }),
            None => json!({ "key": key }),
        };
        Self::new(code::UNKNOWN_KEY, format!("unknown {what} `{key}`{hint}")).with(more)
    }

    /// An unknown product in the path is a 404; in a request it is an invalid value.
    pub(crate) fn of_product(error: Error) -> Self {
        let is_missing = matches!(error, Error::UnknownProduct { .. });
        let mut problem = Self::from(error);
        if is_missing {
            problem.parts.told.status = StatusCode::NOT_FOUND.as_u16();
        }
        problem
    }

    /// Invalid JSON, with the line and the column.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        use serde_json::error::Category;
        match error.classify() {
            Category::Data => Self::invalid(error.to_string()),
            Category::Io | Category::Syntax | Category::Eof => Self::new(code::BAD_JSON, error.to_string()),
        }
    }

    /// A content type that the route does not accept.
    pub(crate) fn content_type(expected: &str) -> Self {
        let detail = format!("send the body as {expected}, and set `Content-Type`");
        Self::new(code::UNSUPPORTED_MEDIA_TYPE, detail)
    }

    /// A body that is longer than the route accepts.
    pub(crate) fn too_large(len_max: usize) -> Self {
        let detail = format!("the body is longer than {len_max} bytes, the limit of this route");
        Self::new(code::BODY_TOO_LARGE, detail)
    }

    /// A body that did not arrive in time, or was cut off.
    pub(crate) fn unfinished_body(why: impl Into<String>) -> Self {
        Self::new(code::UNFINISHED_BODY, why)
    }

    /// A body without the required length.
    pub(crate) fn length_required() -> Self {
        Self::new(code::LENGTH_REQUIRED, "declare the length of the body in `Content-Length`")
    }

    /// Too many concurrent webhook bodies.
    pub(crate) fn too_many_bodies() -> Self {
        let detail = "overloaded: too many or too large requests; retry later";
        Self::rate_limited(detail, Duration::from_secs(5))
    }

    /// A path that does not exist.
    pub(crate) fn no_such_route(path: &str) -> Self {
        let detail = format!("no route `{}`: see /openapi.json", domain::escape_for_terminal(path));
        Self::new(code::NO_SUCH_ROUTE, detail)
    }

    /// A path that exists, with another method.
    pub(crate) fn method_not_allowed() -> Self {
        let detail = "method not allowed: see the `Allow` header";
        Self::new(code::METHOD_NOT_ALLOWED, detail)
    }

    /// A restore without its confirmation.
    pub(crate) fn unconfirmed_restore() -> Self {
        let detail = "a restore replaces all data of the coordinator: confirm with `?replace=everything`";
        Self::new(code::UNCONFIRMED, detail)
    }

    /// A store without a backup service.
    pub(crate) fn no_backup_service() -> Self {
        let detail = "this store cannot be backed up or restored through the coordinator: use its own tools";
        Self::new(code::NO_BACKUPS, detail)
    }

    /// An answer that took too long: the request may still succeed.
    pub(crate) fn timed_out() -> Self {
        let detail = "timed out: the change may or may not have been applied";
        Self::new(code::TIMED_OUT, detail).because("the request exceeded its time limit")
    }

    /// A request that ended with the server, or with its token.
    pub(crate) fn stopped() -> Self {
        Self::new(code::TIMED_OUT, "stopped: the coordinator shuts down, or the token was revoked")
    }

    /// A bug of the server.
    pub(crate) fn panicked(message: &str) -> Self {
        Self::internal(&format!("panicked: {message}"))
    }

    /// An answer that cannot be serialized.
    pub(crate) fn unwritable(error: &serde_json::Error) -> Self {
        Self::internal(&format!("unwritable: {error}"))
    }

    /// The number is in the answer and in the log, so that an operator finds the cause.
    fn internal(cause: &str) -> Self {
        static FAILED: AtomicU64 = AtomicU64::new(0);
        let request = FAILED.fetch_add(1, Ordering::Relaxed) + 1;
        let detail = format!("internal error; see the coordinator's log (request id {request})");
        Self::new(code::INTERNAL, detail).because(format!("request id {request}: {cause}"))
    }

    /// Too many requests from one caller.
    pub(crate) fn rate_limited(detail: impl Into<String>, wait: Duration) -> Self {
        Self::new(code::RATE_LIMITED, detail).retry_after(wait)
    }

    /// A host name that is not the server's: a web page may have pointed its own name at it.
    pub(crate) fn foreign_host(host: &str) -> Self {
        let host = domain::escape_for_terminal(host);
        let detail =
            format!("this server is not `{host}`: call it by its address, or add the name to its allowed hosts");
        Self::new(code::FOREIGN_HOST, detail)
    }

    /// A change requested by a page of another site.
    pub(crate) fn foreign_origin(origin: &str) -> Self {
        let detail = format!("pages of `{}` cannot make changes here", domain::escape_for_terminal(origin));
        Self::new(code::FOREIGN_ORIGIN, detail)
    }

    /// The part for the client; the rest is logged here, because this answer is not logged by itself.
    pub(crate) fn into_body(self) -> protocol::Problem {
        let Parts { told, cause, .. } = *self.parts;
        if let Some(cause) = cause {
            info!(problem.code = %told.code, cause, "One operation of many failed: {cause}");
        }
        told
    }

    fn with(mut self, more: Value) -> Self {
        self.parts.told.more = more;
        self
    }

    fn because(mut self, cause: impl Into<String>) -> Self {
        self.parts.cause = Some(cause.into());
        self
    }

    pub(crate) fn retry_after(mut self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.parts.header = Some((header::RETRY_AFTER, HeaderValue::from(seconds.max(1))));
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let cause = domain::error_chain(&error);
        match error {
            Error::Refused(refusal) => refused(refusal, detail),
            Error::NoSuchJob(_) => Self::new(code::NO_SUCH_JOB, detail),
            Error::NoSuchFactory(_) => Self::new(code::NO_SUCH_FACTORY, detail),
            Error::NoSuchPool(_) => Self::new(code::NO_SUCH_POOL, detail),
            Error::NoSuchRun { .. } => Self::new(code::NO_SUCH_RUN, detail),
            Error::LastAdminToken(_) => Self::new(code::LAST_ADMIN_TOKEN, detail),
            Error::NoSuchArtifact(_) => Self::new(code::NO_SUCH_ARTIFACT, detail),
            Error::ArtifactGone(_) => Self::new(code::ARTIFACT_GONE, detail),
            Error::NoSuchToken => Self::new(code::NO_SUCH_TOKEN, detail),
            Error::Manifest(findings) => Self::new(code::BAD_MANIFEST, detail).with(json!({ "findings": findings })),
            Error::UnknownProduct { known, .. } => {
                Self::new(code::UNKNOWN_PRODUCT, detail).with(json!({ "known": known }))
            }
            Error::RepoOwned { owner, .. } => Self::new(code::REPO_OWNED, detail).with(json!({ "owner": owner })),
            Error::IdempotencyConflict { job, .. } => {
                Self::new(code::IDEMPOTENCY_CONFLICT, detail).with(json!({ "jobId": job }))
            }
            Error::NoSuchDep(_) => Self::new(code::NO_SUCH_DEP, detail),
            Error::DependencyCycle(_) => Self::new(code::DEPENDENCY_CYCLE, detail),
            Error::Invalid { .. } => Self::invalid(detail),
            Error::Outdated => Self::new(code::PRECONDITION_FAILED, detail),
            Error::NotReady(_) | Error::OutOfMoney(_) => Self::new(code::NOT_READY, detail),
            Error::Unauthenticated => {
                let mut problem = Self::new(code::UNAUTHENTICATED, detail);
                problem.parts.header = Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
                problem
            }
            Error::JoinTokenUsed { .. } => Self::new(code::JOIN_TOKEN_USED, detail),
            Error::JoinTokenExpired { .. } => Self::new(code::JOIN_TOKEN_EXPIRED, detail),
            Error::Forbidden(_) => Self::new(code::FORBIDDEN, detail),
            Error::NoSuchProfile { .. } | Error::NoSuchProfileVersion(_) => Self::new(code::NO_SUCH_PROFILE, detail),
            Error::NoSuchWebhook(_) => Self::new(code::NO_SUCH_WEBHOOK, detail),
            Error::ForeignInstance => Self::new(code::FOREIGN_INSTANCE, detail),
            Error::Contended(_) => Self::new(code::CONTENDED, detail),
            Error::OldProtocol { .. } => Self::new(code::OLD_PROTOCOL, detail),
            Error::NotLeading => Self::new(code::NOT_LEADER, detail).retry_after(LEADER_AGAIN),
            Error::Store(StoreError::BadCursor) => Self::new(code::BAD_CURSOR, StoreError::BadCursor.to_string()),
            Error::Store(StoreError::Unavailable(_)) => {
                Self::new(code::STORE_UNAVAILABLE, detail).because(cause).retry_after(AGAIN)
            }
            Error::Store(StoreError::DiskFull(_)) => {
                let detail = "the coordinator has no space left on its disk: nothing was changed, try again later";
                Self::new(code::DISK_FULL, detail).because(cause).retry_after(SPACE_AGAIN)
            }
            Error::Store(StoreError::Corrupt(_)) => {
                let detail = "the store has an unreadable record: see `giga alerts` and the coordinator's log";
                Self::new(code::CORRUPT, detail).because(cause)
            }
            Error::Broker(BrokerError::Unavailable(_) | BrokerError::Closed | BrokerError::Expired) => {
                Self::new(code::BROKER_UNAVAILABLE, detail).because(cause).retry_after(AGAIN)
            }
        }
    }
}

impl From<NotReady> for Problem {
    fn from(reason: NotReady) -> Self {
        match reason {
            NotReady::StoreDamaged(why) => Self::new(code::STORE_DAMAGED, why),
            NotReady::DiskFull(why) => Self::new(code::DISK_FULL, why).retry_after(SPACE_AGAIN),
        }
    }
}

impl From<BackupServiceError> for Problem {
    fn from(error: BackupServiceError) -> Self {
        match error {
            BackupServiceError::BadBackup(_) => Self::new(code::BAD_BACKUP, error.to_string()),
            BackupServiceError::Busy => Self::new(code::BUSY, error.to_string()),
            BackupServiceError::Store(cause) => Error::Store(cause).into(),
        }
    }
}

/// When a client without a leader may retry: a standby takes over within seconds.
const LEADER_AGAIN: Duration = Duration::from_secs(1);

/// When to retry after a store or broker failure: they recover by themselves, or an operator acts.
const AGAIN: Duration = Duration::from_secs(1);

/// When to retry after a full disk: an operator has to free space.
const SPACE_AGAIN: Duration = Duration::from_secs(10);

fn refused(refusal: Refusal, detail: String) -> Problem {
    match refusal {
        Refusal::StaleEpoch { held, .. } => Problem::new(code::FENCED, detail).with(json!({ "leaseEpoch": held })),
        Refusal::NotHolder { .. } => Problem::new(code::FENCED, detail),
        Refusal::IllegalTransition { stage, allowed, .. } => {
            let more = json!({ "stage": stage, "allowed": allowed });
            Problem::new(code::ILLEGAL_TRANSITION, detail).with(more)
        }
        Refusal::SupersededDispatch { current, .. } => {
            Problem::new(code::SUPERSEDED_DISPATCH, detail).with(json!({ "dispatchSeq": current }))
        }
        Refusal::NotTarget { .. } => Problem::new(code::NOT_TARGET, detail),
        Refusal::AlreadyGranted => Problem::new(code::ALREADY_GRANTED, detail),
        Refusal::DepsUnmet(dep) => Problem::new(code::DEPS_UNMET, detail).with(json!({ "jobId": dep })),
        Refusal::JobEnded { stage } => {
            let more = json!({ "stage": stage, "allowed": Vec::<&str>::new() });
            Problem::new(code::ILLEGAL_TRANSITION, detail).with(more)
        }
        Refusal::JobPaused(_) => Problem::new(code::NOT_READY, detail),
        Refusal::ParentPaused(parent) => Problem::new(code::PARENT_PAUSED, detail).with(json!({ "jobId": parent })),
        Refusal::ParentCancelled(parent) => {
            Problem::new(code::PARENT_CANCELLED, detail).with(json!({ "jobId": parent }))
        }
        Refusal::NothingToShip => Problem::new(code::NOTHING_TO_SHIP, detail),
        Refusal::NoQuestion => Problem::new(code::NO_QUESTION, detail),
        Refusal::OwnWork { .. } => Problem::new(code::OWN_WORK, detail),
        Refusal::NotAReviewer { reviewers, .. } => {
            Problem::new(code::NOT_A_REVIEWER, detail).with(json!({ "reviewers": reviewers }))
        }
        Refusal::OtherCommit { sha, .. } => Problem::new(code::OTHER_COMMIT, detail).with(json!({ "sha": sha })),
        Refusal::WeakerReview { quorum, reviewers } => {
            Problem::new(code::WEAKER_REVIEW, detail).with(json!({ "quorum": quorum, "reviewers": reviewers }))
        }
        Refusal::ArtifactLimit(_) => Problem::new(code::ARTIFACT_LIMIT, detail),
        Refusal::NotAWorkersReason(_) => Problem::new(code::NOT_A_WORKERS_REASON, detail),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Parts { told, cause, header } = *self.parts;
        let status = StatusCode::from_u16(told.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&told).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, "application/problem+json")], body).into_response();
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        if let Some(cause) = cause {
            response.extensions_mut().insert(Cause(cause));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use domain::StageName;

    use super::*;

    #[test]
    fn a_store_error_is_logged_and_not_sent_to_the_client() {
        let fault = Error::Store(StoreError::Unavailable("disk of host db-7 is full".to_owned()));

        let response = Problem::from(fault).into_response();

        let cause = response.extensions().get::<Cause>().map(|cause| cause.0.clone());
        assert_eq!(
            cause.as_deref(),
            Some("the store did not answer: the store is not available: disk of host db-7 is full")
        );
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }

    #[test]
    fn error_details_are_not_sent_to_the_client() {
        let fault = Error::Store(StoreError::Corrupt("row 7: secret".to_owned()));

        let told = Problem::from(fault).into_body();

        assert_eq!((told.status, told.code.as_str()), (500, "corrupt"));
        assert!(!told.detail.contains("secret"));
    }

    // [J5]
    #[test]
    fn a_refused_move_names_the_allowed_ones() {
        let refusal = Refusal::IllegalTransition {
            stage: StageName::Shipped,
            event: "started",
            allowed: vec![StageName::Queued],
        };

        let told = Problem::from(Error::Refused(refusal)).into_body();

        assert_eq!(told.code, "illegal_transition");
        assert_eq!(told.more, json!({ "stage": "shipped", "allowed": ["queued"] }));
    }

    #[test]
    fn retry_after_is_rounded_up_to_seconds() {
        let problem = Problem::rate_limited("slowly", Duration::from_millis(1_200));

        assert_eq!(problem.into_response().headers()[header::RETRY_AFTER], "2");
    }
}
