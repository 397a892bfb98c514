//! Schemas without what costs tokens and tells a model nothing.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};
use serde_json::Value;

/// Keywords of generated schemas that no client needs.
const NOISE: [&str; 4] = ["$schema", "title", "format", "default"];

/// The same tool with short schemas. Absent and null mean the same in every parameter, so null is not offered.
pub(crate) fn compact(mut tool: Tool) -> Tool {
    tool.input_schema = compacted(&tool.input_schema);
    tool.output_schema = tool.output_schema.as_ref().map(compacted);
    tool
}

fn compacted(schema: &Arc<JsonObject>) -> Arc<JsonObject> {
    let mut schema = schema.as_ref().clone();
    shorten(&mut schema);
    Arc::new(schema)
}

fn shorten(schema: &mut JsonObject) {
    schema.retain(|keyword, value| !NOISE.contains(&keyword.as_str()) || value.is_object());
    if let Some(Value::Array(kinds)) = schema.get("type") {
        let kinds: Vec<&Value> = kinds.iter().filter(|kind| *kind != "null").collect();
        if let [kind] = kinds.as_slice() {
            let kind = (*kind).clone();
            schema.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf") {
        let choices: Vec<&Value> = choices.iter().filter(|choice| choice["type"] != "null").collect();
        if let [Value::Object(choice)] = choices.as_slice() {
            let choice = choice.clone();
            schema.remove("anyOf");
            schema.extend(choice);
        }
    }
    for value in schema.values_mut() {
        match value {
            Value::Object(inner) => shorten(inner),
            Value::Array(items) => items.iter_mut().filter_map(Value::as_object_mut).for_each(shorten),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_and_generated_titles_are_removed() {
        let Value::Object(mut schema) = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "title": { "type": ["string", "null"], "description": "its title" },
                "until": { "anyOf": [{ "enum": ["a", "b"], "type": "string" }, { "type": "null" }] },
                "limit": { "type": ["integer", "null"], "format": "uint16", "minimum": 1, "default": null },
            },
        }) else {
            panic!("not an object")
        };

        shorten(&mut schema);

        let expected = json!({
            "type": "object",
            "properties": {
                "title": { "type": "string", "description": "its title" },
                "until": { "enum": ["a", "b"], "type": "string" },
                "limit": { "type": "integer", "minimum": 1 },
            },
        });
        assert_eq!(Value::Object(schema), expected);
    }
}
