//! The filter [S2]: conditions for an eligible factory, the most severe first.

use crate::constraints::{Constraints, EnginePick};
use crate::fleet::{Availability, CapabilityClass, Presence};

/// One condition of the filter. The factory that fails the latest condition is the closest match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FilterCondition {
    /// The product is not paused.
    Product,
    /// The job is not pinned to another factory.
    Pin,
    /// The factory has every required capability.
    Capabilities,
    /// The factory has an acceptable engine.
    Engine,
    /// The factory has the repository, or can clone it.
    Repo,
    /// The factory's token covers the product.
    Scope,
    /// The factory is not disconnected, stale or down.
    There,
    /// The factory sent a heartbeat since the coordinator started.
    Heard,
    /// The factory is not draining.
    Open,
    /// The factory has enough disk space.
    Disk,
    /// The factory answers offers.
    Responsive,
    /// An acceptable engine is available.
    EngineAwake,
    /// The factory has a free seat.
    Seats,
    /// The factory has a free seat for an acceptable engine.
    EngineSeats,
    /// The factory has a free seat for the repository.
    RepoSeats,
    /// The fleet has a free seat for the repository.
    FleetRepoSeats,
}

/// A factory, or a group of similar ones, to filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) kind: &'a CapabilityClass,
    pub(crate) load_state: &'a Availability,
    pub(crate) repo: RepoFit,
    pub(crate) pinned_elsewhere: bool,
}

/// The repository conditions that a factory passes. Ordered like the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RepoFit {
    /// The factory has the repositories whose capability is required.
    pub(crate) tokens: bool,
    /// The factory has the job's repository, or can clone it.
    pub(crate) there: bool,
    /// The factory has a free seat for the repository.
    pub(crate) free: bool,
}

impl RepoFit {
    /// All conditions pass.
    pub(crate) const WHOLE: Self = Self { tokens: true, there: true, free: true };
}

impl FilterCondition {
    pub(crate) const ALL: [Self; 16] = [
        Self::Product,
        Self::Pin,
        Self::Capabilities,
        Self::Engine,
        Self::Repo,
        Self::Scope,
        Self::There,
        Self::Heard,
        Self::Open,
        Self::Disk,
        Self::Responsive,
        Self::EngineAwake,
        Self::Seats,
        Self::EngineSeats,
        Self::RepoSeats,
        Self::FleetRepoSeats,
    ];

    /// The first condition that rejects the candidate.
    pub(crate) fn stopping(candidate: &Candidate, constraints: &Constraints) -> Option<Self> {
        Self::ALL.into_iter().find(|condition| !condition.admits(candidate, constraints))
    }

    /// Whether it is about what a factory offers, not about its state at the moment.
    pub(crate) fn is_about_what_it_offers(self) -> bool {
        matches!(self, Self::Capabilities | Self::Engine | Self::Repo | Self::Scope)
    }

    pub(crate) fn admits(self, candidate: &Candidate, constraints: &Constraints) -> bool {
        let Candidate { kind, load_state, repo, pinned_elsewhere } = *candidate;
        match self {
            Self::Product => !constraints.paused,
            Self::Pin => !pinned_elsewhere,
            Self::Capabilities => !constraints.unknown && kind.offers(&constraints.tokens) && repo.tokens,
            Self::Engine => constraints.engine(kind, load_state) != EnginePick::Absent,
            Self::Repo => repo.there,
            Self::Scope => kind.covers(&constraints.shape.product),
            Self::There => matches!(load_state.presence, Presence::Live | Presence::Warming),
            Self::Heard => load_state.presence != Presence::Warming,
            Self::Open => !load_state.draining,
            Self::Disk => !load_state.disk_low,
            Self::Responsive => !load_state.unresponsive,
            Self::EngineAwake => constraints.engine(kind, load_state) != EnginePick::Resting,
            Self::Seats => !load_state.full,
            Self::EngineSeats => constraints.engine(kind, load_state) != EnginePick::Busy,
            Self::RepoSeats => repo.free,
            Self::FleetRepoSeats => !constraints.repo_full,
        }
    }
}
