//! `giga up --demo`: a fleet with work of its own, on a scratch repository, so that a stranger sees all of it at once.

mod on_demand;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use client::{Client, Endpoint, Trust};
use clock::SystemClock;
use domain::{BudgetSettings, Clock, EventKind, JobEvent, JobId, ProductId, StageName, TokenScope, VoteDecision};
use http::Method;
use protocol::{
    BudgetView, CreateTokenRequest, CreateTokenResponse, JobDetail, JobView, PlanRequest, PlanResponse,
    ProductSettings, SubmitRequest, SubmitResponse, VoteRequest,
};
use tokio_util::sync::CancellationToken;

use super::board::ProgressDisplay;
use super::coordinator::CoordinatorProcess;
use super::demo_agent;
use super::signals;
use super::tally::DemoSummary;
use super::workers::{CurrentCoordinator, FactoryProcess, LocalApi};
use crate::cli::{GlobalArgs, UpArgs};
use crate::config::{Config, Overrides};
use crate::output::Output;

/// One sample job: its key, and its manifest.
struct Sample {
    key: &'static str,
    manifest: &'static str,
}

/// What the demo shows, in the order in which it is submitted.
const SAMPLES: [Sample; 6] = [
    Sample { key: "hello", manifest: include_str!("demo/hello.md") },
    Sample { key: "stumbles", manifest: include_str!("demo/stumbles.md") },
    Sample { key: "survivor", manifest: include_str!("demo/survivor.md") },
    Sample { key: "door", manifest: include_str!("demo/door.md") },
    Sample { key: "hedge", manifest: include_str!("demo/hedge.md") },
    Sample { key: "lawn", manifest: include_str!("demo/lawn.md") },
];

/// The job that gives its seat to the critical one, submitted once the killed factory is back.
const PATIENT: Sample = Sample { key: "shed", manifest: include_str!("demo/shed.md") };

/// The critical job, submitted once the other one has saved something.
const CRITICAL: Sample = Sample { key: "leak", manifest: include_str!("demo/leak.md") };

/// The repository of both. The fleet runs one job in it at a time.
const SHED: &str = "shed";

/// The plan, submitted after them: it becomes a tree of jobs.
const PLAN: &str = include_str!("demo/house.md");

/// The job whose factory is killed half-way.
const SURVIVOR: usize = 2;

/// The job that waits for a review.
const REVIEWED: usize = 3;

/// The job that waits for money.
const UNPAID: usize = 5;

/// The person that reviews: the author of a job cannot.
const REVIEWER: &str = "grace";

/// The product with a budget: its ceiling, which pays for one of its jobs, and the one that it gets then.
const GARDEN: &str = "garden";
const CEILING_USD: f64 = 0.5;
const RAISED_USD: f64 = 5.0;

/// The introduction that the demo prints.
const ANNOUNCEMENT: &str = "\
This demo takes about 20 seconds, leaves nothing behind, and shows:
  - jobs on two factories, each verified and merged into its repository
  - a plan that becomes a tree of jobs: each waits until the one before it is merged
  - a job whose first attempt fails: it is retried
  - a factory that is killed with kill -9 in the middle of its work: when its lease expires, the other one takes its jobs
    over and resumes from the last checkpoint
  - a job that waits for a review: `grace` sends it back once with a comment, then approves it
  - a product that spends its budget: its next job waits for money until the ceiling is raised
  - a critical job that finds no seat: a less important one saves its work, makes room, and continues afterwards
";

/// The names of the demo's factories.
const FACTORIES: [&str; 2] = ["east", "west"];

/// How long the demo's work may take before something is wrong.
const PATIENCE: Duration = Duration::from_mins(3);

/// Prepares the demo, runs the fleet, and keeps running until it is stopped.
pub(super) async fn run(args: &UpArgs, out: &Output) -> anyhow::Result<()> {
    if let Some(max) = args.pool {
        return on_demand::run(args, max, out).await;
    }
    let stop = signals::stop_on_signal();
    let scene = DemoFiles::set(args)?;
    let coordination = CoordinatorProcess::open(&scene.config, &stop).await?;
    let workers = FACTORIES.map(|name| name.parse().map(FactoryProcess::new));
    let [east, west] = workers;
    let workers = [east?, west?];
    let (coordinator, api) = (CurrentCoordinator::new(&coordination.coordinator), coordination.api.clone());
    out.note(ANNOUNCEMENT);
    out.note(&format!(
        "a demo fleet: coordinator at {api}, factories `east` and `west`, repository {}",
        scene.repo.display()
    ));
    out.note(&coordination.browser_note(&scene.config)?);
    // The coordinator outlives its factories, so that they can give back what they hold.
    let served = CancellationToken::new();
    let fleet = async {
        let [east, west] = &workers;
        let (east, west) = tokio::join!(
            east.run(&scene.config, &coordinator, LocalApi { url: &api, certificate: None }, stop.clone()),
            west.run(&scene.config, &coordinator, LocalApi { url: &api, certificate: None }, stop.clone())
        );
        served.cancel();
        east.and(west)
    };
    let act = DemoDisplay { scene: &scene, workers: &workers, out };
    let show = async {
        let shown = tokio::select! {
            shown = act.play(&api) => shown,
            () = stop.cancelled() => Ok(()),
        };
        if shown.is_err() {
            stop.cancel();
        }
        shown
    };
    let (ran, worked, shown) =
        tokio::join!(coordination.run_on(&scene.config, served.clone(), |next| coordinator.replace(next)), fleet, show);
    shown.and(worked).and(ran)
}

/// Everything on disk that the demo needs: a directory of its own, a repository, a configuration.
struct DemoFiles {
    root: PathBuf,
    repo: PathBuf,
    config: Config,
}

impl DemoFiles {
    fn set(args: &UpArgs) -> anyhow::Result<Self> {
        let root = std::env::temp_dir().join(format!("giga-demo-{}", std::process::id()));
        sandbox::make_private_folder(&root)
            .with_context(|| format!("cannot create the demo's directory {}", root.display()))?;
        let repo = root.join("house.git");
        for bare in [&repo, &root.join("shed.git")] {
            make_repository(&root, bare)?;
        }
        let file = root.join("giga.toml");
        std::fs::write(&file, configuration(&root, &repo)?)?;
        std::fs::write(root.join("own.md"), include_str!("demo/own.md"))?;
        std::fs::create_dir(root.join("profiles"))?;
        std::fs::write(root.join("profiles/builder.md"), include_str!("demo/builder.md"))?;
        let global = GlobalArgs { config: Some(file), ..GlobalArgs::default() };
        // A demo leaves nothing behind: a database that the settings name is not its place.
        let store = args.serve.store.clone().or_else(|| Some("sqlite".to_owned()));
        let own = Overrides { listen: args.serve.listen, store, ..Overrides::default() };
        let config = Config::load(&global, own).map_err(|failure| anyhow::anyhow!("{}", failure.message()))?;
        Ok(Self { root, repo, config })
    }
}

/// A bare repository with one commit, as a forge would have it.
fn make_repository(root: &Path, repo: &Path) -> anyhow::Result<()> {
    let seed = root.join("seed");
    git(root, &["init", "--quiet", "--bare", "--initial-branch=main", &repo.to_string_lossy()])?;
    git(root, &["init", "--quiet", "--initial-branch=main", &seed.to_string_lossy()])?;
    std::fs::write(seed.join("README.md"), "# A house\n\nBuilt by agents, one job at a time.\n")?;
    git(&seed, &["add", "README.md"])?;
    git(&seed, &["commit", "--quiet", "--message", "An empty lot"])?;
    git(&seed, &["push", "--quiet", &repo.to_string_lossy(), "main"])?;
    std::fs::remove_dir_all(&seed)?;
    Ok(())
}

fn git(dir: &Path, args: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=Gigafactory", "-c", "user.email=gigafactory@localhost", "-c", "commit.gpgSign=false"])
        .args(args)
        .status()
        .context("git is needed for the demo: install git 2.38 or newer")?;
    anyhow::ensure!(status.success(), "`git {}` failed", args.join(" "));
    Ok(())
}

/// Short times, so that a killed factory is noticed while the user watches.
fn configuration(root: &Path, repo: &Path) -> anyhow::Result<String> {
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let quoted = |path: &Path| toml::Value::String(path.to_string_lossy().into_owned()).to_string();
    Ok(format!(
        "data = {data}\n\
         [coordinator]\nlisten = \"127.0.0.1:0\"\nlease_ttl = \"5s\"\nrenew_every = \"1s\"\nstale_after = \"4s\"\naccept_within = \"3s\"\n\
         budgets = true\npreemption = true\npreemption_grace = \"3s\"\n\
         [factory]\nseats = 3\ncheckpoint_every = \"1s\"\n\
         [factory.repos.house]\nurl = {repo}\n\
         [factory.repos.{SHED}]\nurl = {shed}\n\
         [factory.engines.demo]\nargv = [{exe}, \"__demo-agent\"]\n\
         reads = {{ cost_usd = {{ regex = 'cost so far: \\$([0-9.]+)' }} }}\n\
         [log]\nlevel = \"error\"\n",
        data = quoted(&root.join("data")),
        repo = quoted(repo),
        shed = quoted(&root.join("shed.git")),
        exe = quoted(&exe),
    ))
}

/// The output at the terminal.
struct DemoDisplay<'a> {
    scene: &'a DemoFiles,
    workers: &'a [Arc<FactoryProcess>],
    out: &'a Output,
}

impl DemoDisplay<'_> {
    /// Submits the samples, kills a factory half-way, waits until all jobs have finished, prints what to try next.
    async fn play(&self, api: &str) -> anyhow::Result<()> {
        let clock = SystemClock::new();
        let client = self.client(api)?;
        self.wait_for_factories(&client, &clock).await?;
        let ships = ProductSettings { auto_ship: Some(true), ..ProductSettings::default() };
        for product in [ProductId::default_product().as_str(), GARDEN] {
            let _: domain::Product = client.call(Method::PUT, &format!("/products/{product}"), Some(&ships)).await?;
        }
        let one_by_one =
            ProductSettings { repo_seats: Some(BTreeMap::from([(SHED.parse()?, 1)])), ..ProductSettings::default() };
        let path = format!("/products/{}", ProductId::default_product());
        let _: domain::Product = client.call(Method::PUT, &path, Some(&one_by_one)).await?;
        set_ceiling(&client, CEILING_USD).await?;
        let reviewer = self.reviewer(api, &client).await?;
        let mut stream = client.events("/events/stream", None).await?;
        let mut board = ProgressDisplay::new(clock.now());
        let mut jobs = Vec::new();
        for sample in &SAMPLES {
            let job = submit(&client, sample).await?;
            board.add(job.job.id, &job.job.title, job.job.stage);
            jobs.push(job.job.id);
        }
        let plan = PlanRequest { body_md: PLAN.to_owned(), ..PlanRequest::default() };
        let tree: PlanResponse = client.post("/plans", &plan).await.context("cannot submit the demo's plan")?;
        for job in tree.jobs {
            let (Some(id), Some(stage)) = (job.id, job.stage) else { continue };
            board.add(id, &job.title, stage);
            jobs.push(id);
        }
        board.show_first_checkpoint_of(jobs[SURVIVOR]);
        let mut kill = Kill { job: jobs[SURVIVOR], victim: None };
        let mut seat = SeatStory::default();
        let mut events = Vec::new();
        let watched = tokio::time::timeout(PATIENCE, async {
            while !board.is_at_rest() {
                let Some(event) = stream.next().await? else {
                    anyhow::bail!("the coordinator closed the event stream")
                };
                let Ok(event) = serde_json::from_str::<JobEvent>(&event.data) else { continue };
                board.show(&event);
                if let Some(word) = self.interfere(&mut kill, &event, &client).await? {
                    board.say(event.at, &word);
                }
                if event.job_id == jobs[REVIEWED] && event.stage == StageName::Review {
                    review(&reviewer, &event).await?;
                }
                if event.job_id == jobs[UNPAID]
                    && event.kind == EventKind::Unblocked
                    && let Some(word) = raise_ceiling(&client, &clock, event.job_id).await?
                {
                    board.say(clock.now(), &word);
                }
                if let Some(job) = seat.next(&kill, &event, &client).await? {
                    board.add(job.id, &job.title, job.stage);
                    jobs.push(job.id);
                }
                events.push(event);
            }
            Ok(())
        });
        watched.await.context("the demo's jobs did not finish in time: see `giga alerts`")??;
        board.finish();
        let tally = self.tally(&client, &jobs, &events, &kill).await?;
        self.out.note(&format!("\n{}", tally.text()));
        self.say_what_next(&jobs);
        std::future::pending().await
    }

    fn client(&self, api: &str) -> anyhow::Result<Client> {
        let token = std::fs::read_to_string(self.scene.config.data.admin_token())?;
        client_of(api, token.trim())
    }

    /// The client of the person that reviews.
    async fn reviewer(&self, api: &str, admin: &Client) -> anyhow::Result<Client> {
        let request = CreateTokenRequest {
            name: REVIEWER.to_owned(),
            grant: TokenScope::Operator { products: BTreeSet::new() },
            ttl_seconds: None,
            owner: Some(REVIEWER.to_owned()),
            forge_login: None,
        };
        let made: CreateTokenResponse = admin.post("/tokens", &request).await?;
        client_of(api, &made.secret)
    }

    async fn wait_for_factories(&self, client: &Client, clock: &SystemClock) -> anyhow::Result<()> {
        loop {
            if let Ok(fleet) = client.get::<protocol::FactoryList>("/factories").await {
                let is_ready = |factory: &&protocol::FactoryView| factory.connected;
                if fleet.items.iter().filter(is_ready).count() == self.workers.len() {
                    return Ok(());
                }
            }
            clock.sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills the survivor's factory once there is something to resume, and lets it come back once another has the job.
    async fn interfere(&self, kill: &mut Kill, event: &JobEvent, client: &Client) -> anyhow::Result<Option<String>> {
        if event.job_id != kill.job {
            return Ok(None);
        }
        match (event.kind, &kill.victim) {
            (EventKind::Checkpointed, None) => {
                let detail: JobDetail = client.get(&format!("/jobs/{}", kill.job)).await?;
                let holder = detail.job.holder_factory_id;
                let Some(worker) = self.workers.iter().find(|worker| Some(worker.name()) == holder.as_ref()) else {
                    return Ok(None);
                };
                worker.kill_and_hold_down();
                kill.victim = Some(Arc::clone(worker));
                Ok(Some(format!(
                    "killed factory `{}` with kill -9: its work is saved, its lease will expire",
                    worker.name()
                )))
            }
            (EventKind::Granted, Some(victim)) => {
                victim.release();
                Ok(Some(format!("another factory resumes from the checkpoint; `{}` comes back", victim.name())))
            }
            _ => Ok(None),
        }
    }

    /// The summary of the demo.
    async fn tally(
        &self,
        client: &Client,
        jobs: &[JobId],
        events: &[JobEvent],
        kill: &Kill,
    ) -> anyhow::Result<DemoSummary> {
        let mut resumed_steps = 0;
        for id in DemoSummary::interrupted_jobs(events) {
            resumed_steps += DemoSummary::steps_found(&client.get_text(&format!("/jobs/{id}/logs")).await?);
        }
        let mut cost_usd = 0.0;
        for product in [ProductId::default_product().as_str(), GARDEN] {
            cost_usd += client.get::<BudgetView>(&format!("/budgets/{product}")).await?.spent_usd;
        }
        Ok(DemoSummary {
            cost_usd,
            kills: usize::from(kill.victim.is_some()),
            resumed_steps,
            ..DemoSummary::of(jobs, events)
        })
    }

    /// Lines that can be pasted as they are: a function instead of variables, which would outlive the demo, and no comments,
    /// which some shells do not take from a keyboard.
    fn say_what_next(&self, jobs: &[JobId]) {
        let first = jobs.get(SURVIVOR).map(ToString::to_string).unwrap_or_default();
        let giga = std::env::current_exe().unwrap_or_else(|_| "giga".into());
        let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
        let own = self.scene.root.join("own.md");
        self.out.note(&format!(
            "\nAll jobs have finished. The fleet stays up; stop it with Ctrl-C.\n\
             Paste into another terminal; the last line submits one more job:\n\n  \
             demo() {{ {giga} --data {data} \"$@\"; }}\n  demo jobs\n  demo job {first}\n  demo logs {first}\n  \
             demo explain {first}\n  demo budget show\n  demo sign-in\n  git -C {repo} log --oneline --graph main\n  \
             demo submit {own} --wait\n",
            giga = quoted(&giga),
            data = quoted(self.scene.config.data.path()),
            repo = quoted(&self.scene.repo),
            own = quoted(&own),
        ));
    }
}

fn client_of(api: &str, token: &str) -> anyhow::Result<Client> {
    let endpoint = Endpoint { base: api.to_owned(), token: token.to_owned(), product: None, trust: Trust::Public };
    Ok(Client::new(endpoint)?)
}

/// Votes as the second person: the first work is sent back with a comment, the next one is approved.
async fn review(reviewer: &Client, event: &JobEvent) -> anyhow::Result<()> {
    // Only the completion: the vote itself and the promotion are events of this stage too.
    if event.kind != EventKind::Completed {
        return Ok(());
    }
    let path = format!("/jobs/{}", event.job_id);
    let detail: JobDetail = reviewer.get(&path).await?;
    let Some(review) = detail.job.review else { return Ok(()) };
    let is_first = review.run == 1;
    let vote = VoteRequest {
        decision: if is_first { VoteDecision::Changes } else { VoteDecision::Approve },
        sha: review.sha,
        run: None,
        comment: is_first.then(|| demo_agent::COMMENT.to_owned()),
    };
    let _: JobView = reviewer.post(&format!("{path}/review"), &vote).await?;
    Ok(())
}

async fn set_ceiling(client: &Client, usd: f64) -> anyhow::Result<()> {
    let budget = BudgetSettings { ceiling_usd: Some(usd), ..BudgetSettings::default() };
    let _: BudgetView = client.call(Method::PUT, &format!("/budgets/{GARDEN}"), Some(&budget)).await?;
    Ok(())
}

/// Raises the ceiling once a queued job waits for money; a line that says so.
async fn raise_ceiling(client: &Client, clock: &SystemClock, job: JobId) -> anyhow::Result<Option<String>> {
    loop {
        let detail: JobDetail = client.get(&format!("/jobs/{job}")).await?;
        // A read may be older than the event. An offer that there is no money for is refused, and the job is queued again.
        if !matches!(detail.job.stage, StageName::Blocked | StageName::Queued | StageName::Assigned) {
            return Ok(None);
        }
        if let Some(wait) = detail.job.waiting.filter(|wait| wait.code == "waits_for_money") {
            set_ceiling(client, RAISED_USD).await?;
            let (what, raised) = (wait.text.split(';').next().unwrap_or_default(), domain::dollars(RAISED_USD));
            return Ok(Some(format!("{what}; its ceiling is raised to {raised}")));
        }
        clock.sleep(Duration::from_millis(50)).await;
    }
}

/// The two jobs that need the same seat.
#[derive(Default)]
struct SeatStory {
    patient: Option<JobId>,
    is_complete: bool,
}

impl SeatStory {
    /// Submits the less important job after the takeover, and the critical one when the first has saved something.
    async fn next(&mut self, kill: &Kill, event: &JobEvent, client: &Client) -> anyhow::Result<Option<JobView>> {
        let is_taken_over = event.job_id == kill.job && event.kind == EventKind::Granted && kill.victim.is_some();
        if self.patient.is_none() && is_taken_over {
            let job = submit(client, &PATIENT).await?.job;
            self.patient = Some(job.id);
            return Ok(Some(job));
        }
        let has_saved = self.patient == Some(event.job_id) && event.kind == EventKind::Checkpointed;
        if self.is_complete || !has_saved {
            return Ok(None);
        }
        self.is_complete = true;
        Ok(Some(submit(client, &CRITICAL).await?.job))
    }
}

/// The one cruelty of the demo.
struct Kill {
    job: JobId,
    victim: Option<Arc<FactoryProcess>>,
}

async fn submit(client: &Client, sample: &Sample) -> anyhow::Result<SubmitResponse> {
    let request = SubmitRequest {
        body_md: sample.manifest.to_owned(),
        idempotency_key: Some(format!("demo-{}", sample.key)),
        ..SubmitRequest::default()
    };
    client.post("/jobs", &request).await.with_context(|| format!("cannot submit the demo's job `{}`", sample.key))
}

impl Drop for DemoFiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
