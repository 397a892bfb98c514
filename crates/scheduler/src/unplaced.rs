//! Why a job waits, with the remedy [I9].

use std::fmt;

use domain::{
    Capability, EngineName, FactoryId, JobId, MoneyWait, PoolName, ProductId, RepoIdentity, RepoName, Timestamp,
    UsageWindow,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fleet::Presence;
use crate::ineligible::Ineligible;
use crate::list_fmt::NameList;

/// Why a job waits. `Display` names the obstacle and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase", tag = "code")]
pub enum Unplaced {
    /// The fleet has no factory.
    NoFactories,
    /// No factory has all required capabilities.
    NoFactoryOffers {
        /// Capabilities that no factory has; if each exists somewhere, those that the closest match lacks.
        missing: Vec<Capability>,
        /// The factory that lacks the fewest.
        nearest: Option<ClosestMatch>,
    },
    /// No otherwise eligible factory has an acceptable engine.
    NoFactoryRunsEngine {
        /// The acceptable engines.
        engines: Vec<EngineName>,
    },
    /// No otherwise eligible factory has the repository or can clone it.
    NoFactoryHasRepo {
        /// The repository.
        repo: RepoName,
    },
    /// The saved work is in one repository, and the otherwise eligible factories have another one of that name.
    RepoDiffers {
        /// The repository's name.
        repo: RepoName,
        /// The repository with the saved work.
        identity: RepoIdentity,
        /// The repositories of that name on factories, if they report an identity.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        found: Vec<RepoIdentity>,
    },
    /// No otherwise eligible factory can reach the repository's remote.
    RemoteUnavailable {
        /// The repository.
        repo: RepoName,
        /// A factory configured with it.
        factory: FactoryId,
        /// The remote's error there.
        message: String,
    },
    /// No otherwise eligible factory has a token that covers the product.
    OutOfScope {
        /// The product.
        product: ProductId,
    },
    /// The otherwise eligible factories are disconnected, stale or down.
    Away {
        /// One of them.
        factory: FactoryId,
        /// Its presence.
        presence: Presence,
    },
    /// The otherwise eligible factories are draining.
    Draining {
        /// One of them.
        factory: FactoryId,
    },
    /// The otherwise eligible factories are low on disk space.
    DiskLow {
        /// One of them.
        factory: FactoryId,
    },
    /// The otherwise eligible factories do not answer offers, or decline them.
    Unresponsive {
        /// One of them.
        factory: FactoryId,
        /// What happened.
        problem: String,
    },
    /// The otherwise eligible factories have an engine whose usage window is exhausted: the one that resets first.
    UsageWindow {
        /// The window.
        window: UsageWindow,
    },
    /// The otherwise eligible factories have an engine whose provider has an outage: the one with the earliest retry.
    EnginePaused {
        /// Its factory.
        factory: FactoryId,
        /// The engine.
        engine: EngineName,
        /// The error.
        problem: String,
        /// Time of the next retry.
        until: Timestamp,
    },
    /// The otherwise eligible factories have an unusable engine.
    EngineUnusable {
        /// One of them.
        factory: FactoryId,
        /// The engine.
        engine: EngineName,
        /// The reason.
        problem: String,
    },
    /// The job is pinned to a factory that is not in the fleet, or that serves other products only: both read the same, so
    /// that a pin tells nothing about factories of other products.
    PinnedToAbsent {
        /// The factory.
        factory: FactoryId,
    },
    /// The job is pinned to an ineligible factory.
    PinnedToUnfit {
        /// The factory.
        factory: FactoryId,
        /// The reasons.
        why: Vec<Ineligible>,
    },
    /// No heartbeat from the otherwise eligible factories since the coordinator started.
    Warming,
    /// The product is paused.
    ProductPaused {
        /// The product.
        product: ProductId,
        /// Who paused it.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    },
    /// The budget of the product has no money left for the job.
    WaitsForMoney {
        /// The product.
        product: ProductId,
        /// What is missing.
        money: MoneyWait,
    },
    /// The otherwise eligible factories have no free seat.
    AllBusy,
    /// The otherwise eligible factories have no free seat for an acceptable engine.
    EngineBusy {
        /// The acceptable engines; all when empty.
        engines: Vec<EngineName>,
    },
    /// The repository's limit is reached.
    RepoBusy {
        /// The repository.
        repo: RepoName,
    },
    /// A factory of a pool is being started.
    Starting {
        /// The pool.
        pool: PoolName,
        /// Since when it starts factories and none has joined.
        since: Timestamp,
    },
}

/// The factory closest to the job's constraints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClosestMatch {
    /// The factory.
    pub factory: FactoryId,
    /// The missing capabilities.
    pub missing: Vec<Capability>,
}

impl Unplaced {
    /// A stable code for programs, equal to the one in JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoFactories => "no_factories",
            Self::NoFactoryOffers { .. } => "no_factory_offers",
            Self::NoFactoryRunsEngine { .. } => "no_factory_runs_engine",
            Self::NoFactoryHasRepo { .. } => "no_factory_has_repo",
            Self::RepoDiffers { .. } => "repo_differs",
            Self::RemoteUnavailable { .. } => "remote_unavailable",
            Self::OutOfScope { .. } => "out_of_scope",
            Self::Away { .. } => "away",
            Self::Draining { .. } => "draining",
            Self::DiskLow { .. } => "disk_low",
            Self::Unresponsive { .. } => "unresponsive",
            Self::UsageWindow { .. } => "usage_window",
            Self::EnginePaused { .. } => "engine_paused",
            Self::EngineUnusable { .. } => "engine_unusable",
            Self::PinnedToAbsent { .. } => "pinned_to_absent",
            Self::PinnedToUnfit { .. } => "pinned_to_unfit",
            Self::Warming => "warming",
            Self::ProductPaused { .. } => "product_paused",
            Self::WaitsForMoney { .. } => "waits_for_money",
            Self::AllBusy => "all_busy",
            Self::EngineBusy { .. } => "engine_busy",
            Self::RepoBusy { .. } => "repo_busy",
            Self::Starting { .. } => "starting",
        }
    }

    /// Time of the next retry, if known.
    pub fn retry_at(&self) -> Option<Timestamp> {
        match self {
            Self::UsageWindow { window } => window.until,
            Self::EnginePaused { until, .. } => Some(*until),
            Self::WaitsForMoney { money, .. } => money.resets_at,
            _ => None,
        }
    }

    /// The text for people, with commands that name the job.
    pub fn text_for(&self, job: JobId) -> String {
        match self {
            Self::RepoDiffers { .. } => format!("{self} with `giga requeue --fresh {}`", job.short()),
            _ => self.to_string(),
        }
    }

    /// Whether no factory can run the job: a free seat will not help, an operator has to act.
    pub fn is_unplaceable(&self) -> bool {
        match self {
            Self::NoFactories
            | Self::NoFactoryOffers { .. }
            | Self::NoFactoryRunsEngine { .. }
            | Self::NoFactoryHasRepo { .. }
            | Self::RepoDiffers { .. }
            | Self::RemoteUnavailable { .. }
            | Self::OutOfScope { .. }
            | Self::Away { .. }
            | Self::Draining { .. }
            | Self::DiskLow { .. }
            | Self::Unresponsive { .. }
            | Self::EngineUnusable { .. }
            | Self::PinnedToAbsent { .. }
            | Self::PinnedToUnfit { .. } => true,
            Self::UsageWindow { window } => window.until.is_none(),
            Self::EnginePaused { .. }
            | Self::Warming
            | Self::ProductPaused { .. }
            | Self::WaitsForMoney { .. }
            | Self::AllBusy
            | Self::EngineBusy { .. }
            | Self::RepoBusy { .. }
            | Self::Starting { .. } => false,
        }
    }

    /// Whether another factory would help: the existing ones are missing, unfit, away, closed or busy.
    pub(crate) fn needs_another_factory(&self) -> bool {
        match self {
            Self::NoFactories
            | Self::NoFactoryOffers { .. }
            | Self::NoFactoryRunsEngine { .. }
            | Self::NoFactoryHasRepo { .. }
            | Self::OutOfScope { .. }
            | Self::Away { .. }
            | Self::Draining { .. }
            | Self::DiskLow { .. }
            | Self::Unresponsive { .. }
            | Self::AllBusy
            | Self::EngineBusy { .. } => true,
            // A limit of the product, of a credential or of the job itself: another factory would wait as well.
            Self::RepoDiffers { .. }
            | Self::RemoteUnavailable { .. }
            | Self::UsageWindow { .. }
            | Self::EnginePaused { .. }
            | Self::EngineUnusable { .. }
            | Self::PinnedToAbsent { .. }
            | Self::PinnedToUnfit { .. }
            | Self::Warming
            | Self::ProductPaused { .. }
            | Self::WaitsForMoney { .. }
            | Self::RepoBusy { .. }
            | Self::Starting { .. } => false,
        }
    }
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFactories => f.write_str("no factory is enrolled: start one with `giga factory run`"),
            Self::NoFactoryOffers { missing, nearest } => show_offers(f, missing, nearest.as_ref()),
            Self::NoFactoryRunsEngine { engines } if engines.is_empty() => f.write_str(
                "no eligible factory has an engine: install one and sign in, or configure one under `[factory.engines]` in \
                 its giga.toml; `giga doctor` there shows what it finds",
            ),
            Self::NoFactoryRunsEngine { engines } => write!(
                f,
                "no eligible factory runs {}: set up the engine on one, or allow another engine",
                NameList::any(engines)
            ),
            Self::NoFactoryHasRepo { repo } => write!(
                f,
                "no eligible factory has the repository `{repo}`: add it to one under `[factory.repos]` in its giga.toml, or clone it into its `repo_base`"
            ),
            Self::RepoDiffers { repo, identity, found } => {
                write!(f, "the saved work of this job is in {identity}, and the `{repo}` of every eligible factory is ")?;
                match found.as_slice() {
                    [] => f.write_str("another repository")?,
                    found => write!(f, "{}", NameList::any(found))?,
                }
                write!(f, ": connect a factory whose `{repo}` is {identity}, or discard the work and start over")
            }
            Self::RemoteUnavailable { repo, factory, message } => write!(
                f,
                "no eligible factory can reach the remote of `{repo}`, such as `{factory}`: {message}. The factory retries by itself"
            ),
            Self::OutOfScope { product } => {
                write!(f, "no eligible factory is allowed to run jobs of `{product}`: add the product to the token of one")
            }
            Self::Away { factory, presence: Presence::Disconnected } => write!(
                f,
                "every eligible factory is disconnected, such as `{factory}`: it reconnects by itself unless its process or its network is down"
            ),
            Self::Away { factory, presence: Presence::Down } => write!(
                f,
                "every eligible factory is stopped, such as `{factory}`: start it with `giga factory run` on its machine, or enrol another"
            ),
            Self::Away { factory, .. } => {
                write!(f, "every eligible factory is stale, such as `{factory}`: check its machine and network, or enrol another")
            }
            Self::Draining { factory } => write!(
                f,
                "every eligible factory is draining, such as `{factory}`: resume it with `giga factory resume {factory}`, or enrol another"
            ),
            Self::DiskLow { factory } => write!(
                f,
                "every eligible factory is low on disk space, such as `{factory}`: free some with `giga gc`"
            ),
            Self::Unresponsive { factory, problem } => {
                write!(f, "no eligible factory takes offers: `{factory}` {problem}; see `giga alerts` and its log")
            }
            Self::UsageWindow { window } => window.fmt(f),
            Self::EnginePaused { factory, engine, problem, until } => {
                let until = until.to_the_second();
                write!(f, "waiting for engine `{engine}` on `{factory}`, next try at {until}: {problem}")
            }
            Self::EngineUnusable { factory, engine, problem } => {
                write!(f, "no eligible factory can use its engine, such as `{engine}` on `{factory}`: {problem}")
            }
            Self::PinnedToAbsent { factory } => {
                write!(
                    f,
                    "the job is pinned to `{factory}`, which is not in the fleet or serves other products only: enrol it, or unpin the job"
                )
            }
            Self::PinnedToUnfit { factory, why } => {
                write!(f, "the job is pinned to `{factory}`, which {}: fix that, or unpin the job", ReasonList(why))
            }
            Self::Warming => f.write_str("the coordinator has just started and waits for the factories to reconnect"),
            Self::ProductPaused { product, by, reason } => {
                write!(f, "product `{product}` is paused")?;
                by.iter().try_for_each(|by| write!(f, " by {by}"))?;
                reason.iter().try_for_each(|reason| write!(f, " ({reason})"))?;
                write!(f, ": `giga product resume {product}` starts it again")
            }
            Self::WaitsForMoney { product, money } => f.write_str(&money.text(product)),
            Self::AllBusy => f.write_str("every eligible factory is busy: the job starts when a seat is free"),
            Self::EngineBusy { engines } if engines.is_empty() => {
                f.write_str("every seat for an engine is in use: the job starts when one is free")
            }
            Self::EngineBusy { engines } => {
                write!(f, "every seat for {} is in use: the job starts when one is free", NameList::any(engines))
            }
            Self::RepoBusy { repo } => {
                write!(f, "`{repo}` is at its limit of concurrent jobs: the job starts when one of them ends")
            }
            Self::Starting { pool, since } => {
                write!(f, "pool `{pool}` is starting a factory (since {}): the job starts when it has joined", since.to_the_second())
            }
        }
    }
}

fn show_offers(f: &mut fmt::Formatter<'_>, missing: &[Capability], nearest: Option<&ClosestMatch>) -> fmt::Result {
    let missing = match nearest {
        Some(ClosestMatch { factory, missing }) => {
            let lacks = NameList::all(missing);
            write!(f, "no factory has all required capabilities; closest match is {factory}, which lacks {lacks}")?;
            missing
        }
        None => {
            write!(f, "no factory has {}", NameList::all(missing))?;
            missing
        }
    };
    let them = if missing.len() == 1 { "it" } else { "them" };
    write!(f, ": add {} to a factory, or remove {them} from the job", NameList::all(missing))
}

/// "lacks `a`, is draining and is low on disk space".
struct ReasonList<'a>(&'a [Ineligible]);

impl fmt::Display for ReasonList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, reason) in self.0.iter().enumerate() {
            match at {
                0 => {}
                at if at + 1 == self.0.len() => f.write_str(" and ")?,
                _ => f.write_str(", ")?,
            }
            write!(f, "{reason}")?;
        }
        Ok(())
    }
}
