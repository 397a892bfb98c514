//! Jobs flow while faults strike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::SeededEntropy;
use domain::{Clock, Entropy, EventKind, JobId, StageName};

use super::faults::{Cut, Fault};
use super::fleet::{NetworkFleet, TTL, jobs, pause, submit};
use super::history::History;

/// After the network is whole again, no open job may be without a change for longer.
const STRANDED_AFTER: Duration = Duration::from_secs(30);

/// The database keeps the lock of a leader that it does not reach for 11 seconds; the rest is for a busy machine.
const TAKEOVER_MAX: Duration = Duration::from_secs(60);

/// Open jobs at one time: enough that each factory has work, few enough that two cores finish them.
const OPEN_MAX: usize = 6;

/// How long the operator's stream may take to catch up at the end.
const STREAM_PATIENCE: Duration = Duration::from_secs(60);

/// How long a soak lasts unless `GIGA_SOAK_SECONDS` says otherwise.
const SOAK: Duration = Duration::from_secs(30 * 60);

/// Submits jobs from the operator's host, until it is dropped.
struct Submitter {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    acknowledged: Mutex<BTreeSet<JobId>>,
    shipped: AtomicUsize,
    flows: AtomicBool,
    is_over: AtomicBool,
}

impl Shared {
    /// Acknowledged jobs that have not shipped.
    fn open(&self) -> usize {
        self.acknowledged.lock().unwrap().len() - self.shipped.load(Ordering::SeqCst)
    }
}

impl Submitter {
    /// The calling thread is at the operator's host; so is the new one.
    fn start(fleet: &NetworkFleet) -> Self {
        let shared = Arc::new(Shared::default());
        let (client, clock, its) = (fleet.client(), fleet.clock, Arc::clone(&shared));
        let work = async move {
            let mut number = 0;
            while !its.is_over.load(Ordering::SeqCst) {
                if its.flows.load(Ordering::SeqCst)
                    && its.open() < OPEN_MAX
                    && let Some(job) = submit(&client, number).await
                {
                    its.acknowledged.lock().unwrap().insert(job);
                    number += 1;
                }
                pause(&clock, Duration::from_millis(100)).await;
            }
        };
        let thread = std::thread::spawn(move || runtime().block_on(work));
        Self { shared, thread: Some(thread) }
    }

    fn acknowledged(&self) -> BTreeSet<JobId> {
        self.shared.acknowledged.lock().unwrap().clone()
    }

    fn open(&self) -> usize {
        self.shared.open()
    }

    fn flow(&self, flows: bool) {
        self.shared.flows.store(flows, Ordering::SeqCst);
    }

    /// No job is submitted any more, or acknowledged.
    fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A fleet with a flow of jobs.
struct Scenario {
    fleet: NetworkFleet,
    submitter: Submitter,
    /// The longest time that a job was without a change after the network was whole.
    longest: Duration,
    rounds: usize,
}

impl Scenario {
    fn start() -> Option<Self> {
        let fleet = NetworkFleet::start(&[])?;
        let submitter = Submitter::start(&fleet);
        Some(Self { fleet, submitter, longest: Duration::ZERO, rounds: 0 })
    }

    /// Faults that hold for a while; then everything is restored, and every acknowledged job has to ship.
    fn round(&mut self, faults: &[Fault], hold: Duration) {
        println!("round {}: {faults:?} for {hold:?}", self.rounds + 1);
        self.round_until(faults, |_, struck_for| struck_for > hold);
    }

    /// The same, until another coordinator leads.
    fn round_until_takeover(&mut self, faults: &[Fault]) {
        println!("round {}: {faults:?} until a takeover", self.rounds + 1);
        let term = self.fleet.term();
        self.round_until(faults, |fleet, struck_for| {
            assert!(struck_for < TAKEOVER_MAX, "no takeover after {faults:?}\n{}", fleet.logs());
            fleet.term() > term
        });
    }

    fn round_until(&mut self, faults: &[Fault], is_over: impl Fn(&NetworkFleet, Duration) -> bool) {
        self.rounds += 1;
        self.submitter.flow(true);
        // Faults strike in the middle of work.
        self.fleet.until("jobs at work", |_| self.submitter.open() >= OPEN_MAX / 2);
        faults.iter().for_each(|fault| fault.strike(&mut self.fleet));
        let struck = self.fleet.clock.monotonic();
        while !is_over(&self.fleet, self.fleet.clock.monotonic() - struck) {
            self.count_shipped();
            self.fleet.clock_sleep(Duration::from_millis(500));
        }
        self.submitter.flow(false);
        self.fleet.restore();
        self.settle(faults);
    }

    fn count_shipped(&self) {
        let shipped = self.fleet.events().lines().filter(|line| line.contains("\"kind\":\"shipped\"")).count();
        let acknowledged = self.submitter.acknowledged().len();
        self.submitter.shared.shipped.store(shipped.min(acknowledged), Ordering::SeqCst);
    }

    /// Waits until every acknowledged job has shipped, for as long as each of them changes now and then.
    fn settle(&mut self, faults: &[Fault]) {
        let healed = self.fleet.clock.monotonic();
        let mut changes: BTreeMap<JobId, (String, Duration)> = BTreeMap::new();
        loop {
            let now = self.fleet.clock.monotonic();
            // A new client has new connections: nothing of before is in its way.
            let client = self.fleet.client();
            let seen = runtime().block_on(async { tokio::time::timeout(Duration::from_secs(5), jobs(&client)).await });
            let seen: BTreeMap<JobId, _> =
                seen.ok().flatten().unwrap_or_default().into_iter().map(|job| (job.id, job)).collect();
            let mut is_settled = true;
            for job in self.submitter.acknowledged() {
                let state = seen.get(&job);
                if state.is_some_and(|job| job.stage == StageName::Shipped) {
                    continue;
                }
                is_settled = false;
                let state = state.map(|job| format!("{} {} {:?} {:?}", job.stage, job.rev, job.message, job.errand));
                let change = changes.entry(job).or_insert_with(|| (String::new(), healed));
                if let Some(state) = state
                    && change.0 != state
                {
                    *change = (state, now);
                }
                let waited = now - change.1;
                self.longest = self.longest.max(waited);
                assert!(
                    waited < STRANDED_AFTER,
                    "after {faults:?} job {job} was without a change for {waited:?}: {}\n{}",
                    change.0,
                    self.fleet.logs()
                );
            }
            if is_settled {
                println!("  settled after {:.1?}", self.fleet.clock.monotonic() - healed);
                return self.count_shipped();
            }
            self.fleet.clock_sleep(Duration::from_millis(500));
        }
    }

    /// Checks what was recorded.
    fn check(mut self) {
        self.submitter.end();
        // A request that was on its way when the flow ended.
        self.settle(&[]);
        let acknowledged = self.submitter.acknowledged();
        let shipped_lines =
            |fleet: &NetworkFleet| fleet.events().lines().filter(|line| line.contains("\"kind\":\"shipped\"")).count();
        let is_complete =
            crate::processes::becomes_so(STREAM_PATIENCE, || shipped_lines(&self.fleet) >= acknowledged.len());
        let events = self.fleet.events();
        let history = History { events: &events, journal: &self.fleet.journal(), merged: self.fleet.merged() };
        println!(
            "{} rounds, {} jobs, {} grants, {} lost leases, {} terms; after healing no job was without a change for longer \
             than {:.1?}",
            self.rounds,
            acknowledged.len(),
            history.count(EventKind::Granted),
            history.count(EventKind::Reaped),
            self.fleet.term(),
            self.longest
        );
        assert!(is_complete, "the operator's stream lacks the end of jobs\n{}", self.fleet.logs());
        let violations = history.violations(&acknowledged);
        assert!(violations.is_empty(), "{}\n{}", violations.join("\n"), self.fleet.logs());
        assert!(acknowledged.len() > self.rounds, "no jobs flowed");
        self.fleet.end();
    }
}

// [D2] [D3] [I1] [I2] [I3] [I4] [I7] [J7] [row 12] [row 14]
#[test]
fn jobs_survive_a_failing_network() {
    let Some(mut scenario) = Scenario::start() else { return };
    let long = 3 * TTL;

    scenario.round_until_takeover(&[Fault::LeaderAndDatabase(Cut::Both), Fault::FactoryReplaced(2)]);
    let one_way = [
        Fault::SiteAndCoordinators(0, Cut::There),
        Fault::FactoryPaused(1),
        Fault::BrokerWiped,
        Fault::CoordinatorClock(0, 1),
        Fault::CoordinatorClock(1, -1),
    ];
    scenario.round(&one_way, long);
    scenario.round_until_takeover(&[Fault::LeaderKilled, Fault::BrokerAndAll(Cut::Back), Fault::SiteClock(1, -1)]);

    scenario.check();
}

// [D2] [D3] [I1] [I2] [I3] [I4] [I7] [J7]
#[test]
fn jobs_survive_a_failing_network_for_long() {
    if std::env::var_os("GIGA_SOAK").is_none() {
        eprintln!("only with GIGA_SOAK=1 (make soak)");
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let fresh: &dyn Entropy = &clock::SystemEntropy;
    let seed = number("GIGA_NETWORK_SEED").unwrap_or_else(|| u64::from(u32::from_le_bytes(fresh.bytes())));
    let span = number("GIGA_SOAK_SECONDS").map_or(SOAK, Duration::from_secs);
    println!("GIGA_NETWORK_SEED={seed} for {span:?}");
    let chance = SeededEntropy::new(seed);
    let Some(mut scenario) = Scenario::start() else { return };

    let until = scenario.fleet.clock.monotonic() + span;
    while scenario.fleet.clock.monotonic() < until {
        let dice: &dyn Entropy = &chance;
        let faults: Vec<_> = (0..1 + (dice.fraction() * 3.0) as usize).map(|_| Fault::random(&chance)).collect();
        let hold = TTL.mul_f64(1.0 + dice.fraction() * 4.0);
        scenario.round(&faults, hold);
    }

    println!("GIGA_NETWORK_SEED={seed}");
    scenario.check();
}
