//! The OpenAPI document, generated from the handlers.

mod conventions;
mod limits;
mod schemas;

use serde_json::Value;
use utoipa::OpenApi;

use crate::api::{
    artifacts, backup, batch, budgets, counts, credentials, events, factories, history, identity, inbox, jobs, logs,
    modes, needs, operations, outgoing, plans, pools, products, profiles, review, root, sessions, tokens, tracker,
    webhooks, work,
};

pub(crate) use conventions::{IGNORED, UNKNOWN_KEYS};

/// The whole document: the parts from handlers and types, and the conventions for all of them.
pub(crate) fn document() -> Value {
    let mut document = serde_json::to_value(Description::openapi()).unwrap_or_default();
    schemas::refine(&mut document);
    limits::apply(&mut document);
    conventions::refine(&mut document);
    document
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Gigafactory",
        description = "Runs coding agents on a fleet of machines. Errors are problem details (RFC 9457) with a stable `code`.",
        version = "1",
        license(name = "Apache-2.0"),
    ),
    nest((path = "/api/fleet", api = Fleet)),
    paths(root::index, root::healthz, root::readyz, root::metrics, root::openapi, webhooks::github),
)]
struct Description;

#[derive(OpenApi)]
#[openapi(
    components(schemas(protocol::Problem, protocol::Action, protocol::InboxEvent, protocol::StreamEvent)),
    paths(
        root::job_schema,
        identity::prove,
        jobs::list,
        jobs::submit,
        jobs::batch,
        plans::submit,
        counts::jobs,
        jobs::job,
        jobs::act,
        jobs::add_children,
        needs::answer,
        needs::dismiss,
        review::vote,
        review::request,
        history::runs,
        history::evidence,
        history::events,
        history::explain,
        history::dag,
        history::lease,
        events::of_job,
        events::fleet,
        artifacts::list,
        artifacts::attach,
        artifacts::download,
        artifacts::link,
        artifacts::remove,
        logs::read,
        logs::append,
        work::accept,
        work::decline,
        modes::claim,
        work::start,
        work::patch,
        work::complete,
        work::promote,
        work::report_pull_request,
        work::fail,
        work::quota,
        work::keep_evidence,
        work::ask,
        work::create_subtask,
        work::subtasks,
        work::await_subtasks,
        work::release,
        work::renew,
        batch::work,
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
        pools::list,
        pools::pool,
        pools::put,
        pools::delete,
        pools::scale,
        inbox::inbox,
        credentials::list,
        credentials::resume,
        operations::metrics,
        counts::metrics_history,
        operations::queue_state,
        modes::flags,
        modes::put_flags,
        modes::divergence,
        operations::alerts,
        needs::needs_me,
        operations::dead_letters,
        operations::dismiss,
        operations::redrive,
        backup::back_up,
        backup::restore,
        tokens::list,
        tokens::create,
        tokens::delete,
        sessions::show,
        sessions::sign_in,
        sessions::sign_out,
        sessions::create_code,
        products::list,
        products::product,
        products::put,
        budgets::list,
        budgets::budget,
        budgets::put,
        budgets::burn_down,
        budgets::pause,
        budgets::resume,
        budgets::usage,
        profiles::list,
        profiles::profile,
        profiles::create,
        tracker::list,
        tracker::ingest,
        tracker::echo,
        tracker::webhook,
        outgoing::list,
        outgoing::test,
    )
)]
struct Fleet;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // [U4]
    #[test]
    fn every_reference_leads_to_a_schema() {
        let document = document();
        let text = document.to_string();
        let schemas: BTreeSet<_> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();

        let named = text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next());
        let missing: BTreeSet<_> = named.filter(|name| !schemas.contains(*name)).collect();

        assert_eq!(missing, BTreeSet::new());
    }

    // [§10]
    #[test]
    fn every_property_is_in_camel_case() {
        let mut document = document();
        let mut others = BTreeSet::new();
        schemas::visit(&mut document, &mut |schema| {
            for name in schema.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name)
            {
                let is_camel = name.starts_with(|c: char| c.is_ascii_lowercase())
                    && name.chars().all(|c| c.is_ascii_alphanumeric());
                if !is_camel {
                    others.insert(name.clone());
                }
            }
        });

        assert_eq!(others, BTreeSet::new());
    }

    /// Every number, text and list in a request has bounds.
    // [§10]
    #[test]
    fn every_number_of_a_request_is_bounded() {
        let mut document = document();
        let mut unbounded = BTreeSet::new();
        let mut names = BTreeSet::new();
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                for part in ["requestBody", "parameters"] {
                    conventions::links(&operation[part], &mut names);
                }
            }
        }
        let mut todo = Vec::from_iter(names.clone());
        while let Some(name) = todo.pop() {
            let mut further = BTreeSet::new();
            let schema = &mut document["components"]["schemas"][&name];
            conventions::links(schema, &mut further);
            todo.extend(further.into_iter().filter(|name| names.insert(name.clone())));
            schemas::visit(schema, &mut |schema| {
                let is_number = schemas::is_of_type(schema, "number") || schemas::is_of_type(schema, "integer");
                if is_number && !(schema.contains_key("minimum") && schema.contains_key("maximum")) {
                    unbounded.insert(format!("{name}: {schema:?}"));
                }
            });
        }

        assert!(names.len() > 50, "{names:?}");
        assert_eq!(unbounded, BTreeSet::new());
    }

    #[test]
    fn no_two_operations_share_a_name() {
        let document = document();
        let items = document["paths"].as_object().unwrap().values();
        let operations: Vec<_> = items.flat_map(|item| item.as_object().unwrap().values()).collect();

        let names: BTreeSet<_> =
            operations.iter().map(|operation| operation["operationId"].as_str().unwrap()).collect();

        assert_eq!(names.len(), operations.len());
    }
}
