//! The name of the branch of a job's pull request.

use serde::Deserialize;

use crate::ids::JobId;
use crate::names::{BranchName, escape_for_terminal};

/// The name of a branch with the job's id at its end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct BranchTemplate {
    before: String,
}

/// An invalid template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not make a branch: write a branch's name that ends in `{{id}}`")]
pub struct BranchTemplateError(String);

impl BranchTemplate {
    /// The branch of a job.
    pub fn branch(&self, job: JobId) -> BranchName {
        match format!("{}{job}", self.before).parse() {
            Ok(branch) => branch,
            Err(_) => unreachable!("the template was tried with another id"),
        }
    }

    /// The job of a branch in our own spelling.
    pub fn job(&self, branch: &str) -> Option<JobId> {
        let job: JobId = branch.strip_prefix(&self.before)?.parse().ok()?;
        (self.branch(job).as_str() == branch).then_some(job)
    }

    /// A pattern of all its branches, and perhaps others.
    pub fn pattern(&self) -> String {
        format!("refs/heads/{}*", self.before)
    }
}

impl std::str::FromStr for BranchTemplate {
    type Err = BranchTemplateError;

    fn from_str(text: &str) -> Result<Self, BranchTemplateError> {
        let refused = || BranchTemplateError(escape_for_terminal(text));
        let before = text.strip_suffix("{id}").ok_or_else(refused)?;
        let tried: Result<BranchName, _> = format!("{before}0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a").parse();
        // A branch without a prefix of its own could be any user's.
        if tried.is_err() || before.is_empty() {
            return Err(refused());
        }
        Ok(Self { before: before.to_owned() })
    }
}

impl TryFrom<String> for BranchTemplate {
    type Error = BranchTemplateError;

    fn try_from(text: String) -> Result<Self, BranchTemplateError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_template_ends_in_the_id_and_makes_a_branch() {
        let job: JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap();
        let template: BranchTemplate = "agents/notes-{id}".parse().unwrap();

        assert_eq!(template.branch(job).as_str(), format!("agents/notes-{job}"));
        assert_eq!(template.job(&format!("agents/notes-{job}")), Some(job));
        for other in [format!("agents/{job}"), format!("agents/notes-{job}/x"), "agents/notes-by-hand".to_owned()] {
            assert_eq!(template.job(&other), None, "{other}");
        }
        for text in ["", "{id}", "agents/{id}/x", "agents", "-x/{id}", "a b/{id}", "a..b/{id}", "a/$(x)/{id}"] {
            assert!(text.parse::<BranchTemplate>().is_err(), "{text}");
        }
    }
}
