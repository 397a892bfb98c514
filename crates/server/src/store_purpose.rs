//! What a request uses the store for [D4].

use coordinator::Purpose;
use http::Method;
use protocol::API_PREFIX;

/// Requests that add jobs.
const SUBMITS: [&str; 6] =
    ["/jobs", "/jobs/batch", "/jobs/{id}/children", "/plans", "/tracker/ingest", "/tracker/webhook/{name}"];

/// Requests that factories send while they work.
const WORK: [&str; 25] = [
    "/accept",
    "/claim",
    "/decline",
    "/fail",
    "/work",
    "/factories/enroll",
    "/factories/heartbeat",
    "/factories/{id}/renew",
    "/factories/{id}/token/rotate",
    "/identity",
    "/jobs/{id}",
    "/jobs/{id}/artifacts",
    "/jobs/{id}/ask",
    "/jobs/{id}/complete",
    "/jobs/{id}/lease/release",
    "/jobs/{id}/lease/renew",
    "/jobs/{id}/logs",
    "/jobs/{id}/promote",
    "/jobs/{id}/pull-request",
    "/jobs/{id}/quota",
    "/jobs/{id}/runs/evidence",
    "/jobs/{id}/start",
    "/jobs/{id}/subtasks",
    "/jobs/{id}/subtasks/wait",
    "/jobs/{id}/usage",
];

/// The purpose of a request by its method and its route.
pub(crate) fn of(method: &Method, route: &str) -> Purpose {
    let route = route.strip_prefix(API_PREFIX).unwrap_or(route);
    match *method {
        _ if route == "/factories/{id}/inbox" => Purpose::Work,
        Method::GET | Method::HEAD | Method::OPTIONS => Purpose::Query,
        _ if SUBMITS.contains(&route) => Purpose::Submit,
        _ if WORK.contains(&route) => Purpose::Work,
        _ => Purpose::Change,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [D4]
    #[test]
    fn requests_of_factories_people_and_readers_are_told_apart() {
        for (method, route, purpose) in [
            (Method::POST, "/api/fleet/jobs", Purpose::Submit),
            (Method::GET, "/api/fleet/jobs", Purpose::Query),
            (Method::POST, "/api/fleet/jobs/{id}/complete", Purpose::Work),
            (Method::GET, "/api/fleet/factories/{id}/inbox", Purpose::Work),
            (Method::POST, "/api/fleet/jobs/{id}/actions/{action}", Purpose::Change),
            (Method::PUT, "/api/fleet/flags", Purpose::Change),
            (Method::GET, "/readyz", Purpose::Query),
        ] {
            assert_eq!(of(&method, route), purpose, "{method} {route}");
        }
    }
}
