//! The problem codes of the API: one table, from which docs/reference/problem-codes.md is generated.

use http::StatusCode;

/// A stable error code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProblemCode {
    /// The `code` of the problem.
    pub(crate) name: &'static str,
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// What it means and what a client does.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the reference page shows it"))]
    pub(crate) meaning: &'static str,
}

macro_rules! problem_codes {
    ($($constant:ident $name:literal $status:ident $meaning:literal;)*) => {
        $(pub(crate) const $constant: ProblemCode =
            ProblemCode { name: $name, status: StatusCode::$status, meaning: $meaning };)*

        /// Every code.
        #[cfg(test)]
        pub(crate) const ALL: &[ProblemCode] = &[$($constant),*];
    };
}

problem_codes! {
    BAD_CURSOR "bad_cursor" BAD_REQUEST "The cursor is not one that this list returned. Start again without it.";
    BAD_JSON "bad_json" BAD_REQUEST "The body is not valid JSON. The detail has the line and the column.";
    JOIN_TOKEN_EXPIRED "join_token_expired" UNAUTHORIZED "The join token has expired. Create another one with `giga token create --join`.";
    JOIN_TOKEN_USED "join_token_used" UNAUTHORIZED "The join token was used before. Create another one with `giga token create --join`.";
    UNAUTHENTICATED "unauthenticated" UNAUTHORIZED "The token is missing, unknown, expired or revoked.";
    FORBIDDEN "forbidden" FORBIDDEN "The role or the products of the token do not allow this.";
    FOREIGN_HOST "foreign_host" FORBIDDEN "The `Host` header is not a name of this server. Use its address, or add the name with `--host`.";
    FOREIGN_ORIGIN "foreign_origin" FORBIDDEN "A web page of another origin requested a change.";
    NOT_A_REVIEWER "not_a_reviewer" FORBIDDEN "The job names its reviewers, and the caller is not one of them. `reviewers` lists them.";
    OWN_WORK "own_work" FORBIDDEN "The caller submitted the job: another person has to review it.";
    NO_SUCH_ARTIFACT "no_such_artifact" NOT_FOUND "No artifact has this id, or the token does not cover its product.";
    NO_SUCH_FACTORY "no_such_factory" NOT_FOUND "No factory has this name.";
    NO_SUCH_JOB "no_such_job" NOT_FOUND "No job has this id, or the token does not cover its product.";
    NO_SUCH_POOL "no_such_pool" NOT_FOUND "No pool has this name, or the token covers none of its products.";
    NO_SUCH_PROFILE "no_such_profile" NOT_FOUND "No profile has this name or version, or the token does not cover its product.";
    NO_SUCH_ROUTE "no_such_route" NOT_FOUND "The path does not exist. See `/openapi.json`.";
    NO_SUCH_RUN "no_such_run" NOT_FOUND "The job has no run of this number.";
    NO_SUCH_TOKEN "no_such_token" NOT_FOUND "No token has this id.";
    NO_SUCH_WEBHOOK "no_such_webhook" NOT_FOUND "No webhook of this name is configured.";
    METHOD_NOT_ALLOWED "method_not_allowed" METHOD_NOT_ALLOWED "The path does not support this method. The `Allow` header lists those that it does.";
    UNFINISHED_BODY "unfinished_body" REQUEST_TIMEOUT "The body did not arrive in time, or was cut off.";
    ALREADY_GRANTED "already_granted" CONFLICT "The dispatch was granted under another nonce.";
    BUSY "busy" CONFLICT "A backup or a restore is in progress. Retry when it has ended.";
    DEPS_UNMET "deps_unmet" CONFLICT "A dependency of the job has not shipped. `jobId` names it.";
    FENCED "fenced" CONFLICT "The lease belongs to another epoch or another factory. The worker stops its run; nothing was changed.";
    FOREIGN_INSTANCE "foreign_instance" CONFLICT "The instance id belongs to another factory.";
    IDEMPOTENCY_CONFLICT "idempotency_conflict" CONFLICT "The key was used with another body. `jobId` names the job that has it.";
    ILLEGAL_TRANSITION "illegal_transition" CONFLICT "The job's stage does not allow this. `stage` and `allowed` say what it does.";
    LAST_ADMIN_TOKEN "last_admin_token" CONFLICT "Without this token no administrator could sign in. Create another admin token first.";
    NO_QUESTION "no_question" CONFLICT "The job's agent asks nothing: it was answered before, or never asked.";
    NOT_READY "not_ready" CONFLICT "The job or the fleet is not in a state that allows this yet. The detail has the reason.";
    OTHER_COMMIT "other_commit" CONFLICT "The vote names another commit than the one to review. `sha` is the current one.";
    NOT_TARGET "not_target" CONFLICT "The job was offered to another factory.";
    NOTHING_TO_SHIP "nothing_to_ship" CONFLICT "The job has no commit to merge.";
    PARENT_CANCELLED "parent_cancelled" CONFLICT "A job above this one was cancelled. `jobId` names it: requeue it first.";
    PARENT_PAUSED "parent_paused" CONFLICT "A job above this one is paused. `jobId` names it: resume that one.";
    WEAKER_REVIEW "weaker_review" CONFLICT "A review can only be made stricter. `quorum` and `reviewers` are what is required.";
    SUPERSEDED_DISPATCH "superseded_dispatch" CONFLICT "A newer dispatch of the job exists. `dispatchSeq` is its number.";
    ARTIFACT_GONE "artifact_gone" GONE "The bytes of the artifact are not in the blob store: they were removed there, or the fleet was restored from an older backup.";
    LENGTH_REQUIRED "length_required" LENGTH_REQUIRED "The route needs `Content-Length`.";
    PRECONDITION_FAILED "precondition_failed" PRECONDITION_FAILED "The resource has changed since the version in `If-Match`. Read it again.";
    ARTIFACT_LIMIT "artifact_limit" PAYLOAD_TOO_LARGE "The artifact is too large, or the job has too many. Nothing was attached.";
    BODY_TOO_LARGE "body_too_large" PAYLOAD_TOO_LARGE "The body is longer than the route accepts.";
    UNSUPPORTED_MEDIA_TYPE "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE "The route does not accept this `Content-Type`.";
    BAD_BACKUP "bad_backup" UNPROCESSABLE_ENTITY "The file is no backup, is damaged, or is of a newer release. Nothing was changed.";
    BAD_MANIFEST "bad_manifest" UNPROCESSABLE_ENTITY "The manifest or the profile has errors. `findings` lists them with line and key.";
    DEPENDENCY_CYCLE "dependency_cycle" UNPROCESSABLE_ENTITY "The jobs of the batch depend on each other in a cycle.";
    INVALID "invalid" UNPROCESSABLE_ENTITY "A value is not allowed. The detail names it.";
    NO_SUCH_DEP "no_such_dep" UNPROCESSABLE_ENTITY "A dependency does not exist.";
    NOT_A_WORKERS_REASON "not_a_workers_reason" UNPROCESSABLE_ENTITY "Only the coordinator gives this failure reason.";
    REPO_OWNED "repo_owned" UNPROCESSABLE_ENTITY "Another product owns the repository. `owner` names it.";
    UNKNOWN_KEY "unknown_key" UNPROCESSABLE_ENTITY "The route has no such key or query parameter. `suggestion` is the closest one.";
    UNKNOWN_PRODUCT "unknown_product" UNPROCESSABLE_ENTITY "The product does not exist; 404 if it is in the path. `known` lists the products of the token.";
    OLD_PROTOCOL "old_protocol" UPGRADE_REQUIRED "The factory's release is too old for this coordinator. Upgrade it.";
    UNCONFIRMED "unconfirmed" PRECONDITION_REQUIRED "A restore needs `?replace=everything`.";
    RATE_LIMITED "rate_limited" TOO_MANY_REQUESTS "Too many requests, bodies or failed sign-ins. Retry after the time in `Retry-After`.";
    CORRUPT "corrupt" INTERNAL_SERVER_ERROR "A stored document cannot be read. `giga alerts` and the coordinator's log name it.";
    INTERNAL "internal" INTERNAL_SERVER_ERROR "A bug of the coordinator. Its log has the cause.";
    NO_BACKUPS "no_backups" NOT_IMPLEMENTED "This store cannot be backed up through the coordinator.";
    BROKER_UNAVAILABLE "broker_unavailable" SERVICE_UNAVAILABLE "The broker does not answer. Retry after the time in `Retry-After`.";
    CONTENDED "contended" SERVICE_UNAVAILABLE "Other writes of the same job won several times in a row. Retry.";
    DISK_FULL "disk_full" SERVICE_UNAVAILABLE "The coordinator's disk is full. Nothing was changed; retry after the time in `Retry-After`.";
    NOT_LEADER "not_leader" SERVICE_UNAVAILABLE "No coordinator leads at the moment, or this one lost its connection to the store. Nothing was done; retry after the time in `Retry-After`.";
    STORE_DAMAGED "store_damaged" SERVICE_UNAVAILABLE "The store is damaged (`/readyz`). Restore a backup.";
    STORE_UNAVAILABLE "store_unavailable" SERVICE_UNAVAILABLE "The store does not answer. Retry after the time in `Retry-After`.";
    TIMED_OUT "timed_out" SERVICE_UNAVAILABLE "The answer took too long. The request may or may not have succeeded.";
}
