//! The fake's answer to each request.

use http::Method;
use serde_json::{Value, json};

use super::book::{Book, Pull, Said};

type Answer = (u16, Value);

impl Book {
    pub(super) fn answer(&mut self, method: &Method, path: &str, query: &str, body: &[u8]) -> Answer {
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        if path == "/graphql" {
            return self.graph(&sent);
        }
        if path == "/repos/acme/notes" {
            return (200, json!({ "size": 3 }));
        }
        let Some(path) = path.strip_prefix("/repos/acme/notes/") else { return not_found() };
        let parts: Vec<&str> = path.split('/').collect();
        let number = parts.get(1).and_then(|part| part.parse::<u64>().ok());
        let at = self.pulls.iter().position(|pull| Some(pull.number) == number);
        match (method.as_str(), parts.as_slice(), at) {
            ("GET", ["pulls"], _) => self.find(query),
            ("POST", ["pulls"], _) => self.open(&sent),
            ("GET", ["pulls", _], Some(at)) => (200, self.shown(at)),
            ("PATCH", ["pulls", _], Some(at)) => {
                self.pulls[at].body = text(&sent, "body");
                (200, self.shown(at))
            }
            ("PUT", ["pulls", _, "merge"], Some(at)) => self.merge_asked(at, &sent),
            ("POST", ["pulls", _, "requested_reviewers"], Some(at)) => {
                self.pulls[at].reviewers.extend(texts(&sent, "reviewers"));
                self.pulls[at].reviewers.extend(texts(&sent, "team_reviewers"));
                (201, self.shown(at))
            }
            ("POST", ["issues", _, "labels"], Some(at)) => {
                self.pulls[at].labels.extend(texts(&sent, "labels"));
                (200, labels(&self.pulls[at]))
            }
            ("GET", ["issues", _, "comments"], Some(_)) => (200, listed(&self.comments, number)),
            ("POST", ["issues", _, "comments"], Some(_)) => {
                let id = self.id();
                let pull = number.unwrap_or(0);
                let said = Said { id, pull, by: "bot", association: "OWNER", place: "", text: text(&sent, "body") };
                self.comments.push(said);
                (201, json!({ "id": id }))
            }
            ("PATCH", ["issues", "comments", id], _) => {
                let id: u64 = id.parse().unwrap();
                let Some(known) = self.comments.iter_mut().find(|said| said.id == id) else { return not_found() };
                known.text = text(&sent, "body");
                (200, json!({ "id": id }))
            }
            ("GET", ["pulls", _, "comments"], Some(_)) => (200, listed(&self.on_lines, number)),
            ("GET", ["pulls", _, "reviews"], Some(_)) => (200, self.listed_reviews(number)),
            ("GET", ["commits", sha, "check-runs"], _) => (200, self.check_runs(sha)),
            ("GET", ["commits", _, "status"], _) => (200, json!({ "state": "pending", "statuses": [] })),
            ("GET", ["check-runs", _, "annotations"], _) => {
                (200, json!([{ "path": "src/lib.rs", "start_line": 3, "message": "unused variable" }]))
            }
            _ => not_found(),
        }
    }

    fn find(&self, query: &str) -> Answer {
        let wanted = query.split('&').find_map(|part| part.strip_prefix("head=acme:")).unwrap_or_default();
        let is_open = |pull: &Pull| pull.merged.is_none() && !pull.closed && pull.branch == wanted;
        let found = (0..self.pulls.len()).filter(|at| is_open(&self.pulls[*at])).map(|at| self.shown(at)).collect();
        (200, Value::Array(found))
    }

    fn open(&mut self, sent: &Value) -> Answer {
        let branch = text(sent, "head");
        if self.shows(&branch).is_none() {
            return invalid("head is invalid");
        }
        if self.pulls.iter().any(|pull| pull.branch == branch && pull.merged.is_none() && !pull.closed) {
            return invalid(&format!("A pull request already exists for acme:{branch}."));
        }
        self.pulls.push(Pull {
            number: self.pulls.len() as u64 + 1,
            branch,
            base: text(sent, "base"),
            title: text(sent, "title"),
            body: text(sent, "body"),
            draft: sent["draft"] == true,
            ..Pull::default()
        });
        (201, self.shown(self.pulls.len() - 1))
    }

    fn shown(&self, at: usize) -> Value {
        let pull = &self.pulls[at];
        let is_closed = pull.closed || pull.merged.is_some();
        let state = match (self.merges(at), self.refusal(at)) {
            _ if is_closed => "unknown",
            (false, _) => "dirty",
            (true, Some(_)) => "blocked",
            (true, None) => "clean",
        };
        json!({
            "number": pull.number, "node_id": format!("PR_{}", pull.number),
            "html_url": format!("https://github.example/acme/notes/pull/{}", pull.number),
            "title": pull.title, "body": pull.body, "draft": pull.draft,
            "state": if is_closed { "closed" } else { "open" },
            "merged": pull.merged.is_some(), "merge_commit_sha": pull.merged,
            "merged_by": pull.merged.as_ref().map(|_| json!({ "login": "ann" })),
            "mergeable": is_closed || self.merges(at), "mergeable_state": state,
            "labels": labels(pull), "head": { "sha": self.head(at) },
        })
    }

    fn merge_asked(&mut self, at: usize, sent: &Value) -> Answer {
        if self.head(at).as_deref() != sent["sha"].as_str() {
            return (409, json!({ "message": "Head branch was modified. Review and try the merge again." }));
        }
        if let Some(why) = self.refusal(at) {
            return (405, json!({ "message": why }));
        }
        if self.pulls[at].merged.is_some() {
            return (405, json!({ "message": "Pull Request is not mergeable" }));
        }
        let merge =
            self.merge(at, &text(sent, "merge_method"), &text(sent, "commit_title"), &text(sent, "commit_message"));
        (200, json!({ "sha": merge, "merged": true }))
    }

    fn graph(&mut self, sent: &Value) -> Answer {
        let question = text(sent, "query");
        let id = sent["variables"]["id"].as_str().unwrap_or_default();
        let number = id.strip_prefix("PR_").and_then(|number| number.parse::<u64>().ok());
        let Some(pull) = self.pulls.iter_mut().find(|pull| Some(pull.number) == number) else {
            return (200, json!({ "errors": [{ "message": "Could not resolve to a node" }] }));
        };
        if question.contains("markPullRequestReadyForReview") {
            pull.draft = false;
        } else if question.contains("enablePullRequestAutoMerge") {
            pull.auto_merge = sent["variables"]["sha"].as_str().map(str::to_owned);
        }
        (200, json!({ "data": {} }))
    }

    fn check_runs(&self, sha: &str) -> Value {
        let runs = self.checks.iter().filter(|check| check.sha.as_str() == sha).map(|check| {
            json!({
                "id": check.id, "name": check.name, "conclusion": check.conclusion,
                "status": if check.conclusion.is_some() { "completed" } else { "in_progress" },
                "output": {
                    "title": (!check.summary.is_empty()).then_some("Results"), "summary": check.summary,
                    "annotations_count": 1,
                },
            })
        });
        json!({ "check_runs": runs.collect::<Vec<_>>() })
    }
}

impl Book {
    /// Reviews are of the head that the pull request has now.
    fn listed_reviews(&self, number: Option<u64>) -> Value {
        let mut reviews = listed(&self.reviews, number);
        for review in reviews.as_array_mut().into_iter().flatten() {
            review["commit_id"] = json!(self.head(0));
        }
        reviews
    }
}

fn listed(said: &[Said], pull: Option<u64>) -> Value {
    let shown = said.iter().filter(|said| Some(said.pull) == pull).map(|said| {
        json!({
            "id": said.id, "body": said.text, "user": { "login": said.by }, "author_association": said.association,
            "state": said.place, "path": said.place, "line": 1,
        })
    });
    Value::Array(shown.collect())
}

fn labels(pull: &Pull) -> Value {
    Value::Array(pull.labels.iter().map(|name| json!({ "name": name })).collect())
}

fn text(sent: &Value, key: &str) -> String {
    sent[key].as_str().unwrap_or_default().to_owned()
}

fn texts(sent: &Value, key: &str) -> Vec<String> {
    let items = sent[key].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn not_found() -> Answer {
    (404, json!({ "message": "Not Found" }))
}

fn invalid(why: &str) -> Answer {
    (422, json!({ "message": "Validation Failed", "errors": [{ "message": why }] }))
}
