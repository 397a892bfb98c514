//! Limits of texts, lists and numbers, beyond those of their types. Requests are validated against them.

use domain::{COST_USD_MAX, ENGINE_MS_MAX, TOKENS_MAX, TURNS_MAX};
use protocol::{SUBTASK_INSTRUCTIONS_LEN_MAX, SUBTASK_KEY_LEN_MAX, SUBTASK_TITLE_CHARS_MAX};
use serde_json::{Map, Value, json};

use super::schemas::schemas_of;

/// One line of text that is safe on a terminal.
const LINE: &str = r"^[^\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+$";

/// [`LINE`] for an argument of a program.
const ARGUMENT: &str = r"^(?!-)[^\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+$";

/// [`ARGUMENT`], or empty.
const ARGUMENT_OR_EMPTY: &str =
    r"^(?!-)[^\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]*$";

/// A URL that is safe on a terminal.
const WEB_ADDRESS: &str =
    r"^https?://[^\s\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+$";

/// Seats of a machine, of an engine or of a repository.
const SEATS_MAX: u32 = 10_000;

/// The limit of names in a list written by hand.
const NAMES_MAX: u32 = 1_000;

/// Ten years. A token that never expires is created without a lifetime.
const TOKEN_TTL_SECONDS_MAX: u32 = 315_360_000;

/// A week.
const WEEK_MS: u32 = 604_800_000;

/// A user's free text: many pages. The stored text is shorter.
const TEXT_CHARS_MAX: usize = 32_000;

/// Adds the limits to the schemas.
pub(super) fn apply(document: &mut Value) {
    let Some(schemas) = schemas_of(document) else { return };
    schemas.insert("NewTokenScope".to_owned(), new_grant());
    if let Some(grant) = property(schemas, "CreateTokenRequest.grant") {
        grant.insert("$ref".to_owned(), "#/components/schemas/NewTokenScope".into());
    }
    for (place, limit) in limits() {
        let found = property(schemas, place);
        debug_assert!(found.is_some(), "no schema has a property {place}");
        if let (Some(property), Value::Object(limit)) = (found, limit) {
            property.extend(limit);
        }
    }
}

/// The scopes of a new token: all but a factory's, which comes from enrolment.
fn new_grant() -> Value {
    let roles = ["admin", "operator", "viewer", "join"].map(|role| {
        let name = role[..1].to_uppercase() + &role[1..];
        (role.to_owned(), Value::from(format!("#/components/schemas/TokenScope{name}")))
    });
    let variants: Vec<_> = roles.iter().map(|(_, link)| json!({ "$ref": link })).collect();
    let mapping: Map<String, Value> = roles.into_iter().collect();
    json!({
        "description": "What a new token allows. A factory's own token comes from enrolment with a `join` token.",
        "oneOf": variants,
        "discriminator": { "propertyName": "role", "mapping": mapping },
    })
}

/// The schema of `Schema.property`; with `[]` or `{}` at the end that of the items or values in it.
fn property<'s>(schemas: &'s mut Map<String, Value>, place: &str) -> Option<&'s mut Map<String, Value>> {
    let (schema, name) = place.split_once('.')?;
    let bare = name.trim_end_matches("[]").trim_end_matches("{}");
    let property = schemas.get_mut(schema)?.get_mut("properties")?.get_mut(bare)?;
    let property = match &name[bare.len()..] {
        "[]" => property.get_mut("items")?,
        "{}" => property.get_mut("additionalProperties")?,
        _ => property,
    };
    property.as_object_mut()
}

fn limits() -> Vec<(&'static str, Value)> {
    let names = || json!({ "maxItems": NAMES_MAX });
    let seats = || json!({ "minimum": 0, "maximum": SEATS_MAX });
    let map = || json!({ "maxProperties": NAMES_MAX });
    let text = || json!({ "maxLength": TEXT_CHARS_MAX });
    let cost = || json!({ "minimum": 0, "maximum": COST_USD_MAX });
    let tokens = || json!({ "minimum": 0, "maximum": TOKENS_MAX });
    let turns = || json!({ "minimum": 0, "maximum": TURNS_MAX });
    let load = || json!({ "minimum": 0, "maximum": 1_000_000 });
    let pull_request = || json!({ "minimum": 1 });
    vec![
        (
            "SubmitRequest.bodyMd",
            json!({ "maxLength": 1_048_576, "example": "---\ntitle: Fix the typo\nrepo: notes\n---\nPlease.\n" }),
        ),
        (
            "SubmitRequest.idempotencyKey",
            json!({ "minLength": 1, "maxLength": 190, "pattern": LINE, "example": "ticket-42" }),
        ),
        ("BatchRequest.jobs", names()),
        ("ActionRequest.message", text()),
        (
            "NewSubtask.title",
            json!({ "minLength": 1, "maxLength": SUBTASK_TITLE_CHARS_MAX, "pattern": LINE, "example": "Test the door" }),
        ),
        (
            "NewSubtask.instructions",
            json!({ "minLength": 1, "maxLength": SUBTASK_INSTRUCTIONS_LEN_MAX, "pattern": r"\S", "example": "Add tests." }),
        ),
        ("NewSubtask.key", json!({ "minLength": 1, "maxLength": SUBTASK_KEY_LEN_MAX })),
        ("NewSubtask.usd", json!({ "minimum": 0, "exclusiveMinimum": 0 })),
        ("NewSubtask.tokens", json!({ "minimum": 1 })),
        ("AnswerRequest.text", json!({ "maxLength": TEXT_CHARS_MAX, "example": "Use the red brick." })),
        ("DismissRequest.message", text()),
        ("IngestRequest.key", json!({ "minLength": 1, "maxLength": 110, "pattern": LINE, "example": "acme/notes#12" })),
        ("IngestRequest.title", json!({ "maxLength": 1_000, "example": "Fix the typo" })),
        ("IngestRequest.body", json!({ "maxLength": 1_048_576 })),
        ("IngestRequest.labels", names()),
        ("IngestRequest.labels[]", json!({ "maxLength": 200 })),
        (
            "IngestRequest.url",
            json!({ "maxLength": 2_000, "pattern": WEB_ADDRESS, "example": "https://forge.example/issues/12" }),
        ),
        ("IngestRequest.author", json!({ "maxLength": 200, "example": "ann" })),
        ("VoteRequest.comment", text()),
        ("ReviewRequest.message", text()),
        ("ReviewRequest.reviewers[]", json!({ "minLength": 1, "maxLength": 100, "pattern": LINE, "example": "ada" })),
        (
            "CreateTokenRequest.name",
            json!({ "minLength": 1, "maxLength": 100, "pattern": LINE, "example": "ann's laptop" }),
        ),
        ("CreateTokenRequest.owner", json!({ "minLength": 1, "maxLength": 100, "pattern": LINE, "example": "ann" })),
        (
            "CreateTokenRequest.forgeLogin",
            json!({ "minLength": 1, "maxLength": 100, "pattern": LINE, "example": "ann42" }),
        ),
        ("CreateTokenRequest.ttlSeconds", json!({ "minimum": 1, "maximum": TOKEN_TTL_SECONDS_MAX, "example": 86_400 })),
        ("SignInRequest.token", json!({ "minLength": 1, "maxLength": 200 })),
        ("SignInRequest.code", json!({ "minLength": 1, "maxLength": 200 })),
        ("CreateCodeRequest.ttlSeconds", json!({ "minimum": 60, "maximum": 600, "example": 300 })),
        ("ProductSettings.repos", names()),
        ("ProductSettings.weight", json!({ "minimum": 1, "maximum": 1_000, "example": 1 })),
        ("ProductSettings.repoSeats", map()),
        ("ProductSettings.repoSeats{}", seats()),
        ("PoolSettings.capabilities", names()),
        ("PoolSettings.engines", json!({ "minItems": 1, "maxItems": NAMES_MAX })),
        ("PoolSettings.repos", names()),
        ("PoolSettings.products", names()),
        ("PoolSettings.seats", json!({ "minimum": 1, "maximum": SEATS_MAX, "example": 2 })),
        ("PoolSettings.warm", json!({ "minimum": 0, "maximum": SEATS_MAX, "example": 0 })),
        ("PoolSettings.max", json!({ "minimum": 1, "maximum": SEATS_MAX, "example": 3 })),
        ("PoolSettings.cost", json!({ "minimum": 0, "maximum": 100, "example": 0 })),
        ("PoolSettings.startWithinMs", json!({ "minimum": 1, "maximum": WEEK_MS, "example": 300_000 })),
        ("PoolSettings.idleAfterMs", json!({ "minimum": 1, "maximum": WEEK_MS, "example": 300_000 })),
        ("DispatchModes.products", map()),
        ("BudgetSettings.ceilingUsd", cost()),
        ("BudgetSettings.jobUsd", cost()),
        ("UsageRequest.costUsd", cost()),
        ("UsageRequest.tokensIn", tokens()),
        ("UsageRequest.tokensOut", tokens()),
        ("ResumeCredential.credential", json!({ "minLength": 1, "maxLength": 200, "example": "mac-1/claude" })),
        ("IdentityChallenge.nonce", json!({ "minLength": 16, "maxLength": 128, "pattern": LINE })),
        ("IdentityChallenge.token", json!({ "minLength": 1, "maxLength": 64 })),
        (
            "IdentityChallenge.address",
            json!({ "maxLength": 300, "pattern": WEB_ADDRESS, "example": "http://127.0.0.1:7878" }),
        ),
        ("EnrolRequest.joinToken", json!({ "minLength": 1, "maxLength": 200 })),
        ("Heartbeat.capabilities", names()),
        ("Heartbeat.repos", names()),
        ("Heartbeat.repoIdentities", map()),
        ("Heartbeat.seatLimit", json!({ "minimum": 0, "maximum": SEATS_MAX, "example": 2 })),
        ("Heartbeat.engineSeats", json!({ "maxProperties": 100 })),
        ("Heartbeat.engineSeats{}", seats()),
        ("Heartbeat.repoSeats", map()),
        ("Heartbeat.repoSeats{}", seats()),
        ("Heartbeat.cost", json!({ "minimum": 0, "maximum": 100, "example": 0 })),
        ("Heartbeat.load", load()),
        ("Heartbeat.engines", json!({ "maxItems": 100 })),
        ("EngineHealth.credential", json!({ "minLength": 1, "maxLength": 200, "pattern": ARGUMENT })),
        ("QuotaReport.credential", json!({ "maxLength": 200, "pattern": ARGUMENT_OR_EMPTY })),
        ("Heartbeat.version", text()),
        ("RenewRequest.held", json!({ "maxItems": SEATS_MAX })),
        ("RenewRequest.load", load()),
        ("ClaimRequest.limit", json!({ "minimum": 1, "maximum": SEATS_MAX, "example": 1 })),
        ("ClaimRequest.products", names()),
        ("ClaimRequest.exceptProducts", names()),
        ("WorkRequest.operations", names()),
        ("Progress.costUsd", cost()),
        ("Progress.tokensIn", tokens()),
        ("Progress.tokensOut", tokens()),
        ("Progress.turns", turns()),
        ("Progress.toolCalls", turns()),
        ("RunInsights.costUsd", cost()),
        ("RunInsights.tokensIn", tokens()),
        ("RunInsights.tokensOut", tokens()),
        ("RunInsights.turns", turns()),
        ("RunInsights.engineMs", json!({ "minimum": 0, "maximum": ENGINE_MS_MAX })),
        ("PullRequest.number", pull_request()),
        (
            "PullRequest.url",
            json!({ "maxLength": 2_000, "pattern": WEB_ADDRESS, "example": "https://github.com/acme/notes/pull/7" }),
        ),
        ("PullRequestReport.number", pull_request()),
        (
            "Checkpoint.ref",
            json!({ "minLength": 1, "maxLength": 250, "pattern": ARGUMENT, "example": "aq/wip/0190f3a4/1" }),
        ),
        ("Checkpoint.session", json!({ "minLength": 1, "maxLength": 1_000, "pattern": ARGUMENT })),
        ("Problem.status", json!({ "minimum": 400, "maximum": 599 })),
        ("Problem.code", json!({ "pattern": "^[a-z_]+$", "example": "no_such_job" })),
        ("TokenScopeOperator.products", names()),
        ("TokenScopeViewer.products", names()),
        ("TokenScopeFactory.products", names()),
        ("TokenScopeFactory.capabilities", names()),
        ("TokenScopeJoin.products", names()),
        ("TokenScopeJoin.capabilities", names()),
    ]
}
