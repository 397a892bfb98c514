//! How work reaches factories [D1]: by flag, reversible at run time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::{ProductId, escape_for_terminal};

/// How the work of a product reaches factories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The coordinator offers each job to a factory, through the broker.
    #[default]
    Push,
    /// Factories ask for work on a timer.
    Poll,
    /// Factories ask for work when the queue's version has moved.
    Gate,
    /// Factories ask for work; the broker's path runs beside it and is compared.
    Shadow,
    /// Factories pick from the broker by themselves.
    SelfSelect,
}

/// A word that names no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a mode: expected `push`, `poll`, `gate`, `shadow` or `self-select`")]
pub struct UnknownMode(String);

impl Mode {
    /// Every mode of the contract.
    pub const ALL: [Self; 5] = [Self::Push, Self::Poll, Self::Gate, Self::Shadow, Self::SelfSelect];

    /// Its name in requests, documents and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Poll => "poll",
            Self::Gate => "gate",
            Self::Shadow => "shadow",
            Self::SelfSelect => "self-select",
        }
    }

    /// Whether this program can work in it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Push | Self::Poll | Self::Gate => true,
            Self::Shadow | Self::SelfSelect => false,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| UnknownMode(escape_for_terminal(text)))
    }
}

/// The flags of the fleet: one mode for all products, and those that have one of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchModes {
    /// The mode of every product that has none of its own.
    pub mode: Mode,
    /// Products with a mode of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub products: BTreeMap<ProductId, Mode>,
}

impl DispatchModes {
    /// The mode that a product's work goes by.
    pub fn mode_of(&self, product: &ProductId) -> Mode {
        self.products.get(product).copied().unwrap_or(self.mode)
    }

    /// Every mode that some product's work may go by.
    pub fn modes(&self) -> BTreeSet<Mode> {
        self.products.values().copied().chain([self.mode]).collect()
    }

    /// The flags as somebody limited to `products` sees them; no limit when empty.
    #[must_use]
    pub fn limited_to(&self, products: &BTreeSet<ProductId>) -> Self {
        let is_seen = |product: &ProductId| products.is_empty() || products.contains(product);
        let own = self.products.iter().filter(|(product, _)| is_seen(product));
        Self { mode: self.mode, products: own.map(|(product, mode)| (product.clone(), *mode)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(name: &str) -> ProductId {
        name.parse().unwrap()
    }

    #[test]
    fn a_products_own_mode_beats_that_of_the_fleet() {
        let flags = DispatchModes { mode: Mode::Gate, products: [(product("notes"), Mode::Push)].into() };

        assert_eq!(flags.mode_of(&product("notes")), Mode::Push);
        assert_eq!(flags.mode_of(&product("tracker")), Mode::Gate);
    }

    #[test]
    fn nobody_sees_the_modes_of_products_that_are_not_theirs() {
        let both = [(product("notes"), Mode::Push), (product("tracker"), Mode::Poll)];
        let flags = DispatchModes { mode: Mode::Gate, products: both.into() };

        let seen = flags.limited_to(&[product("notes")].into());

        assert_eq!(seen, DispatchModes { mode: Mode::Gate, products: [(product("notes"), Mode::Push)].into() });
        assert_eq!(flags.limited_to(&BTreeSet::new()), flags);
    }

    #[test]
    fn every_mode_is_read_back_by_its_name() {
        for mode in Mode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert!("pull".parse::<Mode>().is_err());
    }
}
