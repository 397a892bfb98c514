//! The description of the API, drawn from the handlers.

use bytes::Bytes;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use crate::api::{
    archive, credentials, factories, history, inbox, jobs, live, logs, many, modes, operations, products, root, tokens,
    webhooks, work,
};

/// The whole description, as it is served.
pub(crate) fn document() -> Bytes {
    Description::openapi().to_pretty_json().unwrap_or_default().into()
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Gigafactory",
        description = "Turns any set of machines into one fleet that runs coding agents. Errors are problem details (RFC 9457) with a stable `code`.",
        version = "1",
        license(name = "Apache-2.0"),
    ),
    nest((path = "/api/fleet", api = Fleet)),
    paths(root::index, root::healthz, root::readyz, root::metrics, root::openapi, webhooks::github),
    modifiers(&Conventions),
)]
struct Description;

#[derive(OpenApi)]
#[openapi(
    components(schemas(protocol::Problem, protocol::Action, protocol::InboxEvent, protocol::ProgressEvent)),
    paths(
        root::job_schema,
        jobs::list,
        jobs::submit,
        jobs::batch,
        jobs::job,
        jobs::act,
        history::runs,
        history::evidence,
        history::events,
        history::explain,
        history::dag,
        history::lease,
        live::of_job,
        live::fleet,
        logs::read,
        logs::append,
        work::accept,
        work::decline,
        modes::claim,
        work::start,
        work::patch,
        work::complete,
        work::promote,
        work::sighted,
        work::fail,
        work::quota,
        work::keep_evidence,
        work::ask,
        work::release,
        work::renew,
        many::work,
        factories::list,
        factories::factory,
        factories::deregister,
        factories::heartbeat,
        factories::enroll,
        factories::renew,
        factories::rotate_token,
        factories::revoke_token,
        factories::drain,
        factories::prune,
        inbox::inbox,
        credentials::list,
        credentials::reopen,
        operations::metrics,
        operations::queue_state,
        modes::flags,
        modes::put_flags,
        operations::alerts,
        operations::dead_letters,
        operations::redrive,
        archive::back_up,
        archive::restore,
        tokens::list,
        tokens::create,
        tokens::delete,
        products::list,
        products::product,
        products::put,
    )
)]
struct Fleet;

/// Paths that need no token.
const OPEN: [&str; 7] = [
    "/",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/webhooks/github",
    "/api/fleet/schema/job.json",
    "/api/fleet/factories/enroll",
];

/// What holds for every operation, said once.
struct Conventions;

impl Modify for Conventions {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        openapi.components.get_or_insert_default().add_security_scheme("token", bearer);
        for (path, item) in &mut openapi.paths.paths {
            let operations = [
                ("get", &mut item.get),
                ("put", &mut item.put),
                ("post", &mut item.post),
                ("delete", &mut item.delete),
                ("patch", &mut item.patch),
            ];
            for (method, operation) in operations {
                let Some(operation) = operation else { continue };
                if !OPEN.contains(&path.as_str()) {
                    operation.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
                }
                add_problem(operation);
                name(operation, method, path);
            }
        }
    }
}

fn add_problem(operation: &mut Operation) {
    let content = Content::new(Some(Ref::from_schema_name("Problem")));
    let problem = ResponseBuilder::new()
        .description("What went wrong, why, and what to do about it")
        .content("application/problem+json", content)
        .build();
    operation.responses.responses.insert("default".to_owned(), problem.into());
}

/// Handlers of different modules share short names; method and path together are unique.
fn name(operation: &mut Operation, method: &str, path: &str) {
    let parts = path.trim_start_matches("/api/fleet").split(['/', '-', '.']).filter(|part| !part.is_empty());
    let parts = parts.map(|part| part.trim_matches(['{', '}']));
    let prefix = if path.starts_with("/api/fleet") { method.to_owned() } else { format!("{method}_root") };
    operation.operation_id = Some(parts.fold(prefix, |name, part| format!("{name}_{part}")));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reference_leads_to_a_schema() {
        let text = String::from_utf8(document().to_vec()).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let schemas: BTreeSet<_> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();

        let named = text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next());
        let missing: BTreeSet<_> = named.filter(|name| !schemas.contains(*name)).collect();

        assert_eq!(missing, BTreeSet::new());
    }

    #[test]
    fn no_two_operations_share_a_name() {
        let document: serde_json::Value = serde_json::from_slice(&document()).unwrap();
        let items = document["paths"].as_object().unwrap().values();
        let operations: Vec<_> = items.flat_map(|item| item.as_object().unwrap().values()).collect();

        let names: BTreeSet<_> =
            operations.iter().map(|operation| operation["operationId"].as_str().unwrap()).collect();

        assert_eq!(names.len(), operations.len());
    }
}
