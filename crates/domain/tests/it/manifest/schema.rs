use std::collections::BTreeSet;

use domain::{Manifest, Strictness, manifest_schema};
use serde_json::Value;

use crate::golden;
use crate::manifest::texts;

/// Every specified key, nested ones by path.
const KEYS: [&str; 32] = [
    "title",
    "product",
    "repo",
    "base",
    "profile",
    "capabilities",
    "engine",
    "engines",
    "model",
    "models",
    "priority",
    "budget",
    "budget.usd",
    "budget.wall",
    "budget.tokens",
    "deps",
    "depsMode",
    "onDepFailure",
    "kind",
    "verify",
    "prepare",
    "artifacts",
    "allowEmpty",
    "review",
    "review.quorum",
    "review.reviewers",
    "retry",
    "retry.max",
    "retry.backoff",
    "preemptible",
    "touches",
    "tags",
];

/// Every property of the schema by path.
fn properties(schema: &Value, parent: &str) -> Vec<(String, Value)> {
    let Some(properties) = schema["properties"].as_object() else { return Vec::new() };
    let mut found = Vec::new();
    for (name, property) in properties {
        let path = if parent.is_empty() { name.clone() } else { format!("{parent}.{name}") };
        found.extend(self::properties(property, &path));
        found.push((path, property.clone()));
    }
    found
}

#[test]
fn the_schema_has_all_specified_keys() {
    let known: BTreeSet<String> = properties(&manifest_schema(), "").into_iter().map(|(path, _)| path).collect();

    assert_eq!(known, KEYS.iter().map(|key| (*key).to_owned()).collect());
}

#[test]
fn every_example_of_the_schema_is_accepted() {
    for (path, property) in properties(&manifest_schema(), "") {
        let Some(example) = property["examples"].get(0) else {
            let is_rejected = property["not"] == serde_json::json!({});
            assert!(property["properties"].is_object() || is_rejected, "{path} has no example");
            continue;
        };
        let line = match path.split_once('.') {
            Some((group, name)) => format!("{group}: {{ {name}: {example} }}"),
            // A model needs an engine.
            None if path == "model" => format!("engine: claude\n{path}: {example}"),
            None => format!("{path}: {example}"),
        };

        let outcome = Manifest::parse(&format!("---\n{line}\n---\nprose"), Strictness::Strict);

        let findings = outcome.map_or_else(|findings| texts(&findings), |manifest| texts(&manifest.warnings));
        assert_eq!(findings, [""; 0], "{line}");
    }
}

// [J1]
#[test]
fn a_key_without_effect_is_rejected_by_schema_and_reader() {
    let key = "touches";
    let findings = Manifest::parse(&format!("---\n{key}: {{}}\n---\nprose"), Strictness::Lenient).unwrap_err();

    assert_eq!(texts(&findings), [format!("error: line 2, {key}: not supported yet: remove this key")]);
    assert_eq!(manifest_schema()["properties"][key]["not"], serde_json::json!({}), "{key}");
}

// [J1] [T5]
#[test]
fn a_review_asks_for_one_approval_unless_it_says_more() {
    let parse = |review: &str| Manifest::parse(&format!("---\nreview: {review}\n---\nprose"), Strictness::Strict);
    let accepted = |review: &str| {
        let review = parse(review).unwrap().spec.review.unwrap();
        (review.quorum, review.reviewers.len())
    };
    let refused = |review: &str| texts(&parse(review).unwrap_err()).remove(0);

    assert_eq!(
        [accepted("{}"), accepted("{quorum: 2}"), accepted("{reviewers: [ada, grace, ada]}")],
        [(1, 0), (2, 0), (1, 2)]
    );
    assert_eq!(refused("{quorum: 0}"), "error: line 2, review.quorum: must be between 1 and 10, found 0");
    assert!(refused("{quorum: 2, reviewers: [Ada, ada]}").contains("2 approvals required, but fewer people are named"));
    assert!(refused("2").contains("expected a mapping with `quorum`, `reviewers`"));
    assert!(refused("{approvers: [ada]}").contains("review.approvers: unknown key"));
}

#[test]
fn every_property_is_described() {
    let properties = properties(&manifest_schema(), "");
    assert!(properties.len() > 20, "only {} properties were found", properties.len());
    for (path, property) in properties {
        assert!(property["description"].as_str().is_some_and(|text| text.ends_with('.')), "{path}");
    }
}

// [J1]
#[test]
fn the_published_schema_is_up_to_date() {
    let schema = serde_json::to_string_pretty(&manifest_schema()).unwrap() + "\n";

    golden::check("job.schema.json", &schema);
}
