//! The filter of a list: `stage=review repo=house fix login`.

use domain::{Priority, StageName};
use protocol::JobView;

/// The keys that a filter of jobs knows.
pub(crate) const KEYS: [&str; 6] = ["stage", "priority", "repo", "factory", "tag", "product"];

/// A filter: `key=value` terms and words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    text: String,
}

impl Filter {
    pub(crate) const NONE: &'static Self = &Self { text: String::new() };

    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.trim().to_owned() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn terms(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text.split_whitespace().filter_map(term)
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.text.split_whitespace().filter(|word| term(word).is_none())
    }

    /// Why the coordinator would not understand it.
    pub(crate) fn problem(&self) -> Option<String> {
        self.terms().find_map(|(key, value)| match key {
            "stage" => {
                value.split(',').find_map(|stage| stage.parse::<StageName>().err()).map(|error| error.to_string())
            }
            "priority" if Priority::ALL.iter().all(|priority| priority.name() != value) => {
                Some(format!("`{value}` is not a priority: expected critical, high, normal or low"))
            }
            _ => None,
        })
    }

    /// The query of `GET /jobs`.
    pub(crate) fn query(&self) -> String {
        let mut query = String::new();
        for (key, value) in self.terms() {
            query.push_str(&format!("&{key}={}", percent_encoded(value)));
        }
        let words: Vec<&str> = self.words().collect();
        if !words.is_empty() {
            query.push_str(&format!("&text={}", percent_encoded(&words.join(" "))));
        }
        query
    }

    /// Whether a job passes, as far as the client can decide.
    pub(crate) fn admits(&self, job: &JobView) -> bool {
        let holder = job.holder_factory_id.as_ref().or(job.target_factory_id.as_ref());
        let terms = self.terms().all(|(key, value)| match key {
            "stage" => value.split(',').any(|stage| stage == job.stage.as_str()),
            "priority" => value == job.priority.name(),
            "repo" => job.repo.as_ref().is_some_and(|repo| repo.as_str() == value),
            "tag" => value.split(',').all(|tag| job.tags.iter().any(|own| own.as_str() == tag)),
            "product" => job.product_id.as_str() == value,
            // A job of the past has no holder: the coordinator knows who had it.
            "factory" => holder.is_none_or(|holder| holder.as_str() == value),
            _ => true,
        });
        terms && self.admits_text(&[&job.title, &job.id.to_string()])
    }

    /// Whether each word is in one of the texts.
    pub(crate) fn admits_text(&self, texts: &[&str]) -> bool {
        let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
        self.words().all(|word| {
            let word = word.to_lowercase();
            texts.iter().any(|text| text.contains(&word))
        })
    }
}

fn term(word: &str) -> Option<(&str, &str)> {
    let (key, value) = word.split_once(['=', ':'])?;
    (KEYS.contains(&key) && !value.is_empty()).then_some((key, value))
}

/// A value for a query string.
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b',' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_become_parameters_and_words_a_text() {
        let filter = Filter::new(" stage=review,testing fix tag:ux the/login ");

        assert_eq!(filter.query(), "&stage=review,testing&tag=ux&text=fix%20the%2Flogin");
        assert!(filter.admits_text(&["Fix it", "THE/Login"]));
        assert!(!filter.admits_text(&["Fix it"]));
    }

    #[test]
    fn an_unknown_stage_is_reported_before_it_is_sent() {
        assert!(Filter::new("stage=bulding").problem().unwrap().contains("`bulding` is not a stage"));
        assert_eq!(Filter::new("stage=building,review priority=high").problem(), None);
    }
}
