//! Profiles in memory: every version, because a job may name any.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ProductId, Profile, ProfileName, ProfileOwner, ProfileRef, suggest};

/// All versions of all profiles, oldest first.
#[derive(Default)]
pub(crate) struct ProfileBook {
    owners: BTreeMap<ProfileOwner, BTreeMap<ProfileName, Vec<Arc<Profile>>>>,
}

impl ProfileBook {
    /// Adds a stored version. Adding it twice changes nothing.
    pub(crate) fn add(&mut self, profile: Arc<Profile>) {
        let names = self.owners.entry(profile.product_id.clone()).or_default();
        let versions = names.entry(profile.name.clone()).or_default();
        if let Err(at) = versions.binary_search_by_key(&profile.version, |known| known.version) {
            versions.insert(at, profile);
        }
    }

    /// All versions of a profile, oldest first.
    pub(crate) fn versions(&self, owner: &ProfileOwner, name: &ProfileName) -> &[Arc<Profile>] {
        self.owners.get(owner).and_then(|names| names.get(name)).map_or(&[], Vec::as_slice)
    }

    /// How many versions an owner's profiles have together.
    pub(crate) fn count(&self, owner: &ProfileOwner) -> usize {
        self.owners.get(owner).into_iter().flat_map(BTreeMap::values).map(Vec::len).sum()
    }

    /// The newest version of each profile of the owners that `sees` returns true for.
    pub(crate) fn newest(&self, sees: impl Fn(&ProfileOwner) -> bool) -> Vec<Arc<Profile>> {
        let owners = self.owners.iter().filter(|(owner, _)| sees(owner));
        owners.flat_map(|(_, names)| names.values()).filter_map(|versions| versions.last().cloned()).collect()
    }

    /// The profile that a job of a product names: the product's own, else the fleet's. An error names the known ones.
    pub(crate) fn resolve(&self, product: &ProductId, wanted: &ProfileRef) -> Result<Arc<Profile>, String> {
        let own = ProfileOwner::Product(product.clone());
        let owners = [&own, &ProfileOwner::Fleet];
        let found = owners.into_iter().map(|owner| self.versions(owner, &wanted.name)).find(|found| !found.is_empty());
        let Some(versions) = found else { return Err(self.unknown(owners, &wanted.name)) };
        let version = match wanted.version {
            None => versions.last(),
            Some(version) => versions.iter().find(|profile| profile.version == version),
        };
        version.cloned().ok_or_else(|| no_version(versions, wanted))
    }

    fn unknown(&self, owners: [&ProfileOwner; 2], name: &ProfileName) -> String {
        let names = || owners.into_iter().filter_map(|owner| self.owners.get(owner)).flat_map(BTreeMap::keys);
        let mut known: Vec<&str> = names().map(ProfileName::as_str).collect();
        known.sort_unstable();
        known.dedup();
        if let Some(meant) = suggest(name.as_str(), known.iter().copied()) {
            return format!("unknown profile `{name}`; did you mean `{meant}`?");
        }
        if known.is_empty() {
            return format!("unknown profile `{name}`: there is none yet; `giga profile create FILE` creates one");
        }
        let more = if known.len() > LISTED_MAX { ", …" } else { "" };
        let known: Vec<_> = known.iter().take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
        format!("unknown profile `{name}`: the known ones are {}{more}", known.join(", "))
    }
}

/// As many names as fit a message.
const LISTED_MAX: usize = 10;

pub(crate) fn no_version(versions: &[Arc<Profile>], wanted: &ProfileRef) -> String {
    let newest = versions.last().map_or(0, |profile| profile.version);
    format!("unknown version `{wanted}`: the newest one is `{}@{newest}`", wanted.name)
}
