//! All routes of the server.

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{self, MethodRouter};
use http::Method;
use protocol::API_PREFIX;

use crate::api::{
    artifacts, backup, batch, budgets, counts, credentials, events, factories, history, identity, inbox, jobs, logs,
    modes, needs, operations, outgoing, plans, pools, products, profiles, review, root, sessions, tokens, tracker,
    webhooks, work,
};
use crate::app::App;
use crate::middleware;
use crate::problem::Problem;
use crate::web;

/// The router of the server.
pub(crate) fn router(app: &App) -> Router {
    let api = own(app.clone());
    let mounted = app.mounts.iter().fold(Router::new(), |router, mount| mount.add_to(router, app, &api));
    let mounted = mounted.layer(from_fn_with_state(app.clone(), middleware::pass));
    // The routes of the server have the middleware already.
    api.merge(mounted)
}

/// The routes of the server itself.
fn own(app: App) -> Router {
    Router::new()
        .merge(at_the_root().router)
        .merge(under_the_prefix().router)
        .fallback(web::fallback)
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(from_fn_with_state(app.clone(), middleware::pass))
        .with_state(app)
}

fn at_the_root() -> Routes {
    Routes::default()
        .get("/", root::index)
        .get("/healthz", root::healthz)
        .get("/readyz", root::readyz)
        .get("/metrics", root::metrics)
        .get("/openapi.json", root::openapi)
        .post("/webhooks/github", webhooks::github)
}

fn under_the_prefix() -> Routes {
    Routes::under(API_PREFIX)
        .get("/schema/job.json", root::job_schema)
        .post("/identity", identity::prove)
        .get("/jobs", jobs::list)
        .post("/jobs", jobs::submit)
        .post("/jobs/batch", jobs::batch)
        .post("/plans", plans::submit)
        .get("/jobs/counts", counts::jobs)
        .get("/jobs/{id}", jobs::job)
        .patch("/jobs/{id}", work::patch)
        .post("/jobs/{id}/actions/{action}", jobs::act)
        .post("/jobs/{id}/children", jobs::add_children)
        .post("/jobs/{id}/answer", needs::answer)
        .post("/jobs/{id}/review", review::vote)
        .post("/jobs/{id}/review/request", review::request)
        .post("/jobs/{id}/dismiss", needs::dismiss)
        .get("/jobs/{id}/runs", history::runs)
        .get("/jobs/{id}/runs/{n}/evidence", history::evidence)
        .post("/jobs/{id}/runs/evidence", work::keep_evidence)
        .get("/jobs/{id}/events", history::events)
        .get("/jobs/{id}/events/stream", events::of_job)
        .get("/jobs/{id}/explain", history::explain)
        .get("/jobs/{id}/dag", history::dag)
        .get("/jobs/{id}/artifacts", artifacts::list)
        .post("/jobs/{id}/artifacts", artifacts::attach)
        .get("/artifacts/{id}", artifacts::download)
        .get("/artifacts/{id}/link", artifacts::link)
        .delete("/artifacts/{id}", artifacts::remove)
        .get("/jobs/{id}/logs", logs::read)
        .post("/jobs/{id}/logs", logs::append)
        .get("/jobs/{id}/lease", history::lease)
        .post("/jobs/{id}/lease/renew", work::renew)
        .post("/jobs/{id}/lease/release", work::release)
        .post("/jobs/{id}/start", work::start)
        .post("/jobs/{id}/complete", work::complete)
        .post("/jobs/{id}/promote", work::promote)
        .post("/jobs/{id}/pull-request", work::report_pull_request)
        .post("/jobs/{id}/quota", work::quota)
        .post("/jobs/{id}/ask", work::ask)
        .get("/jobs/{id}/subtasks", work::subtasks)
        .post("/jobs/{id}/subtasks", work::create_subtask)
        .post("/jobs/{id}/subtasks/wait", work::await_subtasks)
        .post("/jobs/{id}/usage", budgets::usage)
        .post("/accept", work::accept)
        .post("/decline", work::decline)
        .post("/claim", modes::claim)
        .post("/fail", work::fail)
        .post("/work", batch::work)
        .get("/events/stream", events::fleet)
        .get("/factories", factories::list)
        .post("/factories/heartbeat", factories::heartbeat)
        .post("/factories/enroll", factories::enroll)
        .post("/factories/prune", factories::prune)
        .get("/factories/{id}", factories::factory)
        .delete("/factories/{id}", factories::deregister)
        .post("/factories/{id}/renew", factories::renew)
        .get("/factories/{id}/inbox", inbox::inbox)
        .post("/factories/{id}/token/rotate", factories::rotate_token)
        .post("/factories/{id}/token/revoke", factories::revoke_token)
        .post("/factories/{id}/drain", factories::drain)
        .get("/pools", pools::list)
        .get("/pools/{id}", pools::pool)
        .put("/pools/{id}", pools::put)
        .delete("/pools/{id}", pools::delete)
        .get("/scale", pools::scale)
        .get("/credentials", credentials::list)
        .post("/credentials/resume", credentials::resume)
        .get("/metrics", operations::metrics)
        .get("/metrics/history", counts::metrics_history)
        .get("/queue-state", operations::queue_state)
        .get("/flags", modes::flags)
        .put("/flags", modes::put_flags)
        .get("/divergence", modes::divergence)
        .get("/alerts", operations::alerts)
        .get("/needs-me", needs::needs_me)
        .get("/dead-letters", operations::dead_letters)
        .post("/dead-letters/{id}/dismiss", operations::dismiss)
        .post("/dead-letters/{id}/redrive", operations::redrive)
        .get("/budgets", budgets::list)
        .get("/budgets/{id}", budgets::budget)
        .put("/budgets/{id}", budgets::put)
        .get("/budgets/{id}/burndown", budgets::burn_down)
        .post("/budgets/{id}/pause", budgets::pause)
        .post("/budgets/{id}/resume", budgets::resume)
        .get("/backup", backup::back_up)
        .post("/restore", backup::restore)
        .get("/tokens", tokens::list)
        .post("/tokens", tokens::create)
        .delete("/tokens/{id}", tokens::delete)
        .get("/session", sessions::show)
        .post("/session", sessions::sign_in)
        .delete("/session", sessions::sign_out)
        .post("/session/codes", sessions::create_code)
        .get("/products", products::list)
        .get("/products/{id}", products::product)
        .put("/products/{id}", products::put)
        .get("/profiles", profiles::list)
        .post("/profiles", profiles::create)
        .get("/profiles/{name}", profiles::profile)
        .get("/tracker", tracker::list)
        .post("/tracker/ingest", tracker::ingest)
        .post("/tracker/echo", tracker::echo)
        .post("/tracker/webhook/{name}", tracker::webhook)
        .get("/webhooks", outgoing::list)
        .post("/webhooks/{name}/test", outgoing::test)
}

/// Routes, and the list of them that a test compares with the OpenAPI document.
///
/// One router has all full paths: a nested one would split every request's path and look it up twice.
#[derive(Default)]
struct Routes {
    prefix: &'static str,
    router: Router<App>,
    listed: Vec<(Method, String)>,
}

impl Routes {
    fn under(prefix: &'static str) -> Self {
        Self { prefix, ..Self::default() }
    }

    fn get<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.with(Method::GET, path, routing::get(handler))
    }

    fn post<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.with(Method::POST, path, routing::post(handler))
    }

    fn put<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.with(Method::PUT, path, routing::put(handler))
    }

    fn patch<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.with(Method::PATCH, path, routing::patch(handler))
    }

    fn delete<H: Handler<T, App>, T: 'static>(self, path: &'static str, handler: H) -> Self {
        self.with(Method::DELETE, path, routing::delete(handler))
    }

    fn with(mut self, method: Method, path: &'static str, route: MethodRouter<App>) -> Self {
        let path = format!("{}{path}", self.prefix);
        self.router = self.router.route(&path, route);
        self.listed.push((method, path));
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // [§10]
    #[test]
    fn the_openapi_document_lists_exactly_the_routes() {
        let listed = under_the_prefix().listed.into_iter().chain(at_the_root().listed);
        let routed: BTreeSet<_> = listed.map(|(method, path)| format!("{method} {path}")).collect();

        let document = crate::openapi::document();
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                described.insert(format!("{} {path}", method.to_uppercase()));
            }
        }

        assert_eq!(described, routed);
    }
}
