//! What tokens cost, for engines that tell tokens only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Price;

/// Prices by model. A model that is not in it costs nobody knows how much, which is not nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices(Arc<BTreeMap<String, Price>>);

/// Tokens of one run, by what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read, those from a cache included.
    pub input: u64,
    /// Read from a cache.
    pub cached: u64,
    /// Written.
    pub output: u64,
}

impl Prices {
    /// The given prices.
    pub fn new(prices: BTreeMap<String, Price>) -> Self {
        Self(Arc::new(prices))
    }

    /// What these tokens cost in US dollars, if the model has a price: its own, or that of the longest name which its
    /// name begins with (`gpt-5` for `gpt-5-2026-01-31`).
    pub fn cost(&self, model: Option<&str>, tokens: Tokens) -> Option<f64> {
        let model = model?;
        let (_, price) =
            self.0.iter().filter(|(name, _)| model.starts_with(name.as_str())).max_by_key(|(name, _)| name.len())?;
        let of = |tokens: u64, per_million: f64| tokens as f64 / 1_000_000.0 * per_million;
        let cached = tokens.cached.min(tokens.input);
        Some(
            of(tokens.input - cached, price.input)
                + of(cached, price.cached.unwrap_or(price.input))
                + of(tokens.output, price.output),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
