//! The text of a profile, and its defaults in a manifest that names it [J2].

use crate::profile::{Profile, ProfileDefaults, ProfileSnapshot, ProfileText};
use crate::spec::Spec;

use super::decode::{Decoder, ModelKeys};
use super::fields::PROFILE_FIELDS;
use super::finding::{Finding, Severity};
use super::front_matter::FrontMatter;
use super::tree::Tree;
use super::{FRONT_MATTER_BYTES_MAX, Manifest, check_size, in_reading_order};

/// A page of instructions is a few kilobytes, and every prompt of the profile's jobs contains them.
const PERSONA_BYTES_MAX: usize = 16 * 1024;

/// The profile that a manifest names, and which keys it leaves to the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileUse {
    /// The line of `profile`.
    pub line: u32,
    /// Each key that the manifest gives itself, with its line; those of a group as `budget.usd`.
    pub(super) given: Vec<(String, u32)>,
}

impl ProfileUse {
    fn line_of(&self, key: &str) -> Option<u32> {
        self.given.iter().find(|(given, _)| given == key).map(|(_, line)| *line)
    }

    fn leaves(&self, keys: &[&str]) -> bool {
        keys.iter().all(|key| self.line_of(key).is_none())
    }

    /// An error at `profile`.
    pub fn error(&self, message: impl Into<String>) -> Finding {
        Finding::error(self.line, Some("profile".to_owned()), message)
    }
}

impl ProfileText {
    /// Parses the text of a profile: front matter with defaults, and the persona. An error lists every finding, by line.
    pub fn parse(text: &str) -> Result<Self, Vec<Finding>> {
        let front_matter = FrontMatter::split(text).map_err(|unclosed| vec![unclosed])?;
        check_size("the front matter", front_matter.yaml.len(), FRONT_MATTER_BYTES_MAX)?;
        check_size("the persona", front_matter.prompt.len(), PERSONA_BYTES_MAX)?;
        let tree = Tree::read(front_matter.yaml, front_matter.lines_before);
        let mut findings = tree.findings;
        let form = Decoder::fill_profile(&tree.entries.unwrap_or_default());
        findings.extend(form.findings);
        let profile = Self::of(form.spec);
        let is_empty = front_matter.prompt.trim().is_empty() && profile.defaults.keys().is_empty();
        if is_empty && findings.is_empty() {
            let fields: Vec<_> = PROFILE_FIELDS.iter().map(|field| format!("`{}`", field.name)).collect();
            let message = format!(
                "the profile has no text and sets nothing: write a persona, or one of {}",
                fields[1..].join(", ")
            );
            findings.push(Finding::error(1, None, message));
        }
        let is_refused = findings.iter().any(|finding| finding.severity == Severity::Error);
        if is_refused { Err(in_reading_order(findings)) } else { Ok(profile) }
    }

    /// A spec that has the keys of a profile only.
    fn of(spec: Spec) -> Self {
        let Spec { title, capabilities, engines, model, mut models, budget, verify, .. } = spec;
        if let (Some(model), [engine]) = (model, engines.as_slice()) {
            models.insert(engine.clone(), model);
        }
        let description = (!title.is_empty()).then_some(title);
        Self { description, defaults: ProfileDefaults { capabilities, engines, models, budget, verify } }
    }
}

impl Manifest {
    /// Fills in what the manifest leaves to its profile. A key that the manifest gives wins, even if its value is empty.
    pub fn with_profile(&mut self, profile: &Profile) -> Result<ProfileSnapshot, Vec<Finding>> {
        let given = self.profile.clone().unwrap_or_default();
        let applied = apply(&profile.defaults, &given, &mut self.spec);
        self.spec.profile = Some(profile.reference());
        let keys =
            ModelKeys { line: &|key| given.line_of(key).unwrap_or(given.line), has_models: !given.leaves(&["models"]) };
        let findings = keys.check(&self.spec);
        if !findings.is_empty() {
            return Err(findings);
        }
        Ok(ProfileSnapshot {
            product_id: profile.product_id.clone(),
            profile: profile.reference(),
            applied: applied.into_iter().map(str::to_owned).collect(),
            persona: profile.shared_persona(),
        })
    }
}

/// The keys that were applied.
fn apply(defaults: &ProfileDefaults, given: &ProfileUse, spec: &mut Spec) -> Vec<&'static str> {
    let mut applied = Vec::new();
    let mut set = |key: &'static str, is_set: bool| {
        if is_set {
            applied.push(key);
        }
    };
    let ProfileDefaults { capabilities, engines, models, budget, verify } = defaults;
    if given.leaves(&["capabilities"]) {
        spec.capabilities.clone_from(capabilities);
        set("capabilities", !capabilities.is_empty());
    }
    if given.leaves(&["engine", "engines"]) {
        spec.engines.clone_from(engines);
        set("engines", !engines.is_empty());
    }
    if given.leaves(&["model", "models"]) {
        // The manifest may name other engines than the profile.
        let fits = |engine| spec.engines.is_empty() || spec.engines.contains(engine);
        spec.models = models.iter().filter(|(engine, _)| fits(engine)).map(|(e, m)| (e.clone(), m.clone())).collect();
        set("models", !spec.models.is_empty());
    }
    if given.leaves(&["budget.usd"]) {
        spec.budget.usd = budget.usd;
        set("budget.usd", budget.usd.is_some());
    }
    if given.leaves(&["budget.wall"]) {
        spec.budget.wall_ms = budget.wall_ms;
        set("budget.wall", budget.wall_ms.is_some());
    }
    if given.leaves(&["budget.tokens"]) {
        spec.budget.tokens = budget.tokens;
        set("budget.tokens", budget.tokens.is_some());
    }
    if given.leaves(&["verify"]) {
        spec.verify.clone_from(verify);
        set("verify", !verify.is_empty());
    }
    applied
}
