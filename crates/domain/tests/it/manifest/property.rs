use domain::{Manifest, Severity, Spec, Strictness, is_terminal_safe};
use proptest::prelude::*;

/// Fragments that are hard for YAML parsers, in any order.
fn yaml_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "\n", "\n", "\n", "\n  ", "\n- ", "\r\n", "\r", "\t", " ", ": ", ":", "- ", "? ", "[", "]", "{", "}", ", ",
            "#", " #", "&a ", "*a", "!!str ", "!t ", "%TAG", "|", ">", "|-\n", ">2+\n", "'", "\"", "\\x", "\\u00",
            "\0", "\u{feff}", "\u{85}", "\u{2028}", "---", "---\n", "...", "~", "null", "<<", "é", "\u{202e}",
            "\u{1b}", "1e999", "-1", "0x1",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec![
            "title",
            "product",
            "repo",
            "base",
            "profile",
            "capabilities",
            "engine",
            "engines",
            "model",
            "priority",
            "budget",
            "usd",
            "wall",
            "tokens",
            "deps",
            "verify",
            "review",
            "quorum",
            "reviewers",
            "retry",
            "max",
            "backoff",
            "touches",
            "tags",
            "os:linux",
            "key:a",
            "../..",
            "$(touch canary)",
            "--option",
            "1h30m",
            "high",
            "true",
            "no",
            "3",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,6}",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Lines that mostly parse, with values that are often invalid.
fn plausible() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "product",
        "repo",
        "base",
        "model",
        "engine",
        "tags",
        "capabilities",
        "title",
        "deps",
    ]);
    let value = prop_oneof![
        "[a-z0-9./:@_-]{1,12}",
        "\"[a-z$(){}`;|&. -]{0,12}\"",
        "\\[[a-z:/.-]{1,8}, [a-z:/.-]{1,8}\\]",
        Just("\"\\e[2J\"".to_owned()),
        Just("\"a\\0b\"".to_owned()),
    ];
    prop::collection::btree_map(key, value, 0..6).prop_map(|entries| {
        let line = |(key, value): (&str, String)| format!("{key}: {value}\n");
        entries.into_iter().map(line).collect()
    })
}

/// Whether all names in the spec are valid and all texts are safe to display.
fn is_sound(spec: &Spec) -> bool {
    let written = serde_json::to_string(spec).unwrap();
    let mut lines = spec.model.iter().chain([&spec.title]);
    serde_json::from_str::<Spec>(&written).is_ok_and(|read| read == *spec)
        && lines.all(|line| !line.is_empty() && line.chars().all(is_terminal_safe))
        && spec.model.iter().all(|name| !name.starts_with('-'))
        && spec.verify.iter().all(|command| !command.is_empty() && !command.contains('\0'))
}

fn check(text: &str) -> Result<(), TestCaseError> {
    prop_assert!(text.ends_with(Manifest::prompt(text)));
    for strictness in [Strictness::Lenient, Strictness::Strict] {
        let findings = match Manifest::parse(text, strictness) {
            Ok(manifest) => {
                prop_assert!(is_sound(&manifest.spec), "{:?}", manifest.spec);
                prop_assert!(manifest.warnings.iter().all(|finding| finding.severity == Severity::Warning));
                manifest.warnings
            }
            Err(findings) => {
                prop_assert!(findings.iter().any(|finding| finding.severity == Severity::Error));
                findings
            }
        };
        for finding in findings {
            prop_assert!(finding.line >= 1);
            prop_assert!(finding.to_string().chars().all(is_terminal_safe), "{finding:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    // [J1]
    #[test]
    fn parsing_any_text_never_panics(text in "(?s).{0,200}") {
        check(&text)?;
    }

    #[test]
    fn parsing_any_front_matter_never_panics(yaml in yaml_like()) {
        check(&format!("---\n{yaml}\n---\nprose"))?;
    }

    #[test]
    fn an_accepted_manifest_has_only_valid_names(yaml in plausible()) {
        check(&format!("---\n{yaml}---\nprose"))?;
    }
}
