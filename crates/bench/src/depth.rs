//! What a million stored jobs add to the cost of an operation [P3].

use std::sync::Arc;
use std::time::Duration;

use domain::{Epoch, IndexProgress, JobId, Message, Mode, ProductId};
use protocol::{JobList, SubmitResponse};
use serde::Serialize;

use crate::cleanup::PRODUCT;
use crate::fake_worker::{FakeWorker, Inbox};
use crate::seed::{SeedStage, seed, tag, timed};
use crate::statistics::{Samples, millis, rounded};
use crate::target::{BenchSite, BenchTarget};
use crate::workload;
use crate::{DepthOptions, Error, Progress};

/// The store that the large one is compared with.
const SHALLOW: u64 = 1_000;

/// Both stores are measured in turns, so that a noisy moment is one for both.
const ROUNDS: u64 = 30;
const PER_ROUND: u64 = 10;

/// The headings of the table.
const HEADINGS: &[&str] = &["STORED", "SUBMIT ms", "DISPATCH ms", "CLAIM ms", "LIST ms", "FILTER ms"];

#[derive(Serialize)]
struct Report {
    bench: &'static str,
    stored: u64,
    submit_ratio: f64,
    dispatch_ratio: f64,
    claim_ratio: f64,
    list_ratio: f64,
    filter_ratio: f64,
    shallow_ms: Medians,
    deep_ms: Medians,
}

#[derive(Clone, Copy, Serialize)]
struct Medians {
    submit: f64,
    dispatch: f64,
    claim: f64,
    list: f64,
    filter: f64,
}

/// Compares two coordinators of our own: stores of a known depth.
pub(crate) async fn run(progress: Progress<'_>, site: &BenchSite, args: &DepthOptions) -> Result<crate::Report, Error> {
    let mut shallow = MeasuredCoordinator::open(progress, site, "shallow", SHALLOW).await?;
    let mut deep = MeasuredCoordinator::open(progress, site, "deep", args.stored).await?;
    progress.note(&format!("measuring both in turns, {} times each operation", ROUNDS * PER_ROUND));
    for round in 0..=ROUNDS {
        // The first one has colder caches: they alternate in the order too.
        let sides = if round % 2 == 0 { [&mut shallow, &mut deep] } else { [&mut deep, &mut shallow] };
        for side in sides {
            side.measure().await?;
            // The first round warms both up.
            if round == 0 {
                side.taken = DepthSamples::default();
            }
        }
    }
    let (shallow_ms, deep_ms) = (shallow.end().await?, deep.end().await?);
    let ratio = |of: fn(&Medians) -> f64| rounded(of(&deep_ms) / of(&shallow_ms).max(f64::EPSILON), 3);
    let report = Report {
        bench: "depth",
        stored: args.stored,
        submit_ratio: ratio(|medians| medians.submit),
        dispatch_ratio: ratio(|medians| medians.dispatch),
        claim_ratio: ratio(|medians| medians.claim),
        list_ratio: ratio(|medians| medians.list),
        filter_ratio: ratio(|medians| medians.filter),
        shallow_ms,
        deep_ms,
    };
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut row = |name: String, medians: [f64; 5]| {
        let figures = medians.iter().map(|figure| format!("{figure:.3}"));
        table.push(std::iter::once(name).chain(figures).collect());
    };
    let figures = |medians: &Medians| [medians.submit, medians.dispatch, medians.claim, medians.list, medians.filter];
    row(SHALLOW.to_string(), figures(&shallow_ms));
    row(args.stored.to_string(), figures(&deep_ms));
    let ratios =
        [report.submit_ratio, report.dispatch_ratio, report.claim_ratio, report.list_ratio, report.filter_ratio];
    row("ratio".to_owned(), ratios);
    crate::Report::new(&report, HEADINGS, table)
}

/// One of the two coordinators.
struct MeasuredCoordinator {
    ground: BenchTarget,
    product: ProductId,
    hand: FakeWorker,
    inbox: Inbox,
    jobs: u64,
    taken: DepthSamples,
}

#[derive(Default)]
struct DepthSamples {
    submit: Samples,
    dispatch: Samples,
    claim: Samples,
    list: Samples,
    filter: Samples,
}

impl MeasuredCoordinator {
    async fn open(progress: Progress<'_>, site: &BenchSite, name: &str, stored: u64) -> Result<Self, Error> {
        let plot = site.plot(name).await?;
        let product: ProductId = PRODUCT.parse().map_err(|error| Error::failed(format!("{error}")))?;
        progress.note(&format!("storing {stored} jobs"));
        let store = plot.open_store().await?;
        seed(progress, &store.jobs, &product, 0, stored, SeedStage::Over).await?;
        progress.note(&format!("adding {stored} jobs to the search index"));
        while store.history.index_jobs().await.map_err(|error| Error::failed(error.to_string()))?
            == IndexProgress::Behind
        {}
        store.lifecycle.close().await.map_err(|error| Error::failed(error.to_string()))?;
        let ground = BenchTarget::start(plot).await?;
        let product = ground.product().await?;
        let hand = ground.hire(&product, 0, 1).await?;
        let inbox = hand.inbox().await?;
        Ok(Self { ground, product, hand, inbox, jobs: 0, taken: DepthSamples::default() })
    }

    async fn measure(&mut self) -> Result<(), Error> {
        self.hand.beat().await?;
        self.switch(Mode::Push).await?;
        // One more than there are seats: the last one waits, and the dispatcher gives it the first seat that comes free.
        self.submit().await?;
        let first = self.offer().await?;
        let mut held = self.start(&first).await?;
        for _ in 0..PER_ROUND {
            let (_, submitted) = self.submit().await?;
            self.taken.submit.add(submitted);
            let clock = Arc::clone(&self.ground.clock);
            let (next, dispatched) = timed(clock.as_ref(), self.complete_and_wait(held)).await;
            self.taken.dispatch.add(dispatched);
            held = self.start(&next?).await?;
        }
        self.hand.complete(held.0, held.1).await?;
        self.switch(Mode::Poll).await?;
        for _ in 0..PER_ROUND {
            let (job, _) = self.submit().await?;
            let (claimed, took) = timed(self.ground.clock.as_ref(), self.hand.claim(1)).await;
            self.taken.claim.add(took);
            let Some(granted) = claimed?.granted.pop() else {
                return Err(Error::failed(format!("job {} was not granted to the claim", job.job.id)));
            };
            let epoch = granted.accepted.lease_epoch;
            self.hand.start(job.job.id, epoch).await?;
            self.hand.complete(job.job.id, epoch).await?;
        }
        for _ in 0..PER_ROUND {
            let (listed, took) = timed(self.ground.clock.as_ref(), self.list()).await;
            listed?;
            self.taken.list.add(took);
            let (filtered, took) = timed(self.ground.clock.as_ref(), self.filter()).await;
            filtered?;
            self.taken.filter.add(took);
        }
        Ok(())
    }

    async fn start(&self, message: &Message) -> Result<(JobId, Epoch), Error> {
        let accepted = self.hand.accept(message).await?;
        self.hand.start(message.job_id, accepted.lease_epoch).await?;
        Ok((message.job_id, accepted.lease_epoch))
    }

    /// Frees the seat and waits for the offer that fills it.
    async fn complete_and_wait(&mut self, (job, epoch): (JobId, Epoch)) -> Result<Message, Error> {
        self.hand.complete(job, epoch).await?;
        self.offer().await
    }

    async fn offer(&mut self) -> Result<Message, Error> {
        let offer = self.inbox.next().await?.ok_or_else(|| Error::failed("the stream of offers ended"))?;
        offer.complete().await
    }

    async fn switch(&self, mode: Mode) -> Result<(), Error> {
        self.ground.admin().set_mode(Some(&self.product), Some(mode)).await?;
        Ok(())
    }

    async fn submit(&mut self) -> Result<(SubmitResponse, Duration), Error> {
        self.jobs += 1;
        let request = workload::submit(&self.product, self.jobs);
        let posting = self.ground.admin().post("/jobs", &request);
        let (answer, took) = timed(self.ground.clock.as_ref(), posting).await;
        Ok((answer?, took))
    }

    /// The newest jobs, the page after them, and the newest of one stage.
    async fn list(&self) -> Result<(), Error> {
        let admin = self.ground.admin();
        let first: JobList = admin.get("/jobs?limit=50").await?;
        let next = first.next.ok_or_else(|| Error::failed("a list of many jobs has one page only"))?;
        let _: JobList = admin.get(&format!("/jobs?limit=50&cursor={next}")).await?;
        let _: JobList = admin.get("/jobs?limit=50&stage=failed").await?;
        Ok(())
    }

    /// Pages of filters that match one of a hundred jobs, alone and together with others that match almost all or none.
    async fn filter(&self) -> Result<(), Error> {
        let admin = self.ground.admin();
        let rare = tag(0);
        for filter in [
            format!("tag={rare}"),
            format!("tag={rare}&stage=failed&priority=high"),
            format!("tag={rare}&text=job&stage=failed,dead_letter"),
        ] {
            let page: JobList = admin.get(&format!("/jobs?limit=10&{filter}")).await?;
            if page.items.len() != 10 {
                return Err(Error::failed(format!("{} jobs match {filter}: expected 10", page.items.len())));
            }
        }
        let none: JobList = admin.get(&format!("/jobs?limit=10&tag={rare},{}", tag(1))).await?;
        if !none.items.is_empty() {
            return Err(Error::failed("a job has two tags"));
        }
        Ok(())
    }

    async fn end(self) -> Result<Medians, Error> {
        let taken = &self.taken;
        let medians = Medians {
            submit: millis(taken.submit.median()),
            dispatch: millis(taken.dispatch.median()),
            claim: millis(taken.claim.median()),
            list: millis(taken.list.median()),
            filter: millis(taken.filter.median()),
        };
        self.ground.stop().await?;
        Ok(medians)
    }
}
