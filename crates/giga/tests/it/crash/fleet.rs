//! A fleet of real processes on one machine, with everything it does written down outside of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use client::{Client, Endpoint, Trust};
use clock::SystemClock;
use domain::{Clock, JobId, Mode, StageName};
use protocol::{DrainRequest, FactoryList, FactoryView, JobList, JobView, SubmitRequest, SubmitResponse};
use rustix::process::Signal;

use crate::{processes, repository};

/// How long anything may take before the test gives up on it.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// The processes and what they leave behind.
pub(super) struct Fleet {
    folder: tempfile::TempDir,
    port: u16,
    coordinator: Option<Child>,
    factories: Vec<Option<Child>>,
    clock: SystemClock,
}

/// A step at which a process kills itself, counted from its start; with `~` before its name it only stops there.
#[derive(Debug, Clone, Copy)]
pub(super) struct KillAt(pub(super) &'static str, pub(super) u32);

impl Fleet {
    /// Lays everything out on disk. Nothing runs yet.
    pub(super) fn new(factories: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let fleet = Self {
            folder,
            port,
            coordinator: None,
            factories: (0..factories).map(|_| None).collect(),
            clock: SystemClock::new(),
        };
        repository::make(fleet.folder.path(), "work");
        fleet.write_engine();
        std::fs::write(fleet.path("giga.toml"), fleet.configuration()).unwrap();
        fleet
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The engine writes down that it ran before it does anything else.
    fn write_engine(&self) {
        let script = format!(
            "#!/bin/sh\n\
             echo \"$GIGA_JOB_ID:$GIGA_EPOCH\" >> '{journal}'\n\
             pwd >> '{places}'\n\
             mine=\"progress-$GIGA_JOB_ID\"\n\
             if [ -f \"$mine\" ]; then echo \"$GIGA_JOB_ID:$GIGA_EPOCH\" >> '{resumed}'; fi\n\
             cat > prompt-$GIGA_JOB_ID\n\
             if grep -q 'fail on your first attempt' prompt-$GIGA_JOB_ID && [ \"$GIGA_ATTEMPT\" = 1 ]; then exit 1; fi\n\
             if grep -q 'begin, then' prompt-$GIGA_JOB_ID; then echo begun >> \"$mine\"; fi\n\
             while grep -q 'wait for the signal' prompt-$GIGA_JOB_ID && [ ! -f '{signal}' ]; do sleep 0.05; done\n\
             if grep -q 'beat until the signal' prompt-$GIGA_JOB_ID; then sh '{beat}'; fi\n\
             for step in 1 2 3 4; do echo $step >> \"$mine\"; sleep 0.1; done\n\
             echo done > \"out-$GIGA_JOB_ID\"\n",
            journal = self.path("journal").display(),
            places = self.path("places").display(),
            resumed = self.path("resumed").display(),
            signal = self.path("signal").display(),
            beat = self.path("beat.sh").display(),
        );
        std::fs::write(self.path("engine.sh"), script).unwrap();
        // Prints repeatedly that it runs, and ignores SIGTERM.
        let beat = format!(
            "trap '' TERM\nwhile [ ! -f '{signal}' ]; do echo \"$GIGA_EPOCH\" >> '{beats}'; sleep 0.05; done\n",
            signal = self.path("signal").display(),
            beats = self.path("beats").display(),
        );
        std::fs::write(self.path("beat.sh"), beat).unwrap();
        // The fleet's data lies beside them: an engine finds what is there, and could make nothing new.
        for name in ["journal", "places", "resumed", "beats"] {
            std::fs::write(self.path(name), "").unwrap();
        }
    }

    /// Short times, so that two hundred deaths fit into two minutes; high limits, so that none of them is the job's fault.
    fn configuration(&self) -> String {
        format!(
            "data = '{data}'\n\
             [coordinator]\nlisten = '127.0.0.1:{port}'\nlease_ttl = '3s'\nrenew_every = '500ms'\nstale_after = '3s'\n\
             accept_within = '1500ms'\nerrand_within = '4s'\ndisk_free_min_mib = 0\n\
             [coordinator.retry]\nattempts_max = 1000\nbackoff = '100ms'\nlost_leases_max = 1000\nunaccepted_max = 1000\n\
             [factory]\nseats = 3\npoll_every = '1s'\ncheckpoint_every = '150ms'\ndisk_floor_mib = 0\n\
             [factory.repos.work]\nurl = '{repo}'\n\
             [factory.engines.journal]\nargv = ['sh', '{engine}']\n\
             [factory.limits]\ngrace_ms = 300\n\
             [log]\nlevel = 'info'\n",
            data = self.path("data").display(),
            port = self.port,
            repo = self.path("work.git").display(),
            engine = self.path("engine.sh").display(),
        )
    }

    fn giga(&self, log: &str) -> Command {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path(log)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_giga"));
        command.arg("--config").arg(self.path("giga.toml"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        command
    }

    /// Runs a command to its end.
    pub(super) fn run(&self, args: &[&str], kill_at: Option<KillAt>) -> Output {
        let mut command = self.giga("command.log");
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        arm(&mut command, kill_at);
        command.output().unwrap()
    }

    /// Starts a command that may never end by itself.
    pub(super) fn start(&self, args: &[&str]) -> Child {
        self.giga("command.log").args(args).spawn().unwrap()
    }

    /// Ends a command that nothing more is wanted of.
    pub(super) fn give_up(command: Child) {
        kill(Some(command));
    }

    /// Waits until the coordinator has ended by itself.
    pub(super) async fn until_coordinator_dies(&mut self) {
        let deadline = self.clock.monotonic() + PATIENCE;
        while !self.is_coordinator_dead() {
            assert!(self.clock.monotonic() < deadline, "the coordinator lives\n{}", self.logs());
            self.clock.sleep(Duration::from_millis(20)).await;
        }
    }

    /// Lets every engine that waits for it go on.
    pub(super) fn give_the_signal(&self) {
        std::fs::write(self.path("signal"), "go").unwrap();
    }

    pub(super) fn start_coordinator(&mut self, kill_at: Option<KillAt>) {
        let mut command = self.giga("coordinator.log");
        command.arg("serve");
        arm(&mut command, kill_at);
        self.coordinator = Some(command.spawn().unwrap());
    }

    /// Starts a factory unless it runs; the first time it enrols, which needs a coordinator that answers.
    pub(super) async fn start_factory(&mut self, index: usize, kill_at: Option<KillAt>) {
        if self.factories[index].is_some() && !self.is_factory_dead(index) {
            return;
        }
        let name = format!("factory-{index}");
        let state = self.path(&name);
        let mut command = self.giga(&format!("{name}.log"));
        command.args(["factory", "run", "--name"]).arg(&name).arg("--state").arg(&state);
        command.env("GIGA_API", self.base());
        if !state.join("factory.token").exists() {
            command.env("GIGA_JOIN", self.join_token(&name).await);
        }
        arm(&mut command, kill_at);
        self.factories[index] = Some(command.spawn().unwrap());
    }

    pub(super) fn kill_coordinator(&mut self) {
        kill(self.coordinator.take());
    }

    pub(super) fn kill_factory(&mut self, index: usize) {
        kill(self.factories[index].take());
    }

    /// Whether the coordinator has ended by itself.
    pub(super) fn is_coordinator_dead(&mut self) -> bool {
        self.coordinator.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some())
    }

    /// Whether a factory has ended by itself.
    pub(super) fn is_factory_dead(&mut self, index: usize) -> bool {
        self.factories[index].as_mut().is_some_and(|child| child.try_wait().unwrap().is_some())
    }

    /// Waits until every factory listens to the coordinator.
    pub(super) async fn until_all_connected(&self) {
        let client = self.client().await;
        let all = self.factories.len();
        let connected = async || {
            let fleet: FactoryList = client.get("/factories").await.ok()?;
            (fleet.items.iter().filter(|factory| factory.connected).count() == all).then_some(())
        };
        self.insist(connected).await;
    }

    /// Makes the factories deaf: they stay connected and do nothing.
    pub(super) fn freeze_factories(&self) {
        self.factories.iter().flatten().for_each(|child| processes::send(Signal::STOP, child));
    }

    /// Makes one factory deaf; its engines go on.
    pub(super) fn freeze_factory(&self, index: usize) {
        self.factories[index].iter().for_each(|child| processes::send(Signal::STOP, child));
    }

    /// Whether a factory has come to a step at which it stops.
    pub(super) fn is_factory_stopped(&self, index: usize) -> bool {
        let pid = self.factories[index].as_ref().map(Child::id).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
    }

    /// Lets frozen factories go on.
    pub(super) fn thaw_factories(&self) {
        self.factories.iter().flatten().for_each(|child| processes::send(Signal::CONT, child));
    }

    /// Ends every process, and fails if one of this fleet is left.
    pub(super) fn end(&mut self) {
        self.kill_all();
        let is_gone = processes::becomes_so(PATIENCE, || processes::naming(self.folder.path()).is_empty());
        assert!(is_gone, "left behind: {:?}", processes::naming(self.folder.path()));
    }

    fn kill_all(&mut self) {
        for child in self.factories.iter_mut().map(Option::take).chain([self.coordinator.take()]) {
            kill(child);
        }
    }

    pub(super) fn factories(&self) -> usize {
        self.factories.len()
    }

    fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A client with the admin's token, once there is one.
    pub(super) async fn client(&self) -> Client {
        let path = self.path("data").join("admin.token");
        self.until("the first token", || std::fs::read_to_string(&path).is_ok_and(|token| !token.is_empty())).await;
        let token = std::fs::read_to_string(&path).unwrap().trim().to_owned();
        Client::new(Endpoint { base: self.base(), token, product: None, trust: Trust::Public }).unwrap()
    }

    async fn join_token(&self, name: &str) -> String {
        let request = serde_json::json!({ "name": name, "grant": { "role": "join", "factory": name } });
        let client = self.client().await;
        let made: serde_json::Value =
            self.insist(async || client.post::<_, serde_json::Value>("/tokens", &request).await.ok()).await;
        made["secret"].as_str().unwrap().to_owned()
    }

    /// Ships by itself whatever is done.
    pub(super) async fn ship_by_itself(&self) {
        let client = self.client().await;
        let settings = serde_json::json!({ "autoShip": true });
        let path = "/products/default";
        let put = async || client.call::<_, serde_json::Value>(http::Method::PUT, path, Some(&settings)).await.ok();
        self.insist(put).await;
    }

    /// Limits what the product may spend, and enforces it.
    pub(super) async fn limit_money(&self, ceiling_usd: f64) {
        let settings = domain::BudgetSettings { ceiling_usd: Some(ceiling_usd), ..Default::default() };
        let modes = domain::DispatchModes { budgets: Some(true), ..Default::default() };
        let client = self.client().await;
        self.insist(async || client.call::<_, serde_json::Value>(http::Method::PUT, "/flags", Some(&modes)).await.ok())
            .await;
        let path = "/budgets/default";
        self.insist(async || client.call::<_, serde_json::Value>(http::Method::PUT, path, Some(&settings)).await.ok())
            .await;
    }

    /// Switches the whole fleet.
    pub(super) async fn switch(&self, mode: Mode) {
        let client = self.client().await;
        self.insist(async || client.set_mode(None, Some(mode)).await.ok()).await;
    }

    /// Drains a factory, or resumes it.
    pub(super) async fn drain(&self, index: usize, draining: bool) {
        let client = self.client().await;
        let path = format!("/factories/factory-{index}/drain");
        let request = DrainRequest { draining };
        self.insist(async || client.post::<_, FactoryView>(&path, &request).await.ok()).await;
    }

    /// The command that writes down that it runs until the signal is given.
    pub(super) fn beat_command(&self) -> String {
        format!("sh {}", self.path("beat.sh").display())
    }

    /// The epochs that wrote to the file of beats, in the order in which they did; each once for as long as it goes on.
    pub(super) fn beats(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("beats")).unwrap_or_default();
        let mut epochs: Vec<_> = text.lines().map(str::to_owned).collect();
        epochs.dedup();
        epochs
    }

    /// Makes factories that are started from now on run a command in each new worktree.
    pub(super) fn set_up_with(&self, command: &str) {
        let config =
            self.configuration().replace("[factory.engines", &format!("setup = ['{command}']\n[factory.engines"));
        std::fs::write(self.path("giga.toml"), config).unwrap();
    }

    /// Submits a job however often that takes; the key makes it one job.
    pub(super) async fn submit(&self, number: usize, prompt: &str) -> JobId {
        self.submit_with(number, "", prompt).await
    }

    /// The same with more lines in the front matter.
    pub(super) async fn submit_with(&self, number: usize, more: &str, prompt: &str) -> JobId {
        let client = self.client().await;
        let request = SubmitRequest {
            body_md: format!("---\ntitle: job {number}\nrepo: work\n{more}---\n{prompt}\n"),
            idempotency_key: Some(format!("job-{number}")),
            ..SubmitRequest::default()
        };
        let submitted: SubmitResponse = self.insist(async || client.post("/jobs", &request).await.ok()).await;
        submitted.job.id
    }

    /// All jobs, or nothing if the coordinator is away.
    pub(super) async fn jobs(&self) -> Option<Vec<JobView>> {
        let client = self.client().await;
        let list: JobList = client.get("/jobs?limit=1000").await.ok()?;
        Some(list.items)
    }

    /// Waits until every job has shipped, for as long as one ships after the other.
    pub(super) async fn until_all_shipped(&self, expected: &BTreeSet<JobId>) {
        let (mut so_far, mut deadline) = (0, self.clock.monotonic() + PATIENCE);
        loop {
            let jobs = self.jobs().await.unwrap_or_default();
            let shipped: BTreeSet<JobId> =
                jobs.iter().filter(|job| job.stage == StageName::Shipped).map(|job| job.id).collect();
            if shipped == *expected {
                return;
            }
            if shipped.len() > so_far {
                (so_far, deadline) = (shipped.len(), self.clock.monotonic() + PATIENCE);
            }
            if self.clock.monotonic() > deadline {
                let left: Vec<_> = jobs
                    .iter()
                    .filter(|job| job.stage != StageName::Shipped)
                    .map(|job| format!("{} {} {:?} {:?}", job.id, job.stage, job.message, job.errand))
                    .collect();
                panic!(
                    "{} of {} shipped; the rest:\n{}\n{}",
                    shipped.len(),
                    expected.len(),
                    left.join("\n"),
                    self.logs()
                );
            }
            self.clock.sleep(Duration::from_millis(100)).await;
        }
    }

    /// What the engine wrote down: how often each job ran under each epoch.
    pub(super) fn journal(&self) -> BTreeMap<String, usize> {
        let mut runs = BTreeMap::new();
        for line in std::fs::read_to_string(self.path("journal")).unwrap_or_default().lines() {
            *runs.entry(line.to_owned()).or_insert(0) += 1;
        }
        runs
    }

    /// How many runs found work that an earlier one had saved.
    pub(super) fn resumed(&self) -> usize {
        std::fs::read_to_string(self.path("resumed")).unwrap_or_default().lines().count()
    }

    /// Fails unless every job ran at least once, and never twice under one epoch, and its work is on `main` once.
    pub(super) fn assert_nothing_lost_or_doubled(&self, jobs: &BTreeSet<JobId>) {
        let journal = self.journal();
        let doubled: Vec<_> = journal.iter().filter(|(_, times)| **times > 1).collect();
        assert!(doubled.is_empty(), "ran twice under one epoch: {doubled:?}\n{}", self.logs());
        let ran: BTreeSet<&str> = journal.keys().filter_map(|line| line.split(':').next()).collect();
        let merged: BTreeSet<String> = repository::files(&self.path("work.git")).into_iter().collect();
        for job in jobs {
            assert!(ran.contains(job.to_string().as_str()), "job {job} never ran");
            assert!(merged.contains(&format!("out-{job}")), "the work of job {job} is not on main");
        }
    }

    pub(super) async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = self.clock.monotonic() + PATIENCE;
        while !is_so() {
            assert!(self.clock.monotonic() < deadline, "waited too long for {what}\n{}", self.logs());
            self.clock.sleep(Duration::from_millis(20)).await;
        }
    }

    /// The job as the coordinator sees it once it is so.
    pub(super) async fn until_job(&self, id: JobId, is_so: impl Fn(&JobView) -> bool) -> JobView {
        let found = async || self.jobs().await?.into_iter().find(|job| job.id == id && is_so(job));
        self.insist(found).await
    }

    pub(super) async fn pause(&self, span: Duration) {
        self.clock.sleep(span).await;
    }

    pub(super) async fn insist<A>(&self, ask: impl AsyncFn() -> Option<A>) -> A {
        let deadline = self.clock.monotonic() + PATIENCE;
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            assert!(self.clock.monotonic() < deadline, "the coordinator never answered\n{}", self.logs());
            self.clock.sleep(Duration::from_millis(50)).await;
        }
    }

    /// The end of every log, for a failure that has to be understood later.
    pub(super) fn logs(&self) -> String {
        let mut text = String::new();
        let factories = (0..self.factories.len()).map(|index| format!("factory-{index}.log"));
        for name in std::iter::once("coordinator.log".to_owned()).chain(factories) {
            let log = std::fs::read_to_string(self.path(&name)).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(60)..];
            text.push_str(&format!("--- {name}\n{}\n", tail.join("\n")));
        }
        text
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.kill_all();
    }
}

fn arm(command: &mut Command, kill_at: Option<KillAt>) {
    if let Some(KillAt(step, nth)) = kill_at {
        command.env("GIGA_KILL_AT", format!("{step}@{nth}"));
        if step.starts_with("dispatch::") {
            // A job that arrives alone is offered with its submit, and the dispatcher sees none of it.
            command.env("GIGA_GO_ROUND", "arrival::queued");
        }
    }
}

fn kill(child: Option<Child>) {
    if let Some(mut child) = child {
        let _ = child.kill();
        let _ = child.wait();
    }
}
