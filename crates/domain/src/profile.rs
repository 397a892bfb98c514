//! Profiles: a persona for the agent with defaults for the job, in versions that never change [J2].

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::manifest::Manifest;
use crate::names::{Capability, EngineName, NameError, ProductId, ProfileName, escape_for_terminal};
use crate::spec::Budget;
use crate::time::Timestamp;

/// Version of the stored document.
const DOCUMENT_VERSION: u16 = 1;

/// Whose jobs can use a profile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ProfileOwner {
    /// The jobs of every product.
    Fleet,
    /// The jobs of one product.
    Product(ProductId),
}

impl ProfileOwner {
    /// The reserved product of everything that belongs to the whole fleet. No product can have this name.
    pub const FLEET: &'static str = "_fleet";

    /// The owner in JSON.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Fleet => Self::FLEET,
            Self::Product(product) => product.as_str(),
        }
    }

    /// The product; `None` for the whole fleet.
    pub fn product(&self) -> Option<&ProductId> {
        match self {
            Self::Fleet => None,
            Self::Product(product) => Some(product),
        }
    }
}

impl fmt::Display for ProfileOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<ProfileOwner> for String {
    fn from(owner: ProfileOwner) -> String {
        owner.as_str().to_owned()
    }
}

impl FromStr for ProfileOwner {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == Self::FLEET { Ok(Self::Fleet) } else { text.parse().map(Self::Product) }
    }
}

impl TryFrom<String> for ProfileOwner {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl utoipa::PartialSchema for ProfileOwner {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let text = utoipa::openapi::ObjectBuilder::new().schema_type(utoipa::openapi::schema::Type::String);
        let text = text.description(Some("A product, or `_fleet` for the jobs of every product."));
        text.min_length(Some(1)).max_length(Some(64)).examples(["_fleet"]).into()
    }
}

impl ToSchema for ProfileOwner {}

/// The profile that a manifest names: `ux-designer` is its newest version, `ux-designer@3` exactly that one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ProfileRef {
    /// The profile.
    pub name: ProfileName,
    /// The version; the newest when absent.
    pub version: Option<u32>,
}

impl fmt::Display for ProfileRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

impl From<ProfileRef> for String {
    fn from(reference: ProfileRef) -> String {
        reference.to_string()
    }
}

impl FromStr for ProfileRef {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let Some((name, version)) = text.split_once('@') else {
            return Ok(Self { name: text.parse()?, version: None });
        };
        let is_number = version.bytes().all(|byte| byte.is_ascii_digit()) && !version.starts_with('0');
        match version.parse() {
            Ok(version) if is_number => Ok(Self { name: name.parse()?, version: Some(version) }),
            _ => Err(NameError {
                what: "profile",
                shown: escape_for_terminal(text),
                why: "a version is a whole number from 1, such as `ux-designer@3`",
            }),
        }
    }
}

impl TryFrom<String> for ProfileRef {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl utoipa::PartialSchema for ProfileRef {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let text = utoipa::openapi::ObjectBuilder::new().schema_type(utoipa::openapi::schema::Type::String);
        let text = text.description(Some("The name of a profile, and `@` with a version for exactly that one."));
        text.examples(["ux-designer@3"]).into()
    }
}

impl ToSchema for ProfileRef {}

/// What a profile sets in a job whose manifest leaves it out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProfileDefaults {
    /// Required capabilities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// Engines, in order of preference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineName>,
    /// The model by engine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<EngineName, String>,
    /// Cost limits, each on its own.
    pub budget: Budget,
    /// Verify commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<String>,
}

impl ProfileDefaults {
    /// The keys of a manifest that it has a value for.
    pub fn keys(&self) -> Vec<&'static str> {
        let Self { capabilities, engines, models, budget, verify } = self;
        let keys = [
            ("capabilities", !capabilities.is_empty()),
            ("engines", !engines.is_empty()),
            ("models", !models.is_empty()),
            ("budget.usd", budget.usd.is_some()),
            ("budget.wall", budget.wall_ms.is_some()),
            ("budget.tokens", budget.tokens.is_some()),
            ("verify", !verify.is_empty()),
        ];
        keys.into_iter().filter_map(|(key, is_set)| is_set.then_some(key)).collect()
    }
}

/// One version of a profile. A stored version never changes and is never removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    v: u16,
    /// Whose jobs can use it.
    pub product_id: ProfileOwner,
    /// Its name.
    pub name: ProfileName,
    /// Its version, counted from 1.
    pub version: u32,
    /// What it is for, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it sets in a job.
    #[serde(default)]
    pub defaults: ProfileDefaults,
    /// The text that it was created from, byte for byte.
    pub body_md: Arc<str>,
    /// Who created this version.
    pub created_by: String,
    /// When this version was created.
    pub created_at: Timestamp,
    /// One text for all of its jobs.
    #[serde(skip)]
    shared_persona: OnceLock<Arc<str>>,
}

/// Who creates a version of a profile, where and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileOrigin {
    /// Whose jobs can use it.
    pub owner: ProfileOwner,
    /// Its name.
    pub name: ProfileName,
    /// The version.
    pub version: u32,
    /// Who creates it.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

impl Profile {
    /// A version from a text that was parsed before.
    pub fn new(origin: ProfileOrigin, text: ProfileText, body_md: Arc<str>) -> Self {
        let ProfileOrigin { owner, name, version, by, at } = origin;
        let ProfileText { description, defaults } = text;
        Self {
            v: DOCUMENT_VERSION,
            product_id: owner,
            name,
            version,
            description,
            defaults,
            body_md,
            created_by: by,
            created_at: at,
            shared_persona: OnceLock::new(),
        }
    }

    /// The persona, as one text that the jobs share in memory.
    pub(crate) fn shared_persona(&self) -> Arc<str> {
        Arc::clone(self.shared_persona.get_or_init(|| self.persona().into()))
    }

    /// The text in front of the prompt; empty for a profile that has defaults only.
    pub fn persona(&self) -> &str {
        Manifest::prompt(&self.body_md).trim()
    }

    /// Name and version: `ux-designer@3`.
    pub fn reference(&self) -> ProfileRef {
        ProfileRef { name: self.name.clone(), version: Some(self.version) }
    }
}

/// The parsed front matter of a profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProfileText {
    /// What it is for, in one line.
    pub description: Option<String>,
    /// What it sets in a job.
    pub defaults: ProfileDefaults,
}

/// The profile that a job was submitted with, as it was then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileSnapshot {
    /// Whose profile it is.
    pub product_id: ProfileOwner,
    /// Name and version.
    pub profile: ProfileRef,
    /// The keys of the job whose values came from the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<String>,
    /// The text in front of the prompt.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub persona: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    // [J2]
    #[test]
    fn a_profile_is_named_with_or_without_its_version() {
        let parsed =
            |text: &str| text.parse::<ProfileRef>().map(|it| (it.name.to_string(), it.version, it.to_string()));

        assert_eq!(parsed("ux"), Ok(("ux".to_owned(), None, "ux".to_owned())));
        assert_eq!(parsed("ux@3"), Ok(("ux".to_owned(), Some(3), "ux@3".to_owned())));
        for text in
            ["", "@3", "ux@", "ux@0", "ux@03", "ux@-1", "ux@+1", "ux@x", "ux@4294967296", "a/b", "../x", "ux@1@2"]
        {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    // [J2]
    #[test]
    fn the_fleet_is_no_product() {
        assert!(ProfileOwner::FLEET.parse::<ProductId>().is_err());
        assert_eq!("_fleet".parse(), Ok(ProfileOwner::Fleet));
        assert_eq!("notes".parse::<ProfileOwner>().unwrap().to_string(), "notes");
        assert!("_other".parse::<ProfileOwner>().is_err());
    }
}
