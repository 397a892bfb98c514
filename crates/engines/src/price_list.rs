//! List prices of well-known models, for engines that report tokens only.
//!
//! Taken from the vendors' public price lists and from tables that follow them, as of 2026-11-16, in US dollars for a
//! million tokens: the standard tier, prompts of ordinary length, without what a vendor adds for writing to a cache. A
//! model whose price could not be checked is not here: what it costs is unknown. Prices in the configuration come first.

use super::Price;

/// One model, and the price of a million tokens.
pub(super) struct ListPrice {
    pub(super) model: &'static str,
    pub(super) price: Price,
}

const fn listed(model: &'static str, input: f64, cached: Option<f64>, output: f64) -> ListPrice {
    ListPrice { model, price: Price { input, output, cached } }
}

/// Models of codex.
pub(super) const CODEX: [ListPrice; 14] = [
    listed("gpt-5", 1.25, Some(0.125), 10.0),
    listed("gpt-5-codex", 1.25, Some(0.125), 10.0),
    listed("gpt-5-mini", 0.25, Some(0.025), 2.0),
    listed("gpt-5.1", 1.25, Some(0.125), 10.0),
    listed("gpt-5.2", 1.75, Some(0.175), 14.0),
    listed("gpt-5.2-codex", 1.75, Some(0.175), 14.0),
    listed("gpt-5.3-codex", 1.75, Some(0.175), 14.0),
    listed("gpt-5.4", 2.5, Some(0.25), 15.0),
    listed("gpt-5.4-mini", 0.75, Some(0.075), 4.5),
    listed("gpt-5.4-nano", 0.2, Some(0.02), 1.25),
    listed("gpt-5.5", 5.0, Some(0.5), 30.0),
    listed("gpt-5.6-luna", 0.2, Some(0.02), 1.2),
    listed("gpt-5.6-sol", 5.0, Some(0.5), 30.0),
    listed("gpt-5.6-terra", 2.0, Some(0.2), 12.0),
];

/// Models of claude, which reports its cost at its end: these are for a run that was ended before.
pub(super) const CLAUDE: [ListPrice; 12] = [
    listed("claude-fable-5-1", 10.0, Some(0.25), 50.0),
    // Its cache price could not be checked: the full price is charged.
    listed("claude-opus-5-5", 4.0, None, 20.0),
    listed("claude-opus-5", 5.0, Some(0.5), 25.0),
    listed("claude-opus-4-8", 5.0, Some(0.5), 25.0),
    listed("claude-opus-4-7", 5.0, Some(0.5), 25.0),
    listed("claude-opus-4-6", 5.0, Some(0.5), 25.0),
    listed("claude-opus-4-5", 5.0, Some(0.5), 25.0),
    listed("claude-sonnet-5-5", 2.0, Some(0.2), 10.0),
    listed("claude-sonnet-5", 2.0, Some(0.2), 10.0),
    listed("claude-sonnet-4-6", 3.0, Some(0.3), 15.0),
    listed("claude-sonnet-4-5", 3.0, Some(0.3), 15.0),
    listed("claude-haiku-4-5", 1.0, Some(0.1), 5.0),
];
