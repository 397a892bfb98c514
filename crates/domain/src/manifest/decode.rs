//! Decodes the tree into a [`Spec`], key by key, and collects findings.

mod read;

use crate::spec::Spec;

use super::Strictness;
use super::fields::{FIELDS, Field, FieldShape, PROFILE_FIELDS};
use super::finding::{Finding, Severity};
use super::front_matter::title_of;
use super::path::Path;
use super::profile::ProfileUse;
use super::suggest::suggest;
use super::tree::{Entry, Node, Value};

/// A spec under construction.
pub(super) struct Decoder {
    pub(super) spec: Spec,
    pub(super) findings: Vec<Finding>,
    path: Path,
    strictness: Strictness,
}

impl Decoder {
    /// Decodes every key, then checks rules across keys.
    pub(super) fn fill(entries: &[Entry], prompt: &str, strictness: Strictness) -> Self {
        let mut form = Self::new(strictness);
        form.read_fields(entries, FIELDS);
        form.require_title(entries, prompt);
        form.require_one_engine_key(entries);
        form.require_enough_reviewers(entries);
        // The engines may come from the profile: then they are checked with its defaults.
        let has_engines = find(entries, "engine").or_else(|| find(entries, "engines")).is_some();
        if has_engines || form.spec.profile.is_none() {
            form.require_engines_of_models(entries);
        }
        form
    }

    /// Decodes the keys of a profile. An unknown key is an error: no job would have it.
    pub(super) fn fill_profile(entries: &[Entry]) -> Self {
        let mut form = Self::new(Strictness::Strict);
        form.read_fields(entries, PROFILE_FIELDS);
        form.require_one_engine_key(entries);
        form.require_engines_of_models(entries);
        form
    }

    fn new(strictness: Strictness) -> Self {
        Self { spec: Spec::default(), findings: Vec::new(), path: Path::default(), strictness }
    }

    fn read_fields(&mut self, entries: &[Entry], fields: &'static [Field]) {
        for Entry { key, node } in entries {
            match fields.iter().find(|field| field.name == key) {
                Some(field) => {
                    let mark = self.path.enter_key(key);
                    self.read_field(field, node);
                    self.path.leave(mark);
                }
                None => self.keep_unknown(key, node, fields),
            }
        }
    }

    fn read_field(&mut self, field: &Field, node: &Node) {
        match (&field.shape, &node.value) {
            (FieldShape::Value { read, .. }, _) => read(self, node),
            (FieldShape::Group { fields, begin }, Value::Map(entries)) => {
                begin(self);
                self.read_fields(entries, fields);
            }
            (FieldShape::Group { fields, .. }, _) => {
                let keys: Vec<String> = fields.iter().map(|field| format!("`{}`", field.name)).collect();
                self.expected(&format!("a mapping with {}", keys.join(", ")), node);
            }
            (FieldShape::Unsupported, _) => self.refuse(node.line, "not supported yet: remove this key"),
        }
    }

    /// Stores nested keys under their path, such as `budget.euro`.
    fn keep_unknown(&mut self, key: &str, node: &Node, fields: &'static [Field]) {
        let kept_as = self.path.key().map_or_else(|| key.to_owned(), |parent| format!("{parent}.{key}"));
        self.spec.extra.entry(kept_as).or_insert_with(|| node.value.to_json());

        let severity = match self.strictness {
            Strictness::Lenient => Severity::Warning,
            Strictness::Strict => Severity::Error,
        };
        let supported = fields.iter().filter(|field| !matches!(field.shape, FieldShape::Unsupported));
        let is_of_jobs = std::ptr::eq(fields, PROFILE_FIELDS) && FIELDS.iter().any(|field| field.name == key);
        let message = match suggest(key, supported.map(|field| field.name)) {
            _ if is_of_jobs => "a profile cannot set it: it belongs in the job".to_owned(),
            Some(known) => format!("unknown key; did you mean `{known}`?"),
            None => "unknown key".to_owned(),
        };
        let mark = self.path.enter_key(key);
        self.findings.push(Finding { line: node.line, key: self.path.key(), message, severity });
        self.path.leave(mark);
    }

    fn require_title(&mut self, entries: &[Entry], prompt: &str) {
        if find(entries, "title").is_some() {
            return;
        }
        match title_of(prompt) {
            Some(title) => self.spec.title = title,
            None => self.findings.push(Finding::error(
                1,
                Some("title".to_owned()),
                "the manifest has no title and no text: add `title:`",
            )),
        }
    }

    /// Rejects a review that can never be complete.
    fn require_enough_reviewers(&mut self, entries: &[Entry]) {
        let Some(review) = self.spec.review.as_ref().filter(|review| !review.is_reachable("")) else { return };
        let message = format!(
            "{} required, but fewer people are named: name more reviewers, or lower `quorum`",
            crate::counted(review.quorum, "approval"),
        );
        let line = find(entries, "review").map_or(1, |node| node.line);
        self.findings.push(Finding::error(line, Some("review".to_owned()), message));
    }

    fn require_one_engine_key(&mut self, entries: &[Entry]) {
        if let (Some(one), Some(several)) = (find(entries, "engine"), find(entries, "engines")) {
            let (key, line) = if one.line > several.line { ("engine", one.line) } else { ("engines", several.line) };
            let message = "`engine` and `engines` are both given: keep one of them";
            self.findings.push(Finding::error(line, Some(key.to_owned()), message));
        }
    }

    fn require_engines_of_models(&mut self, entries: &[Entry]) {
        let line = |key: &str| find(entries, key).map_or(1, |node| node.line);
        let keys = ModelKeys { line: &line, has_models: find(entries, "models").is_some() };
        self.findings.extend(keys.check(&self.spec));
    }
}

/// Where a manifest names models.
pub(super) struct ModelKeys<'k> {
    /// The line of a key.
    pub(super) line: &'k dyn Fn(&str) -> u32,
    /// Whether it has the key `models`.
    pub(super) has_models: bool,
}

impl ModelKeys<'_> {
    /// Rejects a model without an engine or with several: an engine could get a model that it does not know.
    pub(super) fn check(&self, spec: &Spec) -> Vec<Finding> {
        let (engines, mut findings) = (&spec.engines, Vec::new());
        let mut refuse = |key: &str, message: String| {
            findings.push(Finding::error((self.line)(key), Some(key.to_owned()), message));
        };
        if let Some(model) = &spec.model {
            if self.has_models {
                refuse("model", "`model` and `models` are both given: keep one of them".to_owned());
            } else if engines.len() != 1 {
                let example = engines.first().map_or("claude", |engine| engine.as_str());
                let message = format!(
                    "the job does not name exactly one engine: add `engine: …`, or give the model to its engine with \
                     `models: {{{example}: {model}}}`"
                );
                refuse("model", message);
            }
        }
        let unnamed = spec.models.keys().filter(|engine| !engines.is_empty() && !engines.contains(engine));
        for engine in unnamed {
            refuse(
                "models",
                format!("`{engine}` is not one of the job's engines: add it to `engines`, or remove it here"),
            );
        }
        findings
    }
}

/// The keys that a manifest with a profile gives itself.
pub(super) fn profile_use(entries: &[Entry]) -> ProfileUse {
    let mut given = Vec::new();
    for Entry { key, node } in entries {
        match &node.value {
            Value::Map(members) if key == "budget" => {
                given.extend(members.iter().map(|member| (format!("{key}.{}", member.key), member.node.line)));
            }
            _ => given.push((key.clone(), node.line)),
        }
    }
    ProfileUse { line: find(entries, "profile").map_or(1, |node| node.line), given }
}

fn find<'e>(entries: &'e [Entry], key: &str) -> Option<&'e Node> {
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}
