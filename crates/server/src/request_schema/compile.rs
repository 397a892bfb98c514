//! Compiles the OpenAPI document's JSON Schemas to rules that are fast to check.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Keys, Operation, Rule};

/// No request refers deeper; a recursive schema is unchecked below it.
const DEPTH_MAX: usize = 32;

/// Compiles the rules of one operation.
pub(super) fn operation(operation: &Value, document: &Value) -> Operation {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let query = parameters.filter(|parameter| parameter["in"] == "query").filter_map(|parameter| {
        let rule = rule(&parameter["schema"], document, 0);
        Some((parameter["name"].as_str()?.to_owned(), rule))
    });
    let body = operation.pointer("/requestBody/content/application~1json/schema");
    let unknown = Operation::unknown_keys(operation);
    Operation { unknown, query: query.collect(), body: body.map(|schema| Arc::new(rule(schema, document, 0))) }
}

fn rule(schema: &Value, document: &Value, depth: usize) -> Rule {
    if depth > DEPTH_MAX {
        return Rule { keys: Some(Keys { rest: Some(Arc::default()), ..Keys::default() }), ..Rule::default() };
    }
    let Some(schema) = schema.as_object() else { return Rule::default() };
    let below = |schema: &Value| Arc::new(rule(schema, document, depth + 1));
    let mut rule = Rule {
        keys: keys(schema, &below),
        items: schema.get("items").map(below),
        items_max: count(schema, "maxItems"),
        chars: chars(schema),
        number: number(schema),
    };
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|link| document.pointer(&link[1..]));
    let variants = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    for part in target.into_iter().chain(variants) {
        rule.merge(&below(part));
    }
    if let (Some(keys), Some(tag)) = (&mut rule.keys, schema.get("discriminator")) {
        keys.variants = variants_of(tag, document);
    }
    rule
}

fn keys(schema: &Map<String, Value>, below: &impl Fn(&Value) -> Arc<Rule>) -> Option<Keys> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let rest = schema.get("additionalProperties").filter(|rest| **rest != Value::Bool(false));
    if properties.is_none() && rest.is_none() {
        return None;
    }
    let known = properties.into_iter().flatten().map(|(name, schema)| (name.clone(), below(schema))).collect();
    let rest = rest.map(|schema| match schema {
        // A value of any kind with unknown keys.
        Value::Object(schema) if schema.is_empty() => Arc::default(),
        schema => below(schema),
    });
    Some(Keys { known, rest, count_max: count(schema, "maxProperties"), variants: None })
}

fn variants_of(tag: &Value, document: &Value) -> Option<(String, HashMap<String, Vec<String>>)> {
    let keys = |link: &Value| {
        let schema = document.pointer(&link.as_str()?[1..])?;
        Some(schema.get("properties")?.as_object()?.keys().cloned().collect())
    };
    let variants = tag["mapping"].as_object()?.iter().filter_map(|(value, link)| Some((value.clone(), keys(link)?)));
    Some((tag["propertyName"].as_str()?.to_owned(), variants.collect()))
}

fn count(schema: &Map<String, Value>, keyword: &str) -> Option<usize> {
    usize::try_from(schema.get(keyword)?.as_u64()?).ok()
}

fn chars(schema: &Map<String, Value>) -> Option<(usize, usize)> {
    let (min, max) = (count(schema, "minLength"), count(schema, "maxLength"));
    (min.is_some() || max.is_some()).then(|| (min.unwrap_or(0), max.unwrap_or(usize::MAX)))
}

fn number(schema: &Map<String, Value>) -> Option<(f64, f64)> {
    let (min, max) = (schema.get("minimum").and_then(Value::as_f64), schema.get("maximum").and_then(Value::as_f64));
    (min.is_some() || max.is_some()).then(|| (min.unwrap_or(f64::MIN), max.unwrap_or(f64::MAX)))
}

impl Rule {
    /// Extends the rule by what the other allows.
    fn merge(&mut self, other: &Self) {
        match (&mut self.keys, &other.keys) {
            (Some(keys), Some(others)) => keys.merge(others),
            (keys @ None, Some(others)) => *keys = Some(others.clone()),
            (_, None) => {}
        }
        self.items = self.items.take().or_else(|| other.items.clone());
        self.items_max = self.items_max.max(other.items_max);
        self.chars = wider(self.chars, other.chars, |one, two| (one.0.min(two.0), one.1.max(two.1)));
        self.number = wider(self.number, other.number, |one, two| (one.0.min(two.0), one.1.max(two.1)));
    }
}

impl Keys {
    fn merge(&mut self, other: &Self) {
        for (name, rule) in &other.known {
            match self.known.get_mut(name) {
                Some(known) => Arc::make_mut(known).merge(rule),
                None => {
                    self.known.insert(name.clone(), Arc::clone(rule));
                }
            }
        }
        self.rest = self.rest.take().or_else(|| other.rest.clone());
        self.count_max = self.count_max.max(other.count_max);
    }
}

fn wider<T>(one: Option<T>, two: Option<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    match (one, two) {
        (Some(one), Some(two)) => Some(join(one, two)),
        (one, two) => one.or(two),
    }
}
