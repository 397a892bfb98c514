use domain::{Manifest, Strictness};

use crate::golden;
use crate::manifest::texts;

/// Rows of `=== sentence`, a manifest, `>>>` and its findings. A sentence that begins with `strict` is read strictly.
const GOLDEN: &str = "bad_manifests.txt";

#[test]
fn every_bad_manifest_is_refused_with_its_line_and_key() {
    let text = golden::read(GOLDEN);
    let rows: Vec<&str> = text.split("=== ").filter(|row| !row.is_empty()).collect();

    let actual: String = rows.iter().map(|row| judged(row)).collect();

    assert!(rows.len() >= 40, "{} rows", rows.len());
    golden::check(GOLDEN, &actual);
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
