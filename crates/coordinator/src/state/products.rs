//! Products in memory.

use domain::{Product, ProductId, RepoName, Versioned};

use super::FleetState;

impl FleetState {
    /// A product.
    pub(crate) fn product(&self, id: &ProductId) -> Option<&Product> {
        self.products.get(id)
    }

    /// A product with the revision that it is stored at.
    pub(crate) fn versioned_product(&self, id: &ProductId) -> Option<Versioned<Product>> {
        let (value, revision) = (self.products.get(id)?.clone(), *self.product_revisions.get(id)?);
        Some(Versioned { value, revision })
    }

    /// Whether a product is registered.
    pub(crate) fn has_product(&self, id: &ProductId) -> bool {
        self.products.contains_key(id)
    }

    /// The registered products, by id.
    pub(crate) fn products(&self) -> impl Iterator<Item = &Product> {
        self.products.values()
    }

    /// The ids of the registered products, in order.
    pub(crate) fn product_ids(&self) -> impl Iterator<Item = &ProductId> {
        self.products.keys()
    }

    /// The product that owns a repository.
    pub(crate) fn owner_of(&self, repo: &RepoName) -> Option<&Product> {
        self.products().find(|product| product.repos.contains(repo))
    }

    /// Whether jobs of a product wait: it is paused.
    pub(crate) fn is_paused(&self, id: &ProductId) -> bool {
        self.product(id).is_some_and(|product| product.paused)
    }

    /// Replaces a product by what is stored.
    pub(crate) fn put_product(&mut self, product: Versioned<Product>) {
        let id = &product.value.id;
        // Pause and seats decide which jobs can be claimed.
        self.touch(id);
        self.product_revisions.insert(id.clone(), product.revision);
        self.products.insert(id.clone(), product.value);
    }
}
