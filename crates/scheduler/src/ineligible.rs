//! Why a factory is not eligible for a job.

use std::fmt;

use domain::{Capability, EngineName, FactoryId, ProductId, RepoIdentity, RepoName, Timestamp, UsageWindow};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::constraints::Constraints;
use crate::engine_unavailable::EngineUnavailable;
use crate::filter::{Candidate, FilterCondition};
use crate::fleet::{CapabilityClass, IndexedFactory, Presence, repo_of_token};
use crate::list_fmt::NameList;

/// One reason why a factory is not eligible. Shown after the factory's name: "`mac-1` lacks `has:docker`".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase", tag = "code")]
pub enum Ineligible {
    /// The product is paused.
    ProductPaused {
        /// The product.
        product: ProductId,
    },
    /// The budget of the product has no money left for the job.
    WaitsForMoney {
        /// The product.
        product: ProductId,
    },
    /// The job is pinned to another factory.
    PinnedElsewhere {
        /// The pinned factory.
        pin: FactoryId,
    },
    /// A required capability is missing.
    Lacks {
        /// The capability.
        capability: Capability,
    },
    /// The factory has no acceptable engine.
    RunsNoEngine {
        /// The acceptable engines.
        engines: Vec<EngineName>,
    },
    /// The factory does not have the repository and cannot clone it.
    NoRepo {
        /// The repository.
        repo: RepoName,
    },
    /// The saved work is in another repository of that name.
    RepoDiffers {
        /// The repository's name.
        repo: RepoName,
        /// The repository with the saved work.
        wanted: RepoIdentity,
        /// The factory's repository, if it reports an identity.
        found: Option<RepoIdentity>,
    },
    /// The factory cannot reach the repository's remote.
    RemoteUnavailable {
        /// The repository.
        repo: RepoName,
        /// The remote's error.
        message: String,
    },
    /// The factory's token does not cover the product.
    OutOfScope {
        /// The product.
        product: ProductId,
    },
    /// The factory is disconnected, stale or down.
    Away {
        /// Its presence.
        presence: Presence,
    },
    /// No heartbeat from the factory since the coordinator started.
    Warming,
    /// The factory is draining.
    Draining,
    /// The factory is low on disk space.
    DiskLow,
    /// The factory left offers unanswered, or declined them, and temporarily gets none.
    Unresponsive {
        /// What happened.
        problem: String,
    },
    /// The usage window of an engine's credential is exhausted.
    UsageWindow {
        /// The window.
        window: UsageWindow,
    },
    /// The provider of an engine has an outage. The factory retries.
    EnginePaused {
        /// The engine.
        engine: EngineName,
        /// The error.
        problem: String,
        /// Time of the next retry.
        until: Timestamp,
    },
    /// An engine is not signed in, or unusable for another reason.
    EngineUnusable {
        /// The engine.
        engine: EngineName,
        /// The reason.
        problem: String,
    },
    /// All seats are in use.
    Full {
        /// Number of seats.
        seats: u32,
    },
    /// All seats of the acceptable engines are in use.
    EngineBusy {
        /// The engines.
        engines: Vec<EngineName>,
    },
    /// The factory is at its limit for the repository.
    RepoBusy {
        /// The repository.
        repo: RepoName,
    },
    /// The fleet is at its limit for the repository.
    FleetRepoBusy {
        /// The repository.
        repo: RepoName,
    },
}

impl Ineligible {
    /// All reasons against a factory, the most severe first; empty if it is eligible.
    pub(crate) fn all(member: &IndexedFactory, candidate: &Candidate, constraints: &Constraints) -> Vec<Self> {
        let closed = FilterCondition::ALL.into_iter().filter(|condition| !condition.admits(candidate, constraints));
        closed.flat_map(|condition| Self::at(condition, member, candidate, constraints)).collect()
    }

    fn at(
        condition: FilterCondition,
        member: &IndexedFactory,
        candidate: &Candidate,
        constraints: &Constraints,
    ) -> Vec<Self> {
        let shape = constraints.shape;
        let repo = |reason: fn(RepoName) -> Self| shape.repo.clone().map(reason).into_iter().collect();
        match condition {
            FilterCondition::Product if constraints.out_of_money => {
                vec![Self::WaitsForMoney { product: shape.product.clone() }]
            }
            FilterCondition::Product => vec![Self::ProductPaused { product: shape.product.clone() }],
            FilterCondition::Pin => shape.pin.clone().map(|pin| Self::PinnedElsewhere { pin }).into_iter().collect(),
            FilterCondition::Capabilities => {
                let missing = missing(member, candidate.kind, constraints);
                missing.into_iter().map(|capability| Self::Lacks { capability }).collect()
            }
            FilterCondition::Engine => vec![Self::RunsNoEngine { engines: shape.engines.clone() }],
            FilterCondition::Repo => shape
                .repo
                .clone()
                .map(|repo| Self::without_repo(member, repo, shape.identity.as_ref()))
                .into_iter()
                .collect(),
            FilterCondition::Scope => vec![Self::OutOfScope { product: shape.product.clone() }],
            FilterCondition::There => vec![Self::Away { presence: candidate.load_state.presence }],
            FilterCondition::Heard => vec![Self::Warming],
            FilterCondition::Open => vec![Self::Draining],
            FilterCondition::Disk => vec![Self::DiskLow],
            FilterCondition::Responsive => {
                let pause = member.state.unresponsive.clone();
                pause.map(|pause| Self::Unresponsive { problem: pause.problem }).into_iter().collect()
            }
            FilterCondition::EngineAwake => {
                let unavailable = constraints.unavailable(candidate.kind, candidate.load_state);
                unavailable.into_iter().map(|(rest, engine)| Self::of_unavailable(rest, engine)).collect()
            }
            FilterCondition::Seats => vec![Self::Full { seats: member.state.factory.seat_limit }],
            FilterCondition::EngineSeats => {
                vec![Self::EngineBusy { engines: candidate.load_state.busy_engines.clone() }]
            }
            FilterCondition::RepoSeats => repo(|repo| Self::RepoBusy { repo }),
            FilterCondition::FleetRepoSeats => repo(|repo| Self::FleetRepoBusy { repo }),
        }
    }

    fn without_repo(member: &IndexedFactory, repo: RepoName, identity: Option<&RepoIdentity>) -> Self {
        let factory = &member.state.factory;
        if let Some(unavailable) = factory.unavailable_repos.get(&repo) {
            return Self::RemoteUnavailable { repo, message: unavailable.message.clone() };
        }
        match identity.filter(|_| member.has_repo(&repo)) {
            Some(wanted) => {
                let found = factory.repo_identities.get(&repo).cloned();
                Self::RepoDiffers { repo, wanted: wanted.clone(), found }
            }
            None => Self::NoRepo { repo },
        }
    }

    fn of_unavailable(rest: &EngineUnavailable, engine: &EngineName) -> Self {
        match rest {
            EngineUnavailable::Window(window) => Self::UsageWindow { window: window.clone() },
            EngineUnavailable::Paused { until, problem } => {
                Self::EnginePaused { engine: engine.clone(), problem: problem.clone(), until: *until }
            }
            EngineUnavailable::Unusable { problem } => {
                Self::EngineUnusable { engine: engine.clone(), problem: problem.clone() }
            }
        }
    }
}

/// Required capabilities that the factory lacks, in canonical spelling.
pub(crate) fn missing(member: &IndexedFactory, kind: &CapabilityClass, constraints: &Constraints) -> Vec<Capability> {
    let needed = constraints.shape.capabilities.iter().cloned().map(Capability::canonical);
    let lacks = |token: &Capability| match repo_of_token(token) {
        Some(repo) => !member.has_repo(&repo),
        None => !kind.has(token),
    };
    needed.filter(lacks).collect()
}

impl fmt::Display for Ineligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProductPaused { product } => write!(f, "cannot start jobs of `{product}`: the product is paused"),
            Self::WaitsForMoney { product } => write!(f, "cannot start jobs of `{product}`: it waits for money"),
            Self::PinnedElsewhere { pin } => write!(f, "is not `{pin}`, which the job is pinned to"),
            Self::Lacks { capability } => write!(f, "lacks `{capability}`"),
            Self::RunsNoEngine { engines } if engines.is_empty() => f.write_str("has no engine"),
            Self::RunsNoEngine { engines } => write!(f, "does not run {}", NameList::any(engines)),
            Self::NoRepo { repo } => write!(f, "has no repository `{repo}` configured"),
            Self::RepoDiffers { repo, wanted, found: Some(found) } => {
                write!(f, "has {found} as `{repo}`, and the saved work of this job is in {wanted}")
            }
            Self::RepoDiffers { repo, wanted, found: None } => {
                write!(
                    f,
                    "does not report which repository its `{repo}` is, and the saved work of this job is in {wanted}"
                )
            }
            Self::RemoteUnavailable { repo, message } => write!(f, "cannot reach the remote of `{repo}`: {message}"),
            Self::OutOfScope { product } => write!(f, "is not allowed to run jobs of `{product}`"),
            Self::Away { presence: Presence::Down } => f.write_str("is stopped"),
            Self::Away { presence: Presence::Disconnected } => f.write_str("is disconnected"),
            Self::Away { .. } => f.write_str("is stale: no recent heartbeat"),
            Self::Warming => f.write_str("has not connected since the coordinator restarted"),
            Self::Draining => f.write_str("is draining"),
            Self::DiskLow => f.write_str("is low on disk space"),
            Self::Unresponsive { problem } => f.write_str(problem),
            Self::UsageWindow { window } => write!(f, "is {window}"),
            Self::EnginePaused { engine, problem, until } => {
                write!(f, "has paused `{engine}` until {}: {problem}", until.to_the_second())
            }
            Self::EngineUnusable { engine, problem } => write!(f, "cannot use `{engine}`: {problem}"),
            Self::Full { seats: 1 } => f.write_str("has its only seat in use"),
            Self::Full { seats } => write!(f, "has all {seats} seats in use"),
            Self::EngineBusy { engines } => write!(f, "has all seats for {} in use", NameList::all(engines)),
            Self::RepoBusy { repo } => write!(f, "is at its limit of jobs on `{repo}`"),
            Self::FleetRepoBusy { repo } => {
                write!(f, "cannot start a job on `{repo}`: the fleet is at its limit for it")
            }
        }
    }
}
