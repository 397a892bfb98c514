//! Which issues become jobs: a person with the right to label has to label them.

use std::collections::BTreeMap;

use domain::{ProductId, RepoName, TrackerName};
use protocol::IngestRequest;

/// Associations of an author with a repository that include the right to label.
const INSIDERS: [&str; 3] = ["OWNER", "MEMBER", "COLLABORATOR"];

/// Which issues of a tracker become jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueRules {
    /// The label that makes an issue a job.
    pub label: String,
    /// The logins whose issues become jobs; all when absent.
    pub authors: Option<Vec<String>>,
    /// The repositories on the forge whose issues count, with the repository and the product of their jobs; all when
    /// empty.
    pub repos: BTreeMap<String, (Option<RepoName>, Option<ProductId>)>,
}

/// A webhook about an issue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IssueEvent {
    /// `labeled`, `edited`, …
    pub action: String,
    /// The label that was added.
    pub label: Option<String>,
    /// `acme/notes`
    pub repository: String,
    /// The number of the issue.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// Its address for people.
    pub url: String,
    /// The login of its author.
    pub author: String,
    /// The author's association with the repository.
    pub association: String,
    /// The login of the person who caused the webhook.
    pub sender: String,
    /// Whether it is a pull request.
    pub is_pull_request: bool,
}

/// What an issue's webhook asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum IssueDecision {
    /// The issue becomes a job, unless it is one.
    Ingest(IngestRequest),
    /// The text of the issue changed: it is noted if the issue is a job.
    Note(IngestRequest),
    /// Nothing; with the reason.
    Ignore(&'static str),
}

impl IssueRules {
    pub(super) fn decide(&self, source: &TrackerName, event: &IssueEvent) -> IssueDecision {
        if event.number == 0 || event.is_pull_request {
            return IssueDecision::Ignore("it is not about an issue");
        }
        let Some(place) = self.place(&event.repository) else {
            return IssueDecision::Ignore("its repository is not configured");
        };
        let request = event.request(source, place);
        match event.action.as_str() {
            "edited" => IssueDecision::Note(request),
            "labeled" if event.label.as_deref() == Some(self.label.as_str()) => match self.objection(event) {
                Some(why) => IssueDecision::Ignore(why),
                None => IssueDecision::Ingest(request),
            },
            "labeled" => IssueDecision::Ignore("another label was added"),
            _ => IssueDecision::Ignore("only a label makes a job"),
        }
    }

    fn place(&self, repository: &str) -> Option<(Option<RepoName>, Option<ProductId>)> {
        match self.repos.get(repository) {
            Some(place) => Some(place.clone()),
            None => self.repos.is_empty().then(Default::default),
        }
    }

    /// Why a labelled issue is not accepted. The forge lets only people with triage rights label, with one exception: an
    /// issue template labels the issues of all authors.
    fn objection(&self, event: &IssueEvent) -> Option<&'static str> {
        let is_listed = |authors: &Vec<String>| authors.iter().any(|author| author.eq_ignore_ascii_case(&event.author));
        if self.authors.as_ref().is_some_and(|authors| !is_listed(authors)) {
            return Some("its author is not one of `allowed_authors`");
        }
        let is_by_outsider = event.sender == event.author && !INSIDERS.contains(&event.association.as_str());
        is_by_outsider.then_some("the label was added by its author, who may not label")
    }
}

impl IssueEvent {
    fn request(
        &self,
        source: &TrackerName,
        (repo, product_id): (Option<RepoName>, Option<ProductId>),
    ) -> IngestRequest {
        IngestRequest {
            source: source.clone(),
            key: format!("{}#{}", self.repository, self.number),
            title: self.title.clone(),
            body: self.body.clone(),
            labels: self.labels.clone(),
            url: Some(self.url.clone()).filter(|url| !url.is_empty()),
            author: Some(self.author.clone()).filter(|author| !author.is_empty()),
            product_id,
            repo: repo.or_else(|| self.identity()),
        }
    }

    /// The identity of the repository, by which factories name it: `github.com/acme/notes`.
    fn identity(&self) -> Option<RepoName> {
        let host = self.url.strip_prefix("https://")?.split('/').next()?;
        format!("{host}/{}", self.repository).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> IssueRules {
        IssueRules { label: "giga".to_owned(), authors: None, repos: BTreeMap::new() }
    }

    fn labelled() -> IssueEvent {
        IssueEvent {
            action: "labeled".to_owned(),
            label: Some("giga".to_owned()),
            repository: "acme/notes".to_owned(),
            number: 12,
            title: "Fix the typo".to_owned(),
            url: "https://github.com/acme/notes/issues/12".to_owned(),
            author: "stranger".to_owned(),
            association: "NONE".to_owned(),
            sender: "ann".to_owned(),
            ..IssueEvent::default()
        }
    }

    fn decide(rules: &IssueRules, event: &IssueEvent) -> IssueDecision {
        rules.decide(&"github".parse().unwrap(), event)
    }

    // [T6]
    #[test]
    fn a_labelled_issue_becomes_a_job_of_its_repository() {
        let IssueDecision::Ingest(request) = decide(&rules(), &labelled()) else { panic!("it is ignored") };

        assert_eq!(request.key, "acme/notes#12");
        assert_eq!(request.repo.unwrap().as_str(), "github.com/acme/notes");
    }

    // [T6] [attack: prompt-injected agent steals secrets]
    #[test]
    fn only_a_person_who_may_label_triggers_a_job() {
        let by_template = IssueEvent { sender: "stranger".to_owned(), ..labelled() };
        let by_member = IssueEvent { association: "MEMBER".to_owned(), ..by_template.clone() };
        let listed = IssueRules { authors: Some(vec!["Ann".to_owned()]), ..rules() };
        let by_ann = IssueEvent { author: "ann".to_owned(), association: "OWNER".to_owned(), ..labelled() };
        let is_taken =
            |rules: &IssueRules, event: &IssueEvent| matches!(decide(rules, event), IssueDecision::Ingest(_));

        assert!(!is_taken(&rules(), &by_template));
        assert!(is_taken(&rules(), &by_member));
        assert!(!is_taken(&listed, &labelled()));
        assert!(is_taken(&listed, &by_ann));
    }

    // [T6]
    #[test]
    fn other_webhooks_make_nothing() {
        let of = |event: IssueEvent| decide(&rules(), &event);
        let other = IssueRules { repos: BTreeMap::from([("acme/app".to_owned(), (None, None))]), ..rules() };

        assert!(matches!(of(IssueEvent { action: "opened".to_owned(), ..labelled() }), IssueDecision::Ignore(_)));
        assert!(matches!(of(IssueEvent { label: Some("bug".to_owned()), ..labelled() }), IssueDecision::Ignore(_)));
        assert!(matches!(of(IssueEvent { is_pull_request: true, ..labelled() }), IssueDecision::Ignore(_)));
        assert!(matches!(of(IssueEvent { action: "edited".to_owned(), ..labelled() }), IssueDecision::Note(_)));
        assert!(matches!(decide(&other, &labelled()), IssueDecision::Ignore(_)));
    }
}
