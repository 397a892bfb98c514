//! Profiles in the API [J2].

use domain::{Profile, ProfileDefaults, ProfileName, ProfileOwner, ProfileRef, ProfileSnapshot, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Creates a version of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateProfileRequest {
    /// Its name.
    pub name: ProfileName,
    /// Whose jobs can use it. When absent: the product in `x-product-id`, else the first one of the token, else `_fleet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_id: Option<ProfileOwner>,
    /// Markdown: defaults as YAML front matter, and the persona.
    pub body_md: String,
}

/// The answer to a created profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateProfileResponse {
    /// The profile at its newest version.
    pub profile: ProfileDetail,
    /// Whether this call created the version; `false` if the newest one has the same text.
    pub created: bool,
}

/// One version of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileView {
    /// Its name.
    pub name: ProfileName,
    /// Whose jobs can use it.
    pub product_id: ProfileOwner,
    /// The version.
    pub version: u32,
    /// What it is for, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it sets in a job whose manifest leaves it out.
    pub defaults: ProfileDefaults,
    /// Who created this version.
    pub created_by: String,
    /// When this version was created.
    pub created_at: Timestamp,
}

impl ProfileView {
    /// The view of a profile.
    pub fn of(profile: &Profile) -> Self {
        Self {
            name: profile.name.clone(),
            product_id: profile.product_id.clone(),
            version: profile.version,
            description: profile.description.clone(),
            defaults: profile.defaults.clone(),
            created_by: profile.created_by.clone(),
            created_at: profile.created_at,
        }
    }

    /// Name and version: `ux-designer@3`.
    pub fn reference(&self) -> ProfileRef {
        ProfileRef { name: self.name.clone(), version: Some(self.version) }
    }
}

/// One version of a profile, with its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileDetail {
    /// The version.
    #[serde(flatten)]
    pub profile: ProfileView,
    /// The text in front of the prompt; empty for a profile that has defaults only.
    pub persona: String,
    /// The text that it was created from, byte for byte.
    pub body_md: String,
    /// All versions, newest first.
    pub versions: Vec<ProfileVersion>,
}

/// A version in a list of versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileVersion {
    /// The version.
    pub version: u32,
    /// Who created it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
}

/// The profiles that a token covers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileList {
    /// The newest version of each, in order of name; a product's own before the fleet's.
    pub items: Vec<ProfileView>,
}

/// The profile that a job was submitted with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobProfile {
    /// Name and version.
    #[serde(rename = "ref")]
    pub reference: ProfileRef,
    /// Whose profile it is.
    pub product_id: ProfileOwner,
    /// The keys of the job whose values came from the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<String>,
}

impl JobProfile {
    /// The view of a job's snapshot.
    pub fn of(snapshot: &ProfileSnapshot) -> Self {
        Self {
            reference: snapshot.profile.clone(),
            product_id: snapshot.product_id.clone(),
            applied: snapshot.applied.clone(),
        }
    }

    /// In one line: which profile, and what it set.
    pub fn text(&self) -> String {
        let whose = match self.product_id {
            ProfileOwner::Fleet => "fleet-wide".to_owned(),
            ProfileOwner::Product(ref product) => format!("of product {product}"),
        };
        match self.applied.is_empty() {
            true => format!("{} ({whose})", self.reference),
            false => format!("{} ({whose}), sets {}", self.reference, self.applied.join(", ")),
        }
    }
}
