//! Every link between pages of the documentation leads somewhere.

use std::path::{Path, PathBuf};

fn pages_below(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages_below(&path, pages);
        } else if path.extension().is_some_and(|kind| kind == "md") {
            pages.push(path);
        }
    }
}

/// The targets of `[text](target)`, outside of code.
fn links(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        if is_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            found.extend(rest.split_once(')').map(|(target, _)| target.to_owned()));
        }
    }
    found
}

/// The anchors of a page's headings, as forges make them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn every_link_in_the_documentation_resolves() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root.join(name)).to_vec();
    pages_below(&root.join("docs"), &mut pages);
    let mut broken = Vec::new();
    let mut checked = 0;

    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        for link in links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, at)| (file, Some(at)));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let is_found = match anchor {
                None => target.exists(),
                Some(anchor) => std::fs::read_to_string(&target)
                    .is_ok_and(|text| anchors(&text).iter().any(|found| found == anchor)),
            };
            checked += 1;
            if !is_found {
                broken.push(format!("{}: {link}", page.strip_prefix(&root).unwrap_or(page).display()));
            }
        }
    }

    assert!(broken.is_empty(), "broken links: {broken:#?}");
    assert!(checked > 50, "only {checked} links were found");
}
