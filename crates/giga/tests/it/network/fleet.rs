//! A fleet whose processes are hosts of their own: two coordinators, factories, PostgreSQL, NATS and an operator.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Client, Endpoint, Trust};
use clock::SystemClock;
use domain::{Clock, JobId};
use protocol::{FactoryList, JobList, JobView, SubmitRequest, SubmitResponse};
use rustix::process::Signal;
use testkit::nats_server::{NatsAccount, NatsServer};

use super::namespaces::Network;
use crate::{processes, repository};

/// How long anything may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The hosts of the coordinators.
pub(super) const COORDINATORS: [&str; 2] = ["coordinator-0", "coordinator-1"];

/// The hosts that a factory may run on.
pub(super) const SITES: [&str; 3] = ["site-0", "site-1", "site-2"];

pub(super) const OPERATOR: &str = "operator";
pub(super) const DATABASE: &str = "database";
pub(super) const BROKER: &str = "broker";

/// The lease of the fleet.
pub(super) const TTL: Duration = Duration::from_secs(3);

const PORT: u16 = 7878;

/// A factory that runs.
struct Factory {
    name: String,
    process: Child,
}

pub(super) struct NetworkFleet {
    pub(super) network: Network,
    folder: tempfile::TempDir,
    // Stopped before the network is gone.
    database: Option<pgserver::Server>,
    broker: Option<NatsServer>,
    coordinators: [Option<Child>; 2],
    factories: BTreeMap<usize, Factory>,
    joined: usize,
    follower: Option<Child>,
    pub(super) clock: SystemClock,
}

impl NetworkFleet {
    /// Everything runs, and a factory at each site is connected. The calling thread is at the operator's host. `None` where
    /// the machine lacks something.
    pub(super) fn start(more_hosts: &[&str]) -> Option<Self> {
        let hosts = [&COORDINATORS[..], &SITES, &[OPERATOR, DATABASE, BROKER], more_hosts].concat();
        let network = Network::for_test(&hosts)?;
        let address = network.address(DATABASE);
        let database = network.within(DATABASE, || pgserver::for_test_at(address, pgserver::Flushes::Real).unwrap())?;
        let (account, address) = (NatsAccount::default(), network.address(BROKER));
        let broker = network.within(BROKER, || NatsServer::start_at(address, &account.settings))?;
        let mut fleet = Self {
            network,
            folder: tempfile::tempdir().unwrap(),
            database: Some(database),
            broker: Some(broker),
            coordinators: [None, None],
            factories: BTreeMap::new(),
            joined: 0,
            follower: None,
            clock: SystemClock::new(),
        };
        fleet.network.enter(OPERATOR);
        repository::make(fleet.folder.path(), "work");
        fleet.write_files(&account);
        fleet.start_coordinator(0);
        fleet.until("the first leader", |fleet| fleet.leader() == Some(0));
        fleet.start_coordinator(1);
        fleet.giga(&["product", "set", "default", "--auto-ship"]);
        fleet.follow_events();
        for site in 0..SITES.len() {
            fleet.join(site);
        }
        fleet.until("connected factories", |fleet| fleet.connected() == SITES.len());
        Some(fleet)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_files(&self, account: &NatsAccount) {
        let path = |name: &str| self.path(name).display().to_string();
        std::fs::write(self.path("coordinator.creds"), &account.credentials).unwrap();
        std::fs::write(self.path("account.seed"), &account.seed).unwrap();
        // Written down outside of the worktree; agents can make no new file there.
        std::fs::write(self.path("journal"), "").unwrap();
        let engine = format!(
            "for beat in 1 2 3 4; do echo \"$GIGA_JOB_ID $GIGA_EPOCH $beat\" >> '{}'; sleep 0.2; done\n\
             echo done > out-$GIGA_JOB_ID\n",
            path("journal")
        );
        std::fs::write(self.path("engine.sh"), engine).unwrap();
        let config = format!(
            "[coordinator]\nbroker = 'nats://{broker}'\nbroker_credentials_file = '{creds}'\n\
             broker_signing_key_file = '{seed}'\nbehind_proxy = true\n\
             lease_ttl = '{ttl}s'\nrenew_every = '500ms'\nstale_after = '{ttl}s'\n\
             accept_within = '1500ms'\nerrand_within = '4s'\ndisk_free_min_mib = 0\n\
             [coordinator.retry]\nattempts_max = 1000\nbackoff = '100ms'\nlost_leases_max = 1000\nunaccepted_max = 1000\n\
             [artifacts]\nstore = '{artifacts}'\nlogs = true\n\
             [factory]\nseats = 2\npoll_every = '1s'\nreceive = 'broker'\ndisk_floor_mib = 0\n\
             [factory.repos.work]\nurl = '{repo}'\n\
             [factory.engines.journal]\nargv = ['sh', '{engine}']\n\
             [factory.limits]\ngrace_ms = 300\n",
            broker = self.broker.as_ref().unwrap().address(),
            creds = path("coordinator.creds"),
            seed = path("account.seed"),
            ttl = TTL.as_secs(),
            artifacts = path("artifacts"),
            repo = path("work.git"),
            engine = path("engine.sh"),
        );
        std::fs::write(self.path("giga.toml"), config).unwrap();
    }

    /// `giga` on a host, with its own wall clock.
    fn command(&self, host: &str, log: &str) -> Command {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path(log)).unwrap();
        let mut command = self.network.command(host, env!("CARGO_BIN_EXE_giga"));
        command.arg("--config").arg(self.path("giga.toml")).current_dir(self.folder.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home")).env("GIGA_API", self.api());
        command.env("GIGA_CLOCK_SHIFT", self.path(&format!("{host}.shift")));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        command
    }

    fn base(&self, n: usize) -> String {
        format!("http://{}:{PORT}", self.network.address(COORDINATORS[n]))
    }

    pub(super) fn bases(&self) -> [String; 2] {
        [self.base(0), self.base(1)]
    }

    /// Both addresses.
    fn api(&self) -> String {
        format!("{},{}", self.base(0), self.base(1))
    }

    pub(super) fn start_coordinator(&mut self, n: usize) {
        if self.coordinators[n].is_some() {
            return;
        }
        let host = COORDINATORS[n];
        let mut command = self.command(host, &format!("{host}.log"));
        let address = self.base(n);
        command.arg("serve").arg("--data").arg(self.path(&format!("data-{n}")));
        command.args(["--listen", address.trim_start_matches("http://"), "--advertise", &address]);
        command.env("GIGA_STORE", self.database.as_ref().unwrap().url());
        self.coordinators[n] = Some(command.spawn().unwrap());
    }

    pub(super) fn kill_coordinator(&mut self, n: usize) {
        kill(self.coordinators[n].take());
    }

    /// Sends a signal to a coordinator.
    pub(super) fn signal_coordinator(&self, n: usize, signal: Signal) {
        self.coordinators[n].iter().for_each(|child| processes::send(signal, child));
    }

    /// A new factory comes to a site.
    pub(super) fn join(&mut self, site: usize) {
        let name = format!("factory-{}", self.joined);
        self.joined += 1;
        let token = self.insist("a join token", |fleet| {
            let made = fleet.try_giga(&["token", "create", "--join", "--factory", &name, "--json"])?;
            let made: serde_json::Value = serde_json::from_str(&made).ok()?;
            let command = made["command"].as_str()?.to_owned();
            Some(command.split(' ').skip_while(|word| *word != "--join").nth(1)?.to_owned())
        });
        let mut command = self.command(SITES[site], &format!("{name}.log"));
        command.args(["factory", "run", "--name", &name, "--state"]).arg(self.path(&name)).env("GIGA_JOIN", token);
        self.factories.insert(site, Factory { process: command.spawn().unwrap(), name });
    }

    /// A factory signs off and is gone.
    pub(super) fn leave(&mut self, site: usize) {
        let Some(mut factory) = self.factories.remove(&site) else { return };
        processes::send(Signal::TERM, &factory.process);
        let has_ended = processes::becomes_so(PATIENCE, || factory.process.try_wait().unwrap().is_some());
        kill(Some(factory.process));
        assert!(has_ended, "{} did not stop\n{}", factory.name, self.logs());
    }

    pub(super) fn kill_factory(&mut self, site: usize) {
        kill(self.factories.remove(&site).map(|factory| factory.process));
    }

    pub(super) fn signal_factory(&self, site: usize, signal: Signal) {
        self.factories.get(&site).iter().for_each(|factory| processes::send(signal, &factory.process));
    }

    /// Makes the wall clock of a host wrong by so many seconds.
    pub(super) fn shift_clock(&self, host: &str, seconds: i64) {
        std::fs::write(self.path(&format!("{host}.shift")), (seconds * 1_000).to_string()).unwrap();
    }

    /// The broker dies, and loses its data.
    pub(super) fn wipe_broker(&mut self) {
        let broker = self.broker.as_mut().unwrap();
        broker.kill();
        broker.delete_data();
    }

    pub(super) fn resume_broker(&mut self) {
        let broker = self.broker.as_mut().unwrap();
        self.network.within(BROKER, || {
            broker.kill();
            broker.resume();
        });
    }

    /// Everything runs again, at each site a factory.
    pub(super) fn restore(&mut self) {
        self.network.heal();
        for host in COORDINATORS.iter().chain(&SITES) {
            self.shift_clock(host, 0);
        }
        for n in 0..COORDINATORS.len() {
            self.signal_coordinator(n, Signal::CONT);
            self.start_coordinator(n);
        }
        for site in 0..SITES.len() {
            self.signal_factory(site, Signal::CONT);
            if !self.factories.contains_key(&site) {
                self.join(site);
            }
        }
    }

    /// The events, as an operator sees them.
    fn follow_events(&mut self) {
        let token = self.token().unwrap();
        let mut command = self.command(OPERATOR, "events.log");
        let out = std::fs::File::create(self.path("events.json")).unwrap();
        command.args(["events", "--follow", "--json"]).env("GIGA_TOKEN", token).stdout(out);
        self.follower = Some(command.spawn().unwrap());
        // It follows from now on; the first jobs come after it.
        self.clock_sleep(Duration::from_secs(1));
    }

    pub(super) fn clock_sleep(&self, span: Duration) {
        std::thread::sleep(span);
    }

    /// What the operator saw so far, line by line.
    pub(super) fn events(&self) -> String {
        std::fs::read_to_string(self.path("events.json")).unwrap_or_default()
    }

    /// What the engines wrote down, in the order in which they did.
    pub(super) fn journal(&self) -> String {
        std::fs::read_to_string(self.path("journal")).unwrap_or_default()
    }

    /// Which jobs were merged, each as often as it was.
    pub(super) fn merged(&self) -> Vec<String> {
        repository::merged_jobs(&self.path("work.git"))
    }

    fn token(&self) -> Option<String> {
        let kept = (0..2).find_map(|n| std::fs::read_to_string(self.path(&format!("data-{n}/admin.token"))).ok());
        kept.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
    }

    fn try_giga(&self, args: &[&str]) -> Option<String> {
        let mut command = self.command(OPERATOR, "command.log");
        command.args(args).env("GIGA_TOKEN", self.token()?).stdout(Stdio::piped());
        let ran = command.output().unwrap();
        ran.status.success().then(|| String::from_utf8(ran.stdout).unwrap())
    }

    pub(super) fn giga(&self, args: &[&str]) -> String {
        self.insist(&format!("{args:?}"), |fleet| fleet.try_giga(args))
    }

    /// A client of both coordinators with the admin's token.
    pub(super) fn client(&self) -> Client {
        let token = self.token().unwrap();
        Client::new(Endpoint { base: self.api(), token, product: None, trust: Trust::Public }).unwrap()
    }

    /// Which coordinator says that it leads; asked as a probe would.
    pub(super) fn leader(&self) -> Option<usize> {
        (0..COORDINATORS.len()).find(|n| self.health(*n).is_some_and(|health| health["role"] == "leader"))
    }

    /// How often the leadership has changed, as the coordinators that answer know it.
    pub(super) fn term(&self) -> u64 {
        let terms = (0..COORDINATORS.len()).filter_map(|n| self.health(n)?["term"].as_u64());
        terms.max().unwrap_or_default()
    }

    fn health(&self, n: usize) -> Option<serde_json::Value> {
        use std::io::{Read, Write};
        let address = (self.network.address(COORDINATORS[n]), PORT).into();
        let mut stream = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        let host = self.network.address(COORDINATORS[n]);
        write!(stream, "GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    fn connected(&self) -> usize {
        let Some(listed) = self.try_giga(&["factory", "list", "--json"]) else { return 0 };
        let listed: FactoryList = serde_json::from_str(&listed).unwrap();
        listed.items.iter().filter(|factory| factory.connected).count()
    }

    pub(super) fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        assert!(processes::becomes_so(PATIENCE, || is_so(self)), "waited too long for {what}\n{}", self.logs());
    }

    fn insist<A>(&self, what: &str, mut ask: impl FnMut(&Self) -> Option<A>) -> A {
        let mut answer = None;
        self.until(what, |fleet| {
            answer = ask(fleet);
            answer.is_some()
        });
        answer.unwrap()
    }

    /// The end of every log.
    pub(super) fn logs(&self) -> String {
        let mut names: Vec<_> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".log"))
            .collect();
        names.sort();
        let tail = |name: &String| {
            let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            format!("--- {name}\n{}\n", lines[lines.len().saturating_sub(40)..].join("\n"))
        };
        names.iter().map(tail).collect()
    }

    /// Ends every process, and fails if one of this fleet is left.
    pub(super) fn end(&mut self) {
        self.kill_all();
        let is_gone = processes::becomes_so(PATIENCE, || processes::naming(self.folder.path()).is_empty());
        assert!(is_gone, "left behind: {:?}", processes::naming(self.folder.path()));
    }

    fn kill_all(&mut self) {
        kill(self.follower.take());
        while let Some((_, factory)) = self.factories.pop_first() {
            kill(Some(factory.process));
        }
        self.coordinators.iter_mut().for_each(|child| kill(child.take()));
    }
}

impl Drop for NetworkFleet {
    fn drop(&mut self) {
        self.kill_all();
        self.broker = None;
        self.database = None;
    }
}

fn kill(child: Option<Child>) {
    if let Some(mut child) = child {
        // A process that a test has stopped dies all the same.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Submits a job until it is acknowledged; its key makes it one job.
pub(super) async fn submit(client: &Client, number: usize) -> Option<JobId> {
    let request = SubmitRequest {
        body_md: format!("---\ntitle: job {number}\nrepo: work\n---\nDo some work.\n"),
        idempotency_key: Some(format!("job-{number}")),
        ..SubmitRequest::default()
    };
    let submitted: Result<SubmitResponse, _> = client.post("/jobs", &request).await;
    submitted.ok().map(|submitted| submitted.job.id)
}

/// All jobs, or nothing while no coordinator answers.
pub(super) async fn jobs(client: &Client) -> Option<Vec<JobView>> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let list: JobList = client.get(&format!("/jobs?limit=200{cursor}")).await.ok()?;
        all.extend(list.items);
        let Some(next) = list.next else { return Some(all) };
        cursor = format!("&cursor={next}");
    }
}

pub(super) async fn pause(clock: &SystemClock, span: Duration) {
    clock.sleep(span).await;
}
