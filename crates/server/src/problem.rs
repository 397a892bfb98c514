//! Maps every error to an answer: RFC 9457 problem details with a stable code.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use coordinator::{Error, NotReady};
use domain::{BrokerError, Refusal, StoreError};
use http::header::{self, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tracing::info;

use crate::backup_service::BackupServiceError;

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
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let told = protocol::Problem {
            kind: format!("urn:gigafactory:problem:{code}"),
            title: code.replace('_', " "),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            more: Value::Null,
        };
        Self { parts: Box::new(Parts { told, cause: None, header: None }) }
    }

    /// An invalid value.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// A key or a query parameter that the operation does not have.
    pub(crate) fn unknown_key(what: &str, key: &str, meant: Option<&str>) -> Self {
        let hint = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
        let more = match meant {
            Some(meant) => json!({ "key": key, "suggestion": meant }),
            None => json!({ "key": key }),
        };
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown_key", format!("unknown {what} `{key}`{hint}")).with(more)
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
            Category::Io | Category::Syntax | Category::Eof => {
                Self::new(StatusCode::BAD_REQUEST, "bad_json", error.to_string())
            }
        }
    }

    /// A content type that the route does not accept.
    pub(crate) fn content_type(expected: &str) -> Self {
        let detail = format!("send the body as {expected}, and say so in `Content-Type`");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
    }

    /// A body that is longer than the route accepts.
    pub(crate) fn too_large(len_max: usize) -> Self {
        let detail = format!("the body is longer than {len_max} bytes, which is the most that this route takes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
    }

    /// A body that did not arrive in time, or was cut off.
    pub(crate) fn unfinished_body(why: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "unfinished_body", why)
    }

    /// A body without the required length.
    pub(crate) fn length_required() -> Self {
        Self::new(StatusCode::LENGTH_REQUIRED, "length_required", "declare the length of the body in `Content-Length`")
    }

    /// Too many concurrent webhook bodies.
    pub(crate) fn too_many_bodies() -> Self {
        let detail = "too many or too large requests are being received: send this one again later";
        Self::rate_limited(detail, Duration::from_secs(5))
    }

    /// A path that does not exist.
    pub(crate) fn no_such_route(path: &str) -> Self {
        let detail = format!("there is nothing at `{}`: see /openapi.json", domain::escape_for_terminal(path));
        Self::new(StatusCode::NOT_FOUND, "no_such_route", detail)
    }

    /// A path that exists, with another method.
    pub(crate) fn method_not_allowed() -> Self {
        let detail = "this path takes other methods: see the `Allow` header";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
    }

    /// A restore without its confirmation.
    pub(crate) fn unconfirmed_restore() -> Self {
        let detail = "a restore replaces everything that the coordinator knows: say so with `?replace=everything`";
        Self::new(StatusCode::PRECONDITION_REQUIRED, "unconfirmed", detail)
    }

    /// A store without a backup service.
    pub(crate) fn no_vault() -> Self {
        let detail = "this store cannot be backed up or restored through the coordinator: use its own tools";
        Self::new(StatusCode::NOT_IMPLEMENTED, "no_backups", detail)
    }

    /// An answer that took too long: the request may still succeed.
    pub(crate) fn timed_out() -> Self {
        let detail = "the answer took too long: what was asked may or may not have happened";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "timed_out", detail).because("the request ran into its time limit")
    }

    /// A bug of the server.
    pub(crate) fn panicked(message: &str) -> Self {
        let detail = "the coordinator made a mistake: its log says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).because(format!("panicked: {message}"))
    }

    /// An answer that cannot be serialized.
    pub(crate) fn unwritable(error: &serde_json::Error) -> Self {
        let detail = "the coordinator made a mistake: its log says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).because(format!("unwritable: {error}"))
    }

    /// Too many requests from one caller.
    pub(crate) fn rate_limited(detail: impl Into<String>, wait: Duration) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).retry_after(wait)
    }

    /// A host name that is not the server's: a web page may have pointed its own name at it.
    pub(crate) fn foreign_host(host: &str) -> Self {
        let host = domain::escape_for_terminal(host);
        let detail =
            format!("this server is not `{host}`: call it by its address, or add the name to its allowed hosts");
        Self::new(StatusCode::FORBIDDEN, "foreign_host", detail)
    }

    /// A change requested by a page of another site.
    pub(crate) fn foreign_origin(origin: &str) -> Self {
        let detail = format!("pages of `{}` may not change anything here", domain::escape_for_terminal(origin));
        Self::new(StatusCode::FORBIDDEN, "foreign_origin", detail)
    }

    /// The part for the client; the rest is logged here, because this answer is not logged by itself.
    pub(crate) fn into_told(self) -> protocol::Problem {
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

    fn retry_after(mut self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.parts.header = Some((header::RETRY_AFTER, HeaderValue::from(seconds.max(1))));
        self
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        use StatusCode as S;
        let detail = error.to_string();
        let cause = domain::error_chain(&error);
        match error {
            Error::Refused(refusal) => refused(refusal, detail),
            Error::NoSuchJob(_) => Self::new(S::NOT_FOUND, "no_such_job", detail),
            Error::NoSuchFactory(_) => Self::new(S::NOT_FOUND, "no_such_factory", detail),
            Error::NoSuchRun { .. } => Self::new(S::NOT_FOUND, "no_such_run", detail),
            Error::NoSuchToken => Self::new(S::NOT_FOUND, "no_such_token", detail),
            Error::Manifest(findings) => {
                Self::new(S::UNPROCESSABLE_ENTITY, "bad_manifest", detail).with(json!({ "findings": findings }))
            }
            Error::UnknownProduct { known, .. } => {
                Self::new(S::UNPROCESSABLE_ENTITY, "unknown_product", detail).with(json!({ "known": known }))
            }
            Error::RepoOwned { owner, .. } => {
                Self::new(S::UNPROCESSABLE_ENTITY, "repo_owned", detail).with(json!({ "owner": owner }))
            }
            Error::IdempotencyConflict { job, .. } => {
                Self::new(S::CONFLICT, "idempotency_conflict", detail).with(json!({ "jobId": job }))
            }
            Error::NoSuchDep(_) => Self::new(S::UNPROCESSABLE_ENTITY, "no_such_dep", detail),
            Error::DependencyCycle(_) => Self::new(S::UNPROCESSABLE_ENTITY, "dependency_cycle", detail),
            Error::Invalid { .. } => Self::invalid(detail),
            Error::Outdated => Self::new(S::PRECONDITION_FAILED, "precondition_failed", detail),
            Error::ModeNotAvailable(_) => Self::new(S::UNPROCESSABLE_ENTITY, "mode_not_available", detail),
            Error::NotReady(_) => Self::new(S::CONFLICT, "not_ready", detail),
            Error::Unauthenticated => {
                let mut problem = Self::new(S::UNAUTHORIZED, "unauthenticated", detail);
                problem.parts.header = Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
                problem
            }
            Error::JoinTokenUsed { .. } => Self::new(S::UNAUTHORIZED, "join_token_used", detail),
            Error::JoinTokenExpired { .. } => Self::new(S::UNAUTHORIZED, "join_token_expired", detail),
            Error::Forbidden(_) => Self::new(S::FORBIDDEN, "forbidden", detail),
            Error::ForeignInstance => Self::new(S::CONFLICT, "foreign_instance", detail),
            Error::Contended(_) => Self::new(S::SERVICE_UNAVAILABLE, "contended", detail),
            Error::OldProtocol { .. } => Self::new(S::UPGRADE_REQUIRED, "old_protocol", detail),
            Error::Store(StoreError::BadCursor) => {
                Self::new(S::BAD_REQUEST, "bad_cursor", StoreError::BadCursor.to_string())
            }
            Error::Store(StoreError::Unavailable(_)) => {
                Self::new(S::SERVICE_UNAVAILABLE, "store_unavailable", detail).because(cause).retry_after(AGAIN)
            }
            Error::Store(StoreError::DiskFull(_)) => {
                let detail = "the coordinator has no space left on its disk: nothing was changed, try again later";
                Self::new(S::SERVICE_UNAVAILABLE, "disk_full", detail).because(cause).retry_after(SPACE_AGAIN)
            }
            Error::Store(StoreError::Corrupt(_)) => {
                let detail = "the store holds something unreadable: `giga alerts` and the coordinator's log name it";
                Self::new(S::INTERNAL_SERVER_ERROR, "corrupt", detail).because(cause)
            }
            Error::Broker(BrokerError::Unavailable(_) | BrokerError::Closed | BrokerError::Expired) => {
                Self::new(S::SERVICE_UNAVAILABLE, "broker_unavailable", detail).because(cause).retry_after(AGAIN)
            }
        }
    }
}

impl From<NotReady> for Problem {
    fn from(reason: NotReady) -> Self {
        match reason {
            NotReady::StoreDamaged(why) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_damaged", why),
            NotReady::DiskFull(why) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "disk_full", why).retry_after(SPACE_AGAIN)
            }
        }
    }
}

impl From<BackupServiceError> for Problem {
    fn from(error: BackupServiceError) -> Self {
        match error {
            BackupServiceError::BadBackup(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_backup", error.to_string())
            }
            BackupServiceError::Busy => Self::new(StatusCode::CONFLICT, "busy", error.to_string()),
            BackupServiceError::Store(cause) => Error::Store(cause).into(),
        }
    }
}

/// When to retry after a store or broker failure: they recover by themselves, or an operator acts.
const AGAIN: Duration = Duration::from_secs(1);

/// When to retry after a full disk: an operator has to free space.
const SPACE_AGAIN: Duration = Duration::from_secs(10);

fn refused(refusal: Refusal, detail: String) -> Problem {
    use StatusCode as S;
    match refusal {
        Refusal::StaleEpoch { held, .. } => {
            Problem::new(S::CONFLICT, "fenced", detail).with(json!({ "leaseEpoch": held }))
        }
        Refusal::NotHolder { .. } => Problem::new(S::CONFLICT, "fenced", detail),
        Refusal::IllegalTransition { stage, allowed, .. } => {
            let more = json!({ "stage": stage, "allowed": allowed });
            Problem::new(S::CONFLICT, "illegal_transition", detail).with(more)
        }
        Refusal::SupersededDispatch { current, .. } => {
            Problem::new(S::CONFLICT, "superseded_dispatch", detail).with(json!({ "dispatchSeq": current }))
        }
        Refusal::NotTarget { .. } => Problem::new(S::CONFLICT, "not_target", detail),
        Refusal::AlreadyGranted => Problem::new(S::CONFLICT, "already_granted", detail),
        Refusal::DepsUnmet(dep) => Problem::new(S::CONFLICT, "deps_unmet", detail).with(json!({ "jobId": dep })),
        Refusal::NothingToShip => Problem::new(S::CONFLICT, "nothing_to_ship", detail),
        Refusal::NotAWorkersReason(_) => Problem::new(S::UNPROCESSABLE_ENTITY, "not_a_workers_reason", detail),
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

        let told = Problem::from(fault).into_told();

        assert_eq!((told.status, told.code.as_str()), (500, "corrupt"));
        assert!(!told.detail.contains("secret"));
    }

    #[test]
    fn a_refused_move_names_the_allowed_ones() {
        let refusal = Refusal::IllegalTransition {
            stage: StageName::Shipped,
            event: "started",
            allowed: vec![StageName::Queued],
        };

        let told = Problem::from(Error::Refused(refusal)).into_told();

        assert_eq!(told.code, "illegal_transition");
        assert_eq!(told.more, json!({ "stage": "shipped", "allowed": ["queued"] }));
    }

    #[test]
    fn retry_after_is_rounded_up_to_seconds() {
        let problem = Problem::rate_limited("slowly", Duration::from_millis(1_200));

        assert_eq!(problem.into_response().headers()[header::RETRY_AFTER], "2");
    }
}
