//! Conventions of all operations: security, problems, and unknown keys.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::schemas::{is_of_type, schemas_of};

/// How an operation treats unknown request keys and query parameters.
pub(crate) const UNKNOWN_KEYS: &str = "x-unknown-keys";

/// They are ignored and counted: the caller is a worker that may be one release newer.
pub(crate) const IGNORED: &str = "ignored";

/// They are rejected: the caller is a user or a program with a typing mistake.
pub(crate) const REJECTED: &str = "rejected";

const PREFIX: &str = protocol::API_PREFIX;

/// Paths that need no token.
const OPEN: [&str; 8] = [
    "/",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/webhooks/github",
    "/api/fleet/schema/job.json",
    "/api/fleet/factories/enroll",
    "/api/fleet/identity",
];

/// The operation that makes a session; the others of its path need one.
const SIGN_IN: (&str, &str) = ("post", "/api/fleet/session");

fn is_open(method: &str, path: &str) -> bool {
    OPEN.contains(&path) || (method, path) == SIGN_IN
}

/// The operations of factories, below the prefix.
const WORKER: [(&str, &str); 24] = [
    ("post", "/identity"),
    ("post", "/factories/heartbeat"),
    ("post", "/factories/enroll"),
    ("post", "/factories/{id}/renew"),
    ("get", "/factories/{id}/inbox"),
    ("post", "/factories/{id}/token/rotate"),
    ("post", "/claim"),
    ("post", "/accept"),
    ("post", "/decline"),
    ("post", "/work"),
    ("post", "/fail"),
    ("patch", "/jobs/{id}"),
    ("post", "/jobs/{id}/start"),
    ("post", "/jobs/{id}/complete"),
    ("post", "/jobs/{id}/promote"),
    ("post", "/jobs/{id}/pull-request"),
    ("post", "/jobs/{id}/quota"),
    ("post", "/jobs/{id}/ask"),
    ("post", "/jobs/{id}/subtasks"),
    ("post", "/jobs/{id}/subtasks/wait"),
    ("post", "/jobs/{id}/logs"),
    ("post", "/jobs/{id}/runs/evidence"),
    ("post", "/jobs/{id}/lease/renew"),
    ("post", "/jobs/{id}/lease/release"),
];

/// Adds the conventions to every operation.
pub(super) fn refine(document: &mut Value) {
    add_problems(document);
    let optional = without_required_keys(document);
    let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) else { return };
    let mut strict = BTreeSet::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let Some(operation) = operation.as_object_mut() else { continue };
            operation.insert("operationId".to_owned(), name(method, path).into());
            if path == "/metrics" {
                // No token if only this machine can reach the server.
                operation.insert("security".to_owned(), json!([{}, { "token": [] }]));
            } else if !is_open(method, path) {
                operation.insert("security".to_owned(), json!([{ "token": [] }]));
            }
            allow_no_body(operation, &optional);
            tidy_parameters(operation);
            fail(operation, method, path);
            let Some(below) = path.strip_prefix(PREFIX) else { continue };
            let is_worker = WORKER.contains(&(method.as_str(), below));
            operation.insert(UNKNOWN_KEYS.to_owned(), if is_worker { IGNORED } else { REJECTED }.into());
            if !is_worker {
                links(operation.get("requestBody").unwrap_or(&Value::Null), &mut strict);
            }
        }
    }
    close(document, strict);
}

/// Handlers of different modules share short names; method and path together are unique.
fn name(method: &str, path: &str) -> String {
    let prefix = if path.starts_with(PREFIX) { "" } else { "Root" };
    let parts = path.trim_start_matches(PREFIX).split(['/', '-', '.']).map(|part| part.trim_matches(['{', '}']));
    let parts = parts.filter(|part| !part.is_empty()).map(|part| part[..1].to_uppercase() + &part[1..]);
    parts.fold(format!("{method}{prefix}"), |name, part| name + &part)
}

/// The schemas of objects that may be empty.
fn without_required_keys(document: &mut Value) -> BTreeSet<String> {
    let is_optional = |schema: &Value| {
        let required = schema.get("required").and_then(Value::as_array);
        schema.get("properties").is_some() && required.is_none_or(Vec::is_empty)
    };
    let schemas = schemas_of(document).into_iter().flatten();
    schemas.filter(|(_, schema)| is_optional(schema)).map(|(name, _)| name.clone()).collect()
}

/// An empty body means `{}`.
fn allow_no_body(operation: &mut Map<String, Value>, optional: &BTreeSet<String>) {
    let Some(body) = operation.get_mut("requestBody") else { return };
    let link = body.pointer("/content/application~1json/schema/$ref").and_then(Value::as_str);
    let is_optional = link.and_then(|link| link.rsplit('/').next()).is_some_and(|name| optional.contains(name));
    body["required"] = (!is_optional).into();
}

/// A parameter is present or absent, never `null`.
fn tidy_parameters(operation: &mut Map<String, Value>) {
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(kinds) = parameter.pointer_mut("/schema/type") else { continue };
        if let Some([only]) = kinds
            .as_array()
            .map(|kinds| kinds.iter().filter(|kind| **kind != "null").cloned().collect::<Vec<_>>())
            .as_deref()
        {
            *kinds = only.clone();
        }
    }
}

/// The problems of an operation, each with a stable code.
fn fail(operation: &mut Map<String, Value>, method: &str, path: &str) {
    let has = |operation: &Map<String, Value>, name: &str| {
        let parameters = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
        parameters.clone().any(|parameter| parameter["name"] == name)
    };
    let is_ours = path.starts_with(PREFIX);
    let has_body = operation.contains_key("requestBody");
    let is_change = method != "get";
    let conditions = [
        (400, has_body || has(operation, "cursor")),
        (
            401,
            !is_open(method, path)
                || path.ends_with("/enroll")
                || path.starts_with("/webhooks")
                || (method, path) == SIGN_IN,
        ),
        (403, true),
        (404, path.contains('{') || is_change),
        (408, has_body),
        (409, is_ours && (is_change || path.ends_with("/backup"))),
        (411, path.starts_with("/webhooks")),
        (412, has(operation, "If-Match")),
        (413, has_body),
        (415, has_body),
        (422, is_ours || has_body),
        (426, path.ends_with("/heartbeat")),
        (428, path.ends_with("/restore")),
        (429, is_ours || has_body),
    ];
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for (status, _) in conditions.iter().filter(|(_, applies)| *applies) {
        responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/Problem{status}") }));
    }
    responses.insert("default".to_owned(), json!({ "$ref": "#/components/responses/Problem" }));
    responses.sort_keys();
}

/// One response per problem status, and the security scheme.
fn add_problems(document: &mut Value) {
    let statuses = [400, 401, 403, 404, 408, 409, 411, 412, 413, 415, 422, 426, 428, 429];
    let mut responses = Map::new();
    for status in statuses {
        let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Error");
        responses.insert(format!("Problem{status}"), problem(reason, &headers(status)));
    }
    let unavailable = "The store, the broker or the coordinator is unavailable, or an internal error occurred";
    responses.insert("Problem".to_owned(), problem(unavailable, &headers(503)));
    document["components"]["responses"] = responses.into();
    document["components"]["securitySchemes"] = json!({ "token": { "type": "http", "scheme": "bearer" } });
}

fn problem(description: &str, headers: &Value) -> Value {
    let mut problem = json!({
        "description": description,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    if !headers.is_null() {
        problem["headers"] = headers.clone();
    }
    problem
}

fn headers(status: u16) -> Value {
    let seconds = json!({ "type": "integer", "minimum": 1, "maximum": 86_400 });
    match status {
        401 => json!({ "WWW-Authenticate": { "description": "How to authenticate", "schema": { "type": "string" } } }),
        429 | 503 => json!({ "Retry-After": { "description": "Seconds to wait", "schema": seconds } }),
        _ => Value::Null,
    }
}

/// Objects that are only in requests with known keys allow no others.
fn close(document: &mut Value, roots: BTreeSet<String>) {
    let Some(schemas) = schemas_of(document) else { return };
    let (mut known, mut todo) = (roots.clone(), Vec::from_iter(roots));
    while let Some(name) = todo.pop() {
        let Some(schema) = schemas.get_mut(&name) else { continue };
        let mut further = BTreeSet::new();
        links(schema, &mut further);
        todo.extend(further.into_iter().filter(|name| known.insert(name.clone())));
        super::schemas::visit(schema, &mut |schema| {
            if is_of_type(schema, "object") && schema.contains_key("properties") {
                schema.entry("additionalProperties").or_insert(false.into());
            }
        });
    }
}

/// The names of the schemas that `node` refers to.
pub(super) fn links(node: &Value, found: &mut BTreeSet<String>) {
    match node {
        Value::Object(object) => {
            let link = object.get("$ref").and_then(Value::as_str);
            found.extend(link.and_then(|link| link.rsplit('/').next()).map(str::to_owned));
            object.values().for_each(|child| links(child, found));
        }
        Value::Array(items) => items.iter().for_each(|child| links(child, found)),
        _ => {}
    }
}
