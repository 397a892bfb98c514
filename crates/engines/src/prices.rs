//! Prices of tokens, for engines that report tokens only.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::price_list::ListPrice;
use super::{EngineKind, Price};

/// Prices by model: the configured ones, then the vendors' list prices. The cost of a model in neither is unknown, not
/// zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices(Arc<BTreeMap<String, Price>>);

/// Tokens of one run, by price class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read, those from a cache included.
    pub input: u64,
    /// Read from a cache.
    pub cached: u64,
    /// Written.
    pub output: u64,
}

impl Tokens {
    /// The sum.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            output: self.output.saturating_add(other.output),
        }
    }

    /// The difference, at least zero.
    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_sub(other.input),
            cached: self.cached.saturating_sub(other.cached),
            output: self.output.saturating_sub(other.output),
        }
    }
}

impl Prices {
    /// The given prices, before those of the list.
    pub fn new(prices: BTreeMap<String, Price>) -> Self {
        Self(Arc::new(prices))
    }

    /// The price of these tokens in US dollars, if known. No tokens cost nothing, whatever the model.
    pub fn cost(&self, model: Option<&str>, tokens: Tokens) -> Option<f64> {
        if tokens == Tokens::default() {
            return Some(0.0);
        }
        let price = self.price(model?)?;
        let of = |tokens: u64, per_million: f64| tokens as f64 / 1_000_000.0 * per_million;
        let cached = tokens.cached.min(tokens.input);
        Some(
            of(tokens.input - cached, price.input)
                + of(cached, price.cached.unwrap_or(price.input))
                + of(tokens.output, price.output),
        )
    }

    /// The price of a model. A configured price applies to its own name, or as the longest matching prefix (`gpt-5` for
    /// `gpt-5-2026-01-31`); a list price applies to that model and its dated versions only.
    fn price(&self, model: &str) -> Option<Price> {
        let configured = self.0.iter().filter(|(name, _)| model.starts_with(name.as_str()));
        let configured = configured.max_by_key(|(name, _)| name.len()).map(|(_, price)| *price);
        configured
            .or_else(|| list_prices().find(|listed| is_version_of(model, listed.model)).map(|listed| listed.price))
    }
}

/// Every model whose price is known without being configured.
fn list_prices() -> impl Iterator<Item = &'static ListPrice> {
    EngineKind::all().flat_map(|kind| kind.descriptor().prices)
}

/// Whether a name is `base`, or `base` with a date or a context size appended.
fn is_version_of(model: &str, base: &str) -> bool {
    let Some(rest) = model.strip_prefix(base) else { return false };
    let rest = rest.strip_suffix("[1m]").unwrap_or(rest);
    let is_date = |text: &str| text.len() >= 8 && text.chars().all(|c| c.is_ascii_digit() || c == '-');
    rest.is_empty() || rest == "-latest" || rest.strip_prefix(['-', '@']).is_some_and(is_date)
}

#[cfg(test)]
mod tests {
    use super::*;

    // [J6]
    #[test]
    fn cached_tokens_have_a_price_of_their_own_and_an_unknown_model_has_none() {
        let price = |input, output, cached| Price { input, output, cached };
        let table = [("gpt-5", price(2.0, 8.0, Some(0.5))), ("gpt-5-mini", price(1.0, 4.0, None))];
        let prices = Prices::new(table.map(|(name, price)| (name.to_owned(), price)).into());
        let tokens = Tokens { input: 2_000_000, cached: 1_000_000, output: 500_000 };

        assert_eq!(prices.cost(Some("gpt-5-2026-01-31"), tokens), Some(2.0 + 0.5 + 4.0));
        assert_eq!(prices.cost(Some("gpt-5-mini"), tokens), Some(1.0 + 1.0 + 2.0));
        assert_eq!(prices.cost(Some("other"), tokens), None);
        assert_eq!(prices.cost(None, tokens), None);
        assert_eq!(prices.cost(None, Tokens::default()), Some(0.0));
    }

    // [J6] [F2]
    #[test]
    fn a_listed_model_has_its_price_and_lends_it_to_no_other() {
        let cost = |model| Prices::default().cost(Some(model), Tokens { input: 1_000_000, cached: 0, output: 0 });

        assert_eq!(cost("gpt-5.3-codex"), Some(1.75));
        assert_eq!(cost("gpt-5-2026-01-31"), Some(1.25));
        assert_eq!(cost("claude-opus-4-5-20251101"), Some(5.0));
        assert_eq!(cost("claude-opus-5-5[1m]"), Some(4.0));
        for unknown in ["gpt-5.7", "gpt-5-pro", "claude-opus-5-9", "claude-opus"] {
            assert_eq!(cost(unknown), None, "{unknown}");
        }
        let own = Prices::new([("gpt-5".to_owned(), Price { input: 9.0, output: 9.0, cached: None })].into());
        assert_eq!(own.cost(Some("gpt-5"), Tokens { input: 1_000_000, cached: 0, output: 0 }), Some(9.0));
    }

    // [J6]
    #[test]
    fn every_model_is_listed_once_at_a_price_that_makes_sense() {
        let names: std::collections::BTreeSet<&str> = list_prices().map(|listed| listed.model).collect();

        assert_eq!(names.len(), list_prices().count());
        for ListPrice { model, price } in list_prices() {
            assert!(price.cached.unwrap_or(price.input) <= price.input && price.input < price.output, "{model}");
        }
    }
}
