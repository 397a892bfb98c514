use domain::{Manifest, Strictness};

use crate::golden;
use crate::manifest::texts;

/// Rows of `=== sentence`, a manifest, `>>>` and its findings. A sentence that starts with `strict` is parsed strictly.
const GOLDEN: &str = "bad_manifests.txt";

// [J1]
#[test]
fn a_bad_manifest_is_rejected_with_line_and_key() {
    let text = golden::read(GOLDEN);
    let rows: Vec<&str> = text.split("=== ").filter(|row| !row.is_empty()).collect();

    let actual: String = rows.iter().map(|row| judged(row)).collect();

    assert!(rows.len() >= 40, "{} rows", rows.len());
    golden::check(GOLDEN, &actual);
}

#[test]
fn invalid_amounts_are_rejected_with_line_and_key() {
    let amounts = [".nan", ".inf", "-.inf", "-1", "1e308", "1e400"];
    let spans = ["-1s", "99999999h", "99999999999999999999h"];
    let rows = amounts
        .iter()
        .flat_map(|amount| [("budget", "usd", amount), ("budget", "tokens", amount), ("retry", "max", amount)])
        .chain(spans.iter().flat_map(|span| [("budget", "wall", span), ("retry", "backoff", span)]));

    for (group, key, value) in rows {
        let manifest = format!("---\n{group}:\n  {key}: {value}\n---\n# x\n");

        let findings = Manifest::parse(&manifest, Strictness::Lenient).expect_err(&manifest);

        let found = (findings[0].line, findings[0].key.clone());
        assert_eq!(found, (3, Some(format!("{group}.{key}"))), "{value}: {findings:?}");
    }
}

fn judged(row: &str) -> String {
    let (sentence, rest) = row.split_once('\n').unwrap();
    let manifest = rest.split_once(">>>\n").unwrap().0;
    let strictness = if sentence.starts_with("strict") { Strictness::Strict } else { Strictness::Lenient };
    let findings = match Manifest::parse(manifest, strictness) {
        Ok(manifest) => panic!("`{sentence}` was accepted as {manifest:?}"),
        Err(findings) => texts(&findings).join("\n"),
    };
    format!("=== {sentence}\n{manifest}>>>\n{findings}\n\n")
}
