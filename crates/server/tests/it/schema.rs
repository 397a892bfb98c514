//! Validates JSON against the schemas of an OpenAPI document, more strictly than the standard: an unknown key is an
//! error.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A served OpenAPI document.
pub(crate) struct Description(pub(crate) Value);

impl Description {
    /// Checks a value against a named schema.
    pub(crate) fn check(&self, schema: &str, value: &Value) {
        let schema = &self.0["components"]["schemas"][schema];
        assert!(schema.is_object(), "no such schema");
        self.assert(schema, value);
    }

    /// Checks the body of an answer against the schema of its status.
    pub(crate) fn check_answer(&self, method: &str, path: &str, status: u16, body: &Value) {
        let operation = &self.0["paths"][path][method];
        assert!(operation.is_object(), "{method} {path} is not described");
        let responses = &operation["responses"];
        let response = responses.get(status.to_string()).unwrap_or_else(|| panic!("{method} {path}: {status}"));
        let response = self.resolved(response);
        let kind = if status < 400 { "application/json" } else { "application/problem+json" };
        self.assert(&response["content"][kind]["schema"], body);
    }

    /// Checks the body of a request against its schema.
    pub(crate) fn check_request(&self, method: &str, path: &str, body: &Value) {
        let schema = &self.0["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {path} takes no JSON");
        self.assert(schema, body);
    }

    fn assert(&self, schema: &Value, value: &Value) {
        if let Err(why) = self.held(schema, value, Keys::Known) {
            panic!("{why}\nin {value:#}\nby {schema:#}");
        }
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(link) => self.0.pointer(&link[1..]).unwrap_or_else(|| panic!("{link} leads nowhere")),
            None => schema,
        }
    }

    fn held(&self, schema: &Value, value: &Value, keys: Keys) -> Result<(), String> {
        let schema = self.resolved(schema);
        let Some(rules) = schema.as_object() else { return Ok(()) };
        if let Some(parts) = rules.get("allOf").and_then(Value::as_array) {
            parts.iter().try_for_each(|part| self.held(part, value, Keys::Any))?;
        }
        if let Some(variants) = rules.get("oneOf").and_then(Value::as_array) {
            let failures: Vec<_> =
                variants.iter().filter_map(|variant| self.held(variant, value, Keys::Any).err()).collect();
            if failures.len() == variants.len() {
                return Err(format!("no variant fits: {failures:?}"));
            }
        }
        check_kind(rules, value)?;
        match value {
            Value::Object(object) => self.held_object(schema, object, keys),
            Value::Array(items) => {
                let items_schema = rules.get("items").unwrap_or(&Value::Null);
                items.iter().try_for_each(|item| self.held(items_schema, item, Keys::Known))
            }
            Value::String(text) => check_range(rules, "minLength", "maxLength", text.chars().count() as f64),
            Value::Number(number) => check_range(rules, "minimum", "maximum", number.as_f64().unwrap()),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    fn held_object(&self, schema: &Value, object: &Map<String, Value>, keys: Keys) -> Result<(), String> {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            object.get(name).ok_or_else(|| format!("`{name}` is missing"))?;
        }
        let mut known = BTreeSet::new();
        let is_open = self.collect_keys(schema, &mut known);
        for (name, value) in object {
            if let Some(property) = schema["properties"].get(name) {
                self.held(property, value, Keys::Known).map_err(|why| format!("`{name}`: {why}"))?;
            } else if schema["additionalProperties"].is_object() {
                self.held(&schema["additionalProperties"], value, Keys::Known)?;
            } else if keys == Keys::Known && !is_open && !known.contains(name) {
                return Err(format!("`{name}` is in no schema"));
            }
        }
        Ok(())
    }

    /// Collects the keys that a schema names, directly or by its parts; returns whether it allows others.
    fn collect_keys(&self, schema: &Value, known: &mut BTreeSet<String>) -> bool {
        let schema = self.resolved(schema);
        let properties = schema["properties"].as_object();
        known.extend(properties.into_iter().flatten().map(|(name, _)| name.clone()));
        let parts = ["allOf", "oneOf"].into_iter().filter_map(|part| schema[part].as_array()).flatten();
        let parts: Vec<_> = parts.collect();
        let mut is_open = properties.is_none() && parts.is_empty();
        for part in parts {
            is_open |= self.collect_keys(part, known) && self.resolved(part)["type"] != "null";
        }
        is_open
    }
}

/// The keys that an object may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Those that its schema names.
    Known,
    /// Others too: the schema is a part of another one.
    Any,
}

fn check_kind(rules: &Map<String, Value>, value: &Value) -> Result<(), String> {
    if let Some(allowed) = rules.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        return Err(format!("{value} is none of {allowed:?}"));
    }
    let is = |kind: &Value| match kind.as_str().unwrap_or_default() {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => false,
    };
    let fits = match rules.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(kind) => is(kind),
    };
    if fits { Ok(()) } else { Err(format!("{value} is not {}", rules["type"])) }
}

fn check_range(rules: &Map<String, Value>, min: &str, max: &str, found: f64) -> Result<(), String> {
    let bound = |keyword: &str| rules.get(keyword).and_then(Value::as_f64);
    if bound(min).is_some_and(|min| found < min) || bound(max).is_some_and(|max| found > max) {
        return Err(format!("{found} is not from {:?} to {:?}", bound(min), bound(max)));
    }
    Ok(())
}
