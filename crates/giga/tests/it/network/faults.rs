//! What happens to the network and the hosts, one after the other or at once.

use rustix::process::Signal;

use clock::SeededEntropy;
use domain::Entropy;

use super::fleet::{BROKER, COORDINATORS, DATABASE, NetworkFleet, OPERATOR, SITES};

/// Which way a link is cut.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cut {
    Both,
    /// What the first one sends is lost.
    There,
    /// What the first one should receive is lost.
    Back,
}

/// Something that goes wrong until the fleet is restored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// The link between the leader and the database.
    LeaderAndDatabase(Cut),
    /// The link between the coordinators.
    BetweenCoordinators(Cut),
    /// A site and both coordinators.
    SiteAndCoordinators(usize, Cut),
    /// A site and the leader: the other coordinator still forwards.
    SiteAndLeader(usize, Cut),
    /// The operator, who submits and follows, and the leader.
    OperatorAndLeader(Cut),
    /// The broker and everyone else.
    BrokerAndAll(Cut),
    LeaderKilled,
    FollowerKilled,
    LeaderPaused,
    FactoryPaused(usize),
    FactoryKilled(usize),
    /// A factory signs off, another one comes.
    FactoryReplaced(usize),
    /// The broker is stopped and its data deleted; it comes back empty.
    BrokerWiped,
    /// The wall clock of a coordinator, in hours.
    CoordinatorClock(usize, i64),
    /// The wall clock of a site, in hours.
    SiteClock(usize, i64),
}

impl Fault {
    /// Any fault.
    pub(super) fn random(chance: &SeededEntropy) -> Self {
        let chance: &dyn Entropy = chance;
        let below = |n: usize| ((chance.fraction() * n as f64) as usize).min(n - 1);
        let cut = [Cut::Both, Cut::There, Cut::Back][below(3)];
        let (site, coordinator, hours) = (below(SITES.len()), below(COORDINATORS.len()), [-1, 1][below(2)]);
        match below(15) {
            0 => Self::LeaderAndDatabase(cut),
            1 => Self::BetweenCoordinators(cut),
            2 => Self::SiteAndCoordinators(site, cut),
            3 => Self::BrokerAndAll(cut),
            4 => Self::LeaderKilled,
            5 => Self::FollowerKilled,
            6 => Self::LeaderPaused,
            7 => Self::FactoryPaused(site),
            8 => Self::FactoryKilled(site),
            9 => Self::FactoryReplaced(site),
            10 => Self::BrokerWiped,
            11 => Self::CoordinatorClock(coordinator, hours),
            12 => Self::OperatorAndLeader(cut),
            13 => Self::SiteAndLeader(site, cut),
            _ => Self::SiteClock(site, hours),
        }
    }

    /// Makes it so, until [`NetworkFleet::restore`].
    pub(super) fn strike(self, fleet: &mut NetworkFleet) {
        // Without a known leader any coordinator will do.
        let leader = fleet.leader().unwrap_or(0);
        match self {
            Self::LeaderAndDatabase(way) => cut(fleet, COORDINATORS[leader], &[DATABASE], way),
            Self::BetweenCoordinators(way) => cut(fleet, COORDINATORS[0], &[COORDINATORS[1]], way),
            Self::SiteAndCoordinators(site, way) => cut(fleet, SITES[site], &COORDINATORS, way),
            Self::SiteAndLeader(site, way) => cut(fleet, SITES[site], &[COORDINATORS[leader]], way),
            Self::OperatorAndLeader(way) => cut(fleet, OPERATOR, &[COORDINATORS[leader]], way),
            Self::BrokerAndAll(way) => {
                let others = fleet.network.others(BROKER);
                cut(fleet, BROKER, &others, way);
            }
            Self::LeaderKilled => fleet.kill_coordinator(leader),
            Self::FollowerKilled => fleet.kill_coordinator(1 - leader),
            Self::LeaderPaused => fleet.signal_coordinator(leader, Signal::STOP),
            Self::FactoryPaused(site) => fleet.signal_factory(site, Signal::STOP),
            Self::FactoryKilled(site) => fleet.kill_factory(site),
            Self::FactoryReplaced(site) => {
                // A stopped one cannot sign off.
                fleet.signal_factory(site, Signal::CONT);
                fleet.leave(site);
                fleet.join(site);
            }
            Self::BrokerWiped => {
                fleet.wipe_broker();
                fleet.resume_broker();
            }
            Self::CoordinatorClock(n, hours) => fleet.shift_clock(COORDINATORS[n], hours * 3_600),
            Self::SiteClock(site, hours) => fleet.shift_clock(SITES[site], hours * 3_600),
        }
    }
}

fn cut(fleet: &NetworkFleet, host: &str, others: &[&str], way: Cut) {
    match way {
        Cut::Both => fleet.network.cut(host, others),
        Cut::There => fleet.network.cut_one_way(host, others),
        Cut::Back => others.iter().for_each(|other| fleet.network.cut_one_way(other, &[host])),
    }
}
