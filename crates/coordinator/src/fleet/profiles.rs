//! Profiles: personas with defaults, in versions that never change [J2].

use std::sync::Arc;

use domain::{
    Collection, Expected, ProductId, Profile, ProfileName, ProfileOrigin, ProfileOwner, ProfileRef, ProfileText,
    suggest,
};
use protocol::{CreateProfileRequest, CreateProfileResponse, ProfileDetail, ProfileList, ProfileVersion, ProfileView};
use tracing::info;

use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::profiles::no_version;
use crate::submit::invalid;

/// Versions of one owner's profiles together. All are kept for ever, in memory too.
const VERSIONS_MAX: usize = 1_000;

/// Attempts against other writers that create versions of the same profile.
const ATTEMPTS_MAX: u32 = 8;

/// Which stored version makes a new one with the same text unnecessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SameText {
    /// The newest: an older text that is created again becomes the newest one again.
    AsNewest,
    /// Any: a file must not undo what was created since.
    AsAny,
}

impl Coordinator {
    /// The profiles that the caller's jobs can use.
    pub fn profiles(&self, who: &Principal) -> Result<ProfileList, Error> {
        who.require_fleet_view()?;
        let mut newest = self.profiles.read().newest(|owner| sees(who, owner));
        // The fleet's name sorts behind every product's.
        newest.sort_by(|a, b| (&a.name, is_fleet(a), &a.product_id).cmp(&(&b.name, is_fleet(b), &b.product_id)));
        Ok(ProfileList { items: newest.iter().map(|profile| ProfileView::of(profile)).collect() })
    }

    /// One profile: of the given owner, else the one that a job of `product` would use, else any that the caller sees.
    pub fn profile(
        &self,
        who: &Principal,
        wanted: &ProfileRef,
        owner: Option<&ProfileOwner>,
        product: Option<&ProductId>,
    ) -> Result<ProfileDetail, Error> {
        who.require_fleet_view()?;
        let book = self.profiles.read();
        let product = product.cloned().or_else(|| who.products().first().cloned());
        let seen = book.newest(|known| sees(who, known) && owner.is_none_or(|owner| owner == known));
        let of_name = || seen.iter().filter(|profile| profile.name == wanted.name);
        let rank = |profile: &&Arc<Profile>| match (&profile.product_id, &product) {
            (ProfileOwner::Product(own), Some(product)) if own == product => 0,
            (ProfileOwner::Fleet, _) => 1,
            (ProfileOwner::Product(_), _) => 2,
        };
        let Some(newest) = of_name().min_by_key(rank) else {
            let names = seen.iter().map(|profile| profile.name.as_str());
            let meant = suggest(wanted.name.as_str(), names).map(str::to_owned);
            return Err(Error::NoSuchProfile { name: wanted.name.clone(), meant });
        };
        let versions = book.versions(&newest.product_id, &newest.name);
        let profile = match wanted.version {
            None => newest,
            Some(version) => versions
                .iter()
                .find(|profile| profile.version == version)
                .ok_or_else(|| Error::NoSuchProfileVersion(no_version(versions, wanted)))?,
        };
        Ok(detail(profile, versions))
    }

    /// Creates the next version of a profile, unless the newest one has the same text.
    pub async fn create_profile(
        &self,
        who: &Principal,
        request: CreateProfileRequest,
        product: Option<ProductId>,
    ) -> Result<CreateProfileResponse, Error> {
        let own = || product.or_else(|| who.products().first().cloned());
        let owner = request.product_id.or_else(|| own().map(ProfileOwner::Product)).unwrap_or(ProfileOwner::Fleet);
        match &owner {
            ProfileOwner::Fleet => who.require_admin()?,
            ProfileOwner::Product(product) => {
                who.require_operator(product)?;
                self.require_product(who, product)?;
            }
        }
        self.add_profile((owner, request.name), &request.body_md, &who.name, SameText::AsNewest).await
    }

    /// Creates a fleet-wide profile from a file of the coordinator's operator, unless one of its versions has the same
    /// text. `by` names the file.
    pub async fn import_profile(
        &self,
        name: ProfileName,
        text: &str,
        by: &str,
    ) -> Result<CreateProfileResponse, Error> {
        self.add_profile((ProfileOwner::Fleet, name), text, by, SameText::AsAny).await
    }

    async fn add_profile(
        &self,
        (owner, name): (ProfileOwner, ProfileName),
        body_md: &str,
        by: &str,
        same: SameText,
    ) -> Result<CreateProfileResponse, Error> {
        let text = ProfileText::parse(body_md).map_err(Error::Manifest)?;
        for _ in 0..ATTEMPTS_MAX {
            let (versions, count) = {
                let book = self.profiles.read();
                (book.versions(&owner, &name).to_vec(), book.count(&owner))
            };
            let (newest, is_same) = (versions.last(), |profile: &Profile| *profile.body_md == *body_md);
            let is_there = match same {
                SameText::AsNewest => newest.is_some_and(|newest| is_same(newest)),
                SameText::AsAny => versions.iter().any(|profile| is_same(profile)),
            };
            if let (true, Some(newest)) = (is_there, newest) {
                return Ok(CreateProfileResponse { profile: detail(newest, &versions), created: false });
            }
            if count >= VERSIONS_MAX {
                let why = format!("{owner} has {count} versions of profiles, {VERSIONS_MAX} at most");
                return Err(invalid("profiles", why));
            }
            let version = newest.map_or(0, |newest| newest.version).max(self.unreadable_version(&owner, &name)) + 1;
            let at = self.now();
            let origin = ProfileOrigin { owner: owner.clone(), name: name.clone(), version, by: by.to_owned(), at };
            let profile = Arc::new(Profile::new(origin, text.clone(), body_md.into()));
            match self.put_document(Collection::Profiles, &key(&profile), Expected::Absent, Some(&*profile)).await? {
                PutOutcome::Written(_) => {
                    self.profiles.write().add(Arc::clone(&profile));
                    info!(profile = %profile.reference(), product = %owner, "Created profile `{}` by `{by}`", profile.reference());
                    let versions = self.profiles.read().versions(&owner, &name).to_vec();
                    return Ok(CreateProfileResponse { profile: detail(&profile, &versions), created: true });
                }
                // Another writer created this version.
                PutOutcome::Lost(Some(found)) => self.profiles.write().add(Arc::new(found.value)),
                PutOutcome::Lost(None) => {}
            }
        }
        Err(is_conflict())
    }

    /// The newest version that cannot be read, or 0: it is not replaced either.
    fn unreadable_version(&self, owner: &ProfileOwner, name: &ProfileName) -> u32 {
        let prefix = format!("{owner}:{name}@");
        let unreadable = self.quarantine.of(Collection::Profiles);
        let versions = unreadable.iter().filter_map(|(key, _)| key.strip_prefix(&prefix)?.parse().ok());
        versions.max().unwrap_or(0)
    }

    fn require_product(&self, who: &Principal, product: &ProductId) -> Result<(), Error> {
        let state = self.state.lock();
        if state.has_product(product) {
            return Ok(());
        }
        let known = state.product_ids().filter(|known| who.sees(known)).cloned().collect();
        Err(Error::UnknownProduct { given: product.clone(), known })
    }

    /// Loads all versions at the start.
    pub(crate) async fn load_profiles(&self) -> Result<(), Error> {
        for (_, profile) in self.documents::<Profile>(Collection::Profiles).await? {
            self.profiles.write().add(Arc::new(profile.value));
        }
        Ok(())
    }
}

/// One document per version, in their order.
fn key(profile: &Profile) -> String {
    format!("{}:{}@{:06}", profile.product_id, profile.name, profile.version)
}

fn sees(who: &Principal, owner: &ProfileOwner) -> bool {
    owner.product().is_none_or(|product| who.sees(product))
}

fn is_fleet(profile: &Profile) -> bool {
    profile.product_id == ProfileOwner::Fleet
}

fn detail(profile: &Profile, versions: &[Arc<Profile>]) -> ProfileDetail {
    let version = |profile: &Arc<Profile>| ProfileVersion {
        version: profile.version,
        created_by: profile.created_by.clone(),
        created_at: profile.created_at,
    };
    ProfileDetail {
        profile: ProfileView::of(profile),
        persona: profile.persona().to_owned(),
        body_md: profile.body_md.as_ref().to_owned(),
        versions: versions.iter().rev().map(version).collect(),
    }
}
