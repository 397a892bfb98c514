//! Products: the tenants [T1].

use domain::{Collection, Expected, Product, ProductId, ScoreWeights, Versioned};
use protocol::{ProductList, ProductSettings};
use tracing::info;

use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::budgets::pauses::set_pause;
use crate::fleet::principal::Principal;
use crate::submit::invalid;

/// Weights are relative; larger ones would only overflow.
const WEIGHT_MAX: u32 = 1_000;

impl Coordinator {
    /// The products that the caller may see.
    pub fn products(&self, who: &Principal) -> Result<ProductList, Error> {
        who.require_fleet_view()?;
        let state = self.state.lock();
        let items = state.products().filter(|product| who.sees(&product.id)).cloned().collect();
        Ok(ProductList { items })
    }

    /// One product.
    pub fn product(&self, who: &Principal, id: &ProductId) -> Result<Product, Error> {
        who.require_fleet_view()?;
        let state = self.state.lock();
        match state.product(id).filter(|_| who.sees(id)) {
            Some(product) => Ok(product.clone()),
            None => {
                let known = state.product_ids().filter(|known| who.sees(known)).cloned().collect();
                Err(Error::UnknownProduct { given: id.clone(), known })
            }
        }
    }

    /// Registers a product, or changes the given settings.
    pub async fn put_product(
        &self,
        who: &Principal,
        id: &ProductId,
        settings: ProductSettings,
    ) -> Result<Product, Error> {
        who.require_admin()?;
        let known = self.state.lock().versioned_product(id);
        let mut product = known.as_ref().map_or_else(|| Product::new(id.clone()), |known| known.value.clone());
        if let Some(weight) = settings.weight
            && !(1..=WEIGHT_MAX).contains(&weight)
        {
            return Err(invalid("weight", format!("1 to {WEIGHT_MAX}, found {weight}")));
        }
        if let Some(weights) = &settings.score_weights {
            check_weights(weights)?;
        }
        self.check_ownership(id, &settings)?;
        product.repos = settings.repos.unwrap_or(product.repos);
        if let Some(paused) = settings.paused {
            set_pause(&mut product, paused.then_some(None), &who.name, self.now());
        }
        product.auto_ship = settings.auto_ship.unwrap_or(product.auto_ship);
        product.weight = settings.weight.unwrap_or(product.weight);
        product.repo_seats = settings.repo_seats.unwrap_or(product.repo_seats);
        product.score_weights = settings.score_weights.unwrap_or(product.score_weights);
        self.write_product(product.clone(), known.map_or(Expected::Absent, |known| Expected::At(known.revision)))
            .await?;
        info!(product = %id, by = %who.name, "`{}` set product `{id}`", who.name);
        if product.auto_ship {
            self.ship_ready().await;
        }
        if settings.paused.is_some() {
            self.after_pause(&product).await;
        }
        self.work.notify_one();
        Ok(product)
    }

    pub(crate) async fn write_product(&self, product: Product, expected: Expected) -> Result<(), Error> {
        match self.put_document(Collection::Products, product.id.as_str(), expected, Some(&product)).await? {
            PutOutcome::Written(revision) => {
                self.cache_product(Versioned { value: product, revision });
                Ok(())
            }
            PutOutcome::Lost(found) => {
                if let Some(found) = found {
                    self.cache_product(found);
                }
                Err(is_conflict())
            }
        }
    }

    pub(crate) fn cache_product(&self, product: Versioned<Product>) {
        self.state.lock().put_product(product);
        self.live.note();
    }

    fn check_ownership(&self, id: &ProductId, settings: &ProductSettings) -> Result<(), Error> {
        let state = self.state.lock();
        for repo in settings.repos.iter().flatten() {
            let mut others = state.products().filter(|product| product.id != *id);
            if let Some(owner) = others.find(|product| product.repos.contains(repo)) {
                return Err(Error::RepoOwned { repo: repo.clone(), owner: owner.id.clone() });
            }
        }
        Ok(())
    }
}

/// Each weight is a number from 0 to the maximum; without any, the order of factories would be that of their names.
fn check_weights(weights: &ScoreWeights) -> Result<(), Error> {
    for (name, weight) in ScoreWeights::TERMS.into_iter().zip(weights.terms()) {
        let is_valid = |weight: f64| (0.0..=ScoreWeights::MAX).contains(&weight);
        if let Some(weight) = weight.filter(|weight| !is_valid(*weight)) {
            let max = ScoreWeights::MAX;
            return Err(invalid("scoreWeights", format!("the weight of `{name}` is 0 to {max}, found {weight}")));
        }
    }
    Ok(())
}
