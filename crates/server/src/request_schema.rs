//! Validates requests against the OpenAPI document: no unknown keys, no number or list out of bounds.
//!
//! Types and patterns are left to the types themselves, whose errors are more specific. The check reads the body once,
//! without building it in memory.

mod compile;
mod walk;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;
use serde_json::Value;
use tracing::debug;

use crate::openapi::{IGNORED, UNKNOWN_KEYS};
use crate::problem::Problem;
use walk::Findings;

/// The rules of each operation, by path and method.
pub(crate) struct RequestSchemas {
    by_path: HashMap<String, Vec<(Method, Operation)>>,
    ignored: AtomicU64,
}

struct Operation {
    unknown: UnknownKeys,
    query: HashMap<String, Rule>,
    body: Option<Arc<Rule>>,
}

/// How an operation treats unknown keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnknownKeys {
    Rejected,
    /// The caller is a worker that may be one release newer.
    Ignored,
    /// A query of a route outside the API: probes and scrapers add parameters.
    Free,
}

/// The rule of one value.
#[derive(Debug, Default, Clone)]
struct Rule {
    keys: Option<Keys>,
    items: Option<Arc<Rule>>,
    items_max: Option<usize>,
    chars: Option<(usize, usize)>,
    number: Option<(f64, f64)>,
}

/// The keys of an object.
#[derive(Debug, Clone, Default)]
struct Keys {
    known: HashMap<String, Arc<Rule>>,
    /// The rule of any further key.
    rest: Option<Arc<Rule>>,
    count_max: Option<usize>,
    /// The keys of each variant of a tagged union, by the value of the tag.
    variants: Option<(String, HashMap<String, Vec<String>>)>,
}

impl RequestSchemas {
    /// Compiles the rules of every operation.
    pub(crate) fn of(document: &Value) -> Self {
        let mut by_path: HashMap<String, Vec<(Method, Operation)>> = HashMap::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                let Ok(method) = method.to_uppercase().parse() else { continue };
                let compiled = compile::operation(operation, document);
                by_path.entry(path.clone()).or_default().push((method, compiled));
            }
        }
        Self { by_path, ignored: AtomicU64::new(0) }
    }

    /// How many unknown keys of workers were ignored since the start.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// Checks the query parameters.
    pub(crate) fn check_query(&self, method: &Method, path: &str, query: &str) -> Result<(), Problem> {
        let Some(operation) = self.operation(method, path) else { return Ok(()) };
        let mut findings = Findings::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match operation.query.get(name) {
                Some(rule) => walk::parameter(name, value, rule, &mut findings),
                None => findings.unknown_parameter(name, operation.query.keys().map(String::as_str)),
            }
        }
        self.judge(operation.unknown, findings, "query parameter", path)
    }

    /// Checks a JSON body. Invalid JSON passes: the parser reports where it is wrong.
    pub(crate) fn check_body(&self, method: &Method, path: &str, body: &[u8]) -> Result<(), Problem> {
        let Some(operation) = self.operation(method, path) else { return Ok(()) };
        let Some(rule) = &operation.body else { return Ok(()) };
        match walk::body(body, rule) {
            Some(findings) => self.judge(operation.unknown, findings, "key", path),
            None => Ok(()),
        }
    }

    fn operation(&self, method: &Method, path: &str) -> Option<&Operation> {
        // The handler of `GET` answers `HEAD`.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.by_path.get(path)?.iter().find(|(of, _)| of == method).map(|(_, operation)| operation)
    }

    fn judge(&self, unknown: UnknownKeys, findings: Findings, what: &str, path: &str) -> Result<(), Problem> {
        if let Some(out_of_bounds) = findings.out_of_bounds {
            return Err(Problem::invalid(out_of_bounds));
        }
        let Some(first) = findings.first_unknown else { return Ok(()) };
        match unknown {
            UnknownKeys::Rejected => Err(Problem::unknown_key(what, &first.key, first.meant.as_deref())),
            UnknownKeys::Ignored => {
                self.ignored.fetch_add(findings.unknown_count, Ordering::Relaxed);
                debug!(key = %domain::escape_for_terminal(&first.key), http.path = path, "Ignored an unknown {what} of a worker");
                Ok(())
            }
            UnknownKeys::Free => Ok(()),
        }
    }
}

impl Operation {
    fn unknown_keys(operation: &Value) -> UnknownKeys {
        match operation.get(UNKNOWN_KEYS).and_then(Value::as_str) {
            Some(IGNORED) => UnknownKeys::Ignored,
            Some(_) => UnknownKeys::Rejected,
            None => UnknownKeys::Free,
        }
    }
}

#[cfg(test)]
mod tests;
