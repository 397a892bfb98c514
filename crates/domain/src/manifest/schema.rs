//! The JSON Schema of the front matter, generated from the decoder's table.

use serde_json::{Map, Value as Json, json};

use super::fields::{FIELDS, Field, FieldShape};
use super::tree::Tree;

/// The JSON Schema of the front matter.
///
/// The schema is stricter than the parser: where it expects a string, the parser also accepts `3`.
pub fn manifest_schema() -> Json {
    let mut schema = object_schema(FIELDS);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["$id"] = json!("urn:gigafactory:schema:job:1");
    schema["title"] = json!("Gigafactory job");
    schema["description"] = json!("The front matter of a job's manifest. Unknown keys are kept, with a warning.");
    schema["not"] = json!({"required": ["engine", "engines"]});
    schema
}

fn object_schema(fields: &[Field]) -> Json {
    let properties: Map<String, Json> =
        fields.iter().map(|field| (field.name.to_owned(), field_schema(field))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": true})
}

fn field_schema(field: &Field) -> Json {
    let mut schema = match field.shape {
        FieldShape::Value { schema, .. } => schema(),
        FieldShape::Group { fields, .. } => object_schema(fields),
        FieldShape::Unsupported => json!({"not": {}}),
    };
    schema["description"] = match field.shape {
        FieldShape::Unsupported => json!(format!("Not supported yet, rejected at submit. {}", field.about)),
        FieldShape::Value { .. } | FieldShape::Group { .. } => json!(field.about),
    };
    if !field.example.is_empty() {
        schema["examples"] = json!([example(field)]);
    }
    schema
}

/// The example as JSON. String examples never look like numbers, so untyped decoding is correct.
fn example(field: &Field) -> Json {
    let yaml = format!("example: {}\n", field.example);
    let entries = Tree::read(&yaml, 0).entries.unwrap_or_default();
    entries.first().map_or(Json::Null, |entry| entry.node.value.to_json())
}
