use std::collections::BTreeMap;

use domain::{Budget, Dep, DepsMode, Kind, Manifest, OnDepFailure, Priority, Retry, Spec, Strictness};
use serde_json::json;

use crate::manifest::texts;

const FULL: &str = r#"---
title: "Add dark mode"
product: notes
profile: ux-designer@3
repo: acme/notes
base: release/1.10
capabilities: [os:linux, os:ubuntu, has:docker]
engines:
  - claude
  - codex
models: { claude: opus, codex: gpt-5 }
priority: high
budget: { usd: 2.50, wall: 1h30m, tokens: 200000 }
deps:
  - key:design
  - 0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a
  - key:design
depsMode: any
onDepFailure: fail
kind: composite
prepare: npm run format
verify:
  - npm test
  - |
    npm run lint
    npm run build
allowEmpty: true
retry:
  max: 3
  backoff: 500ms
tags: [ui, 2024]
---
# A heading

Make it dark.
"#;

fn parse(text: &str) -> Spec {
    let manifest = Manifest::parse(text, Strictness::Strict).map_err(|findings| texts(&findings)).unwrap();
    assert_eq!(manifest.warnings, []);
    manifest.spec
}

// [J1]
#[test]
fn every_supported_key_reaches_the_spec() {
    let spec = parse(FULL);

    assert_eq!(
        spec,
        Spec {
            title: "Add dark mode".into(),
            product: Some("notes".parse().unwrap()),
            repo: Some("acme/notes".parse().unwrap()),
            base: Some("release/1.10".parse().unwrap()),
            profile: Some("ux-designer@3".parse().unwrap()),
            capabilities: vec!["os:linux".parse().unwrap(), "has:docker".parse().unwrap()],
            engines: vec!["claude".parse().unwrap(), "codex".parse().unwrap()],
            model: None,
            models: [("claude".parse().unwrap(), "opus".into()), ("codex".parse().unwrap(), "gpt-5".into())].into(),
            priority: Priority::High,
            budget: Budget { usd: Some(2.5), wall_ms: Some(5_400_000), tokens: Some(200_000) },
            deps: vec![Dep::Key("design".into()), Dep::Id("0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap())],
            deps_mode: DepsMode::Any,
            on_dep_failure: OnDepFailure::Fail,
            kind: Kind::Composite,
            prepare: vec!["npm run format".into()],
            verify: vec!["npm test".into(), "npm run lint\nnpm run build".into()],
            artifacts: Vec::new(),
            allow_empty: true,
            review: None,
            retry: Retry { max: Some(3), backoff_ms: Some(500) },
            preemptible: false,
            touches: Vec::new(),
            tags: vec!["ui".parse().unwrap(), "2024".parse().unwrap()],
            extra: BTreeMap::new(),
        }
    );
}

// [J1]
#[test]
fn each_engine_gets_its_model() {
    let model_for = |front: &str, engine: &str| {
        let spec = parse(&format!("---\n{front}\n---\nprose"));
        spec.model_for(&engine.parse().unwrap()).map(str::to_owned)
    };

    assert_eq!(model_for("engine: claude\nmodel: opus", "claude").as_deref(), Some("opus"));
    assert_eq!(model_for("engine: claude\nmodel: opus", "codex"), None);
    assert_eq!(model_for("models: { claude: opus }", "claude").as_deref(), Some("opus"));
    assert_eq!(model_for("models: { claude: opus }", "codex"), None);
    let earlier = domain::Spec { model: Some("opus".into()), ..domain::Spec::default() };
    assert_eq!(earlier.model_for(&"codex".parse().unwrap()), None, "a stored job passes its model to no other engine");
}

#[test]
fn crlf_and_a_byte_order_mark_give_the_same_spec() {
    let windows = format!("\u{feff}{}", FULL.replace('\n', "\r\n"));

    assert_eq!(parse(&windows), parse(FULL));
    assert_eq!(Manifest::prompt(&windows), "# A heading\r\n\r\nMake it dark.\r\n");
}

#[test]
fn the_prompt_is_the_text_after_the_front_matter() {
    assert_eq!(Manifest::prompt(FULL), "# A heading\n\nMake it dark.\n");
    assert_eq!(Manifest::prompt("Make it dark."), "Make it dark.");
    assert_eq!(Manifest::prompt("---\nnever: closed\n"), "---\nnever: closed\n");
}

#[test]
fn a_prompt_without_front_matter_is_titled_by_its_heading() {
    let spec = parse("Please.\n\n# Add dark mode\n");

    assert_eq!(spec, Spec { title: "Add dark mode".into(), ..Spec::default() });
}

#[test]
fn a_text_field_accepts_yaml_keywords() {
    let spec = parse("---\ntitle: 3\nproduct: no\nmodel: 4.10\nbase: '1.0'\nengine: on\n---\n");

    assert_eq!(
        spec,
        Spec {
            title: "3".into(),
            product: Some("no".parse().unwrap()),
            model: Some("4.10".into()),
            base: Some("1.0".parse().unwrap()),
            engines: vec!["on".parse().unwrap()],
            ..Spec::default()
        }
    );
}

#[test]
fn a_single_command_needs_no_list() {
    assert_eq!(parse("---\ntitle: t\nverify: make test\n---\n").verify, ["make test"]);
}

// [J1]
#[test]
fn unknown_keys_are_kept_with_a_warning() {
    let text = "---\ntitle: t\ncapabilites: [os:linux]\nbudget:\n  euro: 3\nowner:\n  team: \"7\"\n---\n";

    let manifest = Manifest::parse(text, Strictness::Lenient).unwrap();

    assert_eq!(
        texts(&manifest.warnings),
        [
            "warning: line 3, capabilites: unknown key; did you mean `capabilities`?",
            "warning: line 5, budget.euro: unknown key",
            "warning: line 6, owner: unknown key",
        ]
    );
    assert_eq!(
        json!(manifest.spec.extra),
        json!({"capabilites": ["os:linux"], "budget.euro": 3, "owner": {"team": "7"}})
    );
}
