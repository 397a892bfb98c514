//! The schemas as serde reads and writes them: one object for flattened fields, a discriminator for every tagged union,
//! and bounds for every number.

use serde_json::{Map, Value, json};

/// Larger integers lose digits in clients that use doubles, as JavaScript does.
const SAFE_INTEGER_MAX: i64 = 9_007_199_254_740_991;

/// The path of the schemas.
const SCHEMAS: &str = "#/components/schemas/";

/// Rewrites what the derive macros cannot express.
pub(super) fn refine(document: &mut Value) {
    flatten_all(document);
    name_variants(document);
    visit(document, &mut |schema| {
        tidy(schema);
        bound_number(schema);
    });
    if let Some(schemas) = schemas_of(document) {
        schemas.sort_keys();
    }
}

/// Calls `change` on every object below `node`, schemas among them.
pub(super) fn visit(node: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match node {
        Value::Object(object) => {
            change(object);
            object.values_mut().for_each(|child| visit(child, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|child| visit(child, change)),
        _ => {}
    }
}

/// The named schemas of the document.
pub(super) fn schemas_of(document: &mut Value) -> Option<&mut Map<String, Value>> {
    document.pointer_mut("/components/schemas")?.as_object_mut()
}

/// Whether a schema allows a type.
pub(super) fn is_of_type(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Merges objects composed by `allOf`: only then can a schema forbid further keys.
fn flatten_all(document: &mut Value) {
    let Some(schemas) = schemas_of(document) else { return };
    let known = schemas.clone();
    for schema in schemas.values_mut() {
        if let Some(flat) = flattened(schema, &known) {
            *schema = flat;
        }
        for variant in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(flat) = flattened(variant, &known) {
                *variant = flat;
            }
        }
    }
}

/// An `allOf` of objects as one object; `None` for everything else.
fn flattened(schema: &Value, known: &Map<String, Value>) -> Option<Value> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for part in schema.get("allOf")?.as_array()? {
        let part = resolved(part, known);
        let part = flattened(part, known).unwrap_or_else(|| part.clone());
        properties.extend(part.get("properties")?.as_object()?.clone());
        required.extend(part.get("required").and_then(Value::as_array).into_iter().flatten().cloned());
    }
    let mut flat = json!({ "type": "object", "required": required, "properties": properties });
    if let Some(description) = schema.get("description") {
        flat["description"] = description.clone();
    }
    Some(flat)
}

fn resolved<'a>(schema: &'a Value, known: &'a Map<String, Value>) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|link| link.strip_prefix(SCHEMAS));
    target.and_then(|name| known.get(name)).unwrap_or(schema)
}

/// Names the variants of tagged unions, so that a discriminator can refer to them.
fn name_variants(document: &mut Value) {
    let Some(schemas) = schemas_of(document) else { return };
    let mut named = Map::new();
    for (union, schema) in schemas.iter_mut() {
        let Some(tag) = tag_of(schema) else { continue };
        let Some(variants) = schema.get_mut("oneOf").and_then(Value::as_array_mut) else { continue };
        let mut mapping = Map::new();
        for variant in variants {
            let Some(value) = tag_value(variant, &tag).map(str::to_owned) else { continue };
            let name = format!("{union}{}", pascal(&value));
            let link = format!("{SCHEMAS}{name}");
            let inline = std::mem::replace(variant, json!({ "$ref": link }));
            named.insert(name, inline);
            mapping.insert(value, link.into());
        }
        schema["discriminator"] = json!({ "propertyName": tag, "mapping": mapping });
    }
    schemas.extend(named);
}

/// The discriminator property of a union.
fn tag_of(union: &Value) -> Option<String> {
    let variants = union.get("oneOf")?.as_array()?;
    let candidates = variants.first()?.get("properties")?.as_object()?.keys();
    let mut tags = candidates.filter(|key| variants.iter().all(|variant| tag_value(variant, key).is_some()));
    tags.next().cloned()
}

fn tag_value<'v>(variant: &'v Value, tag: &str) -> Option<&'v str> {
    match variant.get("properties")?.get(tag)?.get("enum")?.as_array()?.as_slice() {
        [Value::String(only)] => Some(only),
        _ => None,
    }
}

fn pascal(text: &str) -> String {
    let words = text.split(['_', '-']).filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// Removes keywords that are redundant or too strict: a repeated name in a set is not an error.
fn tidy(schema: &mut Map<String, Value>) {
    if schema.get("default") == Some(&Value::Null) {
        schema.shift_remove("default");
    }
    if is_of_type(schema, "array") {
        schema.shift_remove("uniqueItems");
    }
}

/// Every integer has a minimum and a maximum: its own, or those of its width.
fn bound_number(schema: &mut Map<String, Value>) {
    if !is_of_type(schema, "integer") {
        return;
    }
    let width_max = match schema.get("format").and_then(Value::as_str) {
        Some("int32") => i64::from(i32::MAX),
        _ => SAFE_INTEGER_MAX,
    };
    schema.entry("minimum").or_insert_with(|| (-width_max).into());
    schema.entry("maximum").or_insert_with(|| width_max.into());
}
