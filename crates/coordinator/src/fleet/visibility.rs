//! Which parts of the fleet a token of some products may see [T3][I12].

use std::collections::BTreeSet;

use domain::{Capability, FactoryId, ProductId, RepoName, Token, TokenScope};

use crate::coordinator::Coordinator;
use crate::fleet::principal::Principal;
use crate::state::FleetState;
use crate::work::engine_availability::users_of;

impl Coordinator {
    /// Whether a caller may see a factory: its own, or one that works for a product of the caller.
    pub(crate) fn shows_factory(&self, who: &Principal, state: &FleetState, id: &FactoryId) -> bool {
        let visible = who.products();
        if visible.is_empty() || who.factory().is_ok_and(|own| own == id) {
            return true;
        }
        self.served_products(state, id).is_some_and(|served| served.is_empty() || !served.is_disjoint(&visible))
    }

    /// The products that a factory works for; all when empty. `None` if that is unknown: then only callers of the whole
    /// fleet may see it.
    pub(crate) fn served_products(&self, state: &FleetState, id: &FactoryId) -> Option<BTreeSet<ProductId>> {
        match state.liveness_of(id) {
            Some(pulse) if pulse.stopped_at.is_none() => Some(pulse.products.clone()),
            // It has signed off: its tokens have the same scope, and its last report had when they are revoked.
            Some(pulse) => Some(self.products_of_tokens(id).unwrap_or_else(|| pulse.products.clone())),
            None => self.products_of_tokens(id),
        }
    }

    /// The factories with an engine that uses a credential, limited to those that the caller may see.
    pub(crate) fn visible_users(&self, who: &Principal, state: &FleetState, credential: &str) -> Vec<FactoryId> {
        users_of(state, credential).into_iter().filter(|id| self.shows_factory(who, state, id)).collect()
    }

    /// Whether a caller may see a credential. A factory sees its own only (see `engines_for`), an operator those that a
    /// factory of the operator's products uses.
    pub(crate) fn shows_credential(&self, who: &Principal, state: &FleetState, credential: &str) -> bool {
        match who.factory() {
            Ok(caller) => self.visible_users(who, state, credential).contains(caller),
            Err(_) => who.products().is_empty() || !self.visible_users(who, state, credential).is_empty(),
        }
    }

    fn products_of_tokens(&self, id: &FactoryId) -> Option<BTreeSet<ProductId>> {
        let of_factory = |token: &Token| matches!(&token.grant, TokenScope::Factory { factory, .. } if factory == id);
        let grants = self.tokens.matching(of_factory).into_iter().map(|(_, _, token)| token.grant);
        let products = grants.filter_map(|grant| match grant {
            TokenScope::Factory { products, .. } => Some(products),
            TokenScope::Admin | TokenScope::Operator { .. } | TokenScope::Viewer { .. } | TokenScope::Join { .. } => {
                None
            }
        });
        products.reduce(|all, next| if all.is_empty() || next.is_empty() { BTreeSet::new() } else { &all | &next })
    }
}

impl FleetState {
    /// Whether a caller may see a repository: it belongs to no product, or to one of the caller's.
    pub(crate) fn shows_repo(&self, who: &Principal, repo: &RepoName) -> bool {
        self.owner_of(repo).is_none_or(|owner| who.sees(&owner.id))
    }

    /// [`Self::shows_repo`] for a capability that names a repository.
    pub(crate) fn shows_capability(&self, who: &Principal, capability: &Capability) -> bool {
        let repo = capability.as_str().strip_prefix("repo:").and_then(|repo| repo.parse().ok());
        repo.is_none_or(|repo| self.shows_repo(who, &repo))
    }
}
