//! Dispatch modes [D1], switchable at run time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::{ProductId, escape_for_terminal};

/// How jobs of a product are dispatched to factories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The coordinator offers each job to a factory, through the broker.
    #[default]
    Push,
    /// Factories poll for work on a timer.
    Poll,
    /// Factories poll for work when the queue version changes.
    Gate,
    /// Factories poll for work; the broker path runs in parallel and is compared.
    Shadow,
    /// Jobs are announced to factories, which claim them by id.
    SelfSelect,
}

/// An unknown mode name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a mode: expected `push`, `poll`, `gate`, `shadow` or `self-select`")]
pub struct UnknownMode(String);

impl Mode {
    /// All modes.
    pub const ALL: [Self; 5] = [Self::Push, Self::Poll, Self::Gate, Self::Shadow, Self::SelfSelect];

    /// The name in requests, documents and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Poll => "poll",
            Self::Gate => "gate",
            Self::Shadow => "shadow",
            Self::SelfSelect => "self-select",
        }
    }

    /// The mode as a factory has to act: one that knows only the first three modes must not starve in another. A shadow
    /// polls, and self-selection falls back to offers.
    pub fn for_factories(self) -> Self {
        match self {
            Self::Push | Self::SelfSelect => Self::Push,
            Self::Poll | Self::Shadow => Self::Poll,
            Self::Gate => Self::Gate,
        }
    }

    /// Whether factories poll for work in this mode.
    pub fn polls(self) -> bool {
        match self {
            Self::Poll | Self::Gate | Self::Shadow => true,
            Self::Push | Self::SelfSelect => false,
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

/// The dispatch modes of the fleet: a default, and overrides by product.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchModes {
    /// The default mode.
    pub mode: Mode,
    /// Overrides by product.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub products: BTreeMap<ProductId, Mode>,
    /// Whether the ceilings of budgets are enforced; the coordinator's setting when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<bool>,
    /// Whether critical jobs may preempt others; the coordinator's setting when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<bool>,
}

impl DispatchModes {
    /// The mode of a product.
    pub fn mode_of(&self, product: &ProductId) -> Mode {
        self.products.get(product).copied().unwrap_or(self.mode)
    }

    /// All modes in use.
    pub fn modes(&self) -> BTreeSet<Mode> {
        self.products.values().copied().chain([self.mode]).collect()
    }

    /// The modes visible to a principal limited to `products`; no limit when empty.
    #[must_use]
    pub fn limited_to(&self, products: &BTreeSet<ProductId>) -> Self {
        let is_seen = |product: &ProductId| products.is_empty() || products.contains(product);
        let own = self.products.iter().filter(|(product, _)| is_seen(product));
        let products = own.map(|(product, mode)| (product.clone(), *mode)).collect();
        Self { mode: self.mode, products, preemption: self.preemption, budgets: self.budgets }
    }

    /// The modes as factories have to act, see [`Mode::for_factories`].
    #[must_use]
    pub fn for_factories(self) -> Self {
        let products = self.products.into_iter().map(|(product, mode)| (product, mode.for_factories())).collect();
        Self { mode: self.mode.for_factories(), products, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(name: &str) -> ProductId {
        name.parse().unwrap()
    }

    #[test]
    fn a_product_mode_overrides_the_default() {
        let products = [(product("notes"), Mode::Push)].into();
        let flags = DispatchModes { mode: Mode::Gate, products, ..DispatchModes::default() };

        assert_eq!(flags.mode_of(&product("notes")), Mode::Push);
        assert_eq!(flags.mode_of(&product("tracker")), Mode::Gate);
    }

    #[test]
    fn a_principal_sees_only_modes_of_its_products() {
        let both = [(product("notes"), Mode::Push), (product("tracker"), Mode::Poll)];
        let flags = DispatchModes { mode: Mode::Gate, products: both.into(), ..DispatchModes::default() };

        let seen = flags.limited_to(&[product("notes")].into());

        let products = [(product("notes"), Mode::Push)].into();
        assert_eq!(seen, DispatchModes { mode: Mode::Gate, products, ..DispatchModes::default() });
        assert_eq!(flags.limited_to(&BTreeSet::new()), flags);
    }

    // [D1]
    #[test]
    fn factories_receive_only_modes_that_every_version_knows() {
        let products = Mode::ALL.into_iter().map(|mode| (product(mode.as_str()), mode)).collect();
        let modes = DispatchModes { mode: Mode::Shadow, products, ..DispatchModes::default() };

        let received = modes.for_factories();

        assert_eq!(received.modes(), [Mode::Push, Mode::Poll, Mode::Gate].into());
        assert_eq!(received.mode, Mode::Poll);
        for mode in [Mode::Push, Mode::Poll, Mode::Gate] {
            assert_eq!(received.mode_of(&product(mode.as_str())), mode);
        }
        assert_eq!(received.mode_of(&product("self-select")), Mode::Push);
    }

    #[test]
    fn every_mode_round_trips_by_name() {
        for mode in Mode::ALL {
            assert_eq!(mode.as_str().parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert!("pull".parse::<Mode>().is_err());
    }
}
