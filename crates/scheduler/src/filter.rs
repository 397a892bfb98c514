//! The filter [S2]: what a factory must pass to be given a job, in the order in which a failure is worth telling.

use crate::constraints::{Constraints, EnginePick};
use crate::fleet::{Availability, CapabilityClass, Presence};

/// One condition of the filter. Of several factories that fail, the one that fails last comes nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FilterCondition {
    /// The product starts new work.
    Product,
    /// The job is not pinned to another factory.
    Pin,
    /// Every token that is needed is advertised.
    Capabilities,
    /// One of the engines is offered.
    Engine,
    /// The repository is there, or can be cloned.
    Repo,
    /// The factory's token covers the product.
    Scope,
    /// It is not gone.
    There,
    /// It has been heard of.
    Heard,
    /// It takes new work.
    Open,
    /// It has disk space.
    Disk,
    /// It answers offers.
    Responsive,
    /// One of the engines is signed in and inside its usage window.
    EngineAwake,
    /// It has a free seat.
    Seats,
    /// It has a free seat for one of the engines.
    EngineSeats,
    /// It has a free seat for the repository.
    RepoSeats,
    /// The fleet has a free seat for the repository.
    FleetRepoSeats,
}

/// A factory, or several that are alike, before the gates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) kind: &'a CapabilityClass,
    pub(crate) standing: &'a Availability,
    pub(crate) repo: RepoFit,
    pub(crate) pinned_elsewhere: bool,
}

/// How far a factory gets with the repositories that a job needs. The order is that of the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RepoFit {
    /// Repositories whose token is needed are there.
    pub(crate) tokens: bool,
    /// The job's own repository is there, or can be cloned.
    pub(crate) there: bool,
    /// The factory may work on it once more.
    pub(crate) free: bool,
}

impl RepoFit {
    /// Nothing is in the way.
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

    /// The first gate that does not let the candidate pass.
    pub(crate) fn stopping(candidate: &Candidate, needs: &Constraints) -> Option<Self> {
        Self::ALL.into_iter().find(|gate| !gate.admits(candidate, needs))
    }

    pub(crate) fn admits(self, candidate: &Candidate, needs: &Constraints) -> bool {
        let Candidate { kind, standing, repo, pinned_elsewhere } = *candidate;
        match self {
            Self::Product => !needs.paused,
            Self::Pin => !pinned_elsewhere,
            Self::Capabilities => !needs.unknown && kind.offers(&needs.tokens) && repo.tokens,
            Self::Engine => needs.engine(kind, standing) != EnginePick::Absent,
            Self::Repo => repo.there,
            Self::Scope => kind.covers(&needs.shape.product),
            Self::There => matches!(standing.presence, Presence::Live | Presence::Warming),
            Self::Heard => standing.presence != Presence::Warming,
            Self::Open => !standing.draining,
            Self::Disk => !standing.disk_low,
            Self::Responsive => !standing.unresponsive,
            Self::EngineAwake => needs.engine(kind, standing) != EnginePick::Resting,
            Self::Seats => !standing.full,
            Self::EngineSeats => needs.engine(kind, standing) != EnginePick::Busy,
            Self::RepoSeats => repo.free,
            Self::FleetRepoSeats => !needs.repo_full,
        }
    }
}
