//! A repository's template for pull requests.

use domain::CommitSha;

use crate::error::Error;
use crate::mirror::Mirror;

/// The largest template.
const TEMPLATE_BYTES_MAX: u64 = 64 * 1024;

/// Its file name, in any case.
const NAMES: [&str; 2] = ["pull_request_template.md", "pull_request_template.txt"];

impl Mirror {
    /// The template at a commit, if there is one. It is read from git, never from a worktree, where it could be a link.
    pub async fn pr_template(&self, at: &CommitSha) -> Result<Option<String>, Error> {
        let listing = self
            .call("ls-tree")
            .args(["-l", "-z", "--end-of-options", at.as_str(), ".github/", "docs/", "./"])
            .output()
            .await?;
        let listing = String::from_utf8_lossy(&listing);
        let Some(object) = listing.split('\0').find_map(template_in) else { return Ok(None) };
        let template = self.call("cat-file").args(["blob", object]).output().await?;
        Ok(Some(String::from_utf8_lossy(&template).into_owned()))
    }
}

/// The object in a line of `mode type object size TAB path`, if it is a template of acceptable size.
fn template_in(line: &str) -> Option<&str> {
    let (facts, path) = line.split_once('\t')?;
    let mut facts = facts.split_whitespace();
    let (mode, kind, object, size) = (facts.next()?, facts.next()?, facts.next()?, facts.next()?);
    let name = path.rsplit('/').next()?.to_ascii_lowercase();
    let is_template = mode != "120000" && kind == "blob" && NAMES.contains(&name.as_str());
    (is_template && size.parse::<u64>().ok()? <= TEMPLATE_BYTES_MAX).then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_a_file_of_that_name_and_of_bearable_size() {
        assert_eq!(template_in("100644 blob abc   12\t.github/PULL_REQUEST_TEMPLATE.md"), Some("abc"));
        assert_eq!(template_in("100644 blob abc   12\tpull_request_template.md"), Some("abc"));
        for line in [
            "120000 blob abc   12\tpull_request_template.md",
            "040000 tree abc    -\tpull_request_template.md",
            "100644 blob abc   9999999\tpull_request_template.md",
            "100644 blob abc   12\treadme.md",
            "",
        ] {
            assert_eq!(template_in(line), None, "{line}");
        }
    }
}
