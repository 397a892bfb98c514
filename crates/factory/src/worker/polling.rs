//! Claims work where it is not offered [D1].

use std::sync::Arc;

use client::ClientError;
use clock::Backoff;
use domain::{ClaimNonce, DispatchModes, JobId, Mode, ProductId, RunInsights};
use fail::fail_point;
use protocol::{ClaimRequest, ClaimResponse, GrantedJob, ReleaseReport};
use tracing::{debug, info};
use workspace::{LocalStage, RunRecord};

use super::held_leases::LeaseTerm;
use super::poll_backoff::{PollBackoff, PollMode, PollResult, PollTrigger};
use super::settings::PollWhen;
use super::{RECONNECT_FIRST, RECONNECT_MAX, Worker, reports};

/// How often a claim is repeated at once without an answer; after that the next claim uses the same nonce.
const CLAIM_TRIES_MAX: u32 = 8;

impl Worker {
    /// Polls for work for as long as the coordinator requires it, or always if configured.
    pub(super) async fn claim_for_ever(self: &Arc<Self>) {
        let mut told = self.modes.subscribe();
        loop {
            let modes = told.borrow_and_update().clone();
            match self.asking(&modes) {
                PollMode::Never => drop(told.changed().await),
                asking => {
                    info!(?asking, "Asking for work every {:?}", self.settings.polling.every);
                    let is_other = async {
                        let is_other =
                            |now: &DispatchModes| self.asking(now) != asking || self.pulled(now) != self.pulled(&modes);
                        drop(told.wait_for(is_other).await);
                    };
                    self.claim_while(asking, &self.pulled(&modes), is_other).await;
                }
            }
        }
    }

    /// Polls until `is_over`. A claim in flight is always completed: it may have won.
    async fn claim_while(
        self: &Arc<Self>,
        asking: PollMode,
        pulled: &PolledProducts,
        is_over: impl Future<Output = ()>,
    ) {
        tokio::pin!(is_over);
        let mut pace = PollBackoff::new(self.settings.polling.every);
        let mut pause = pace.first(self.chance());
        loop {
            let woken = tokio::select! {
                biased;
                () = &mut is_over => return,
                // With all seats taken there is nothing to claim until one becomes free.
                () = self.freed.notified(), if pace.is_hungry() || self.free_seats() == 0 => PollTrigger::BySeat,
                () = self.clock.sleep(pause), if self.free_seats() > 0 => PollTrigger::ByTime,
            };
            let free = self.free_seats();
            if free == 0 {
                continue;
            }
            let found = match asking {
                PollMode::Gate => self.look_and_claim(&mut pace, pulled, woken, free).await,
                PollMode::Poll | PollMode::Never => self.claim(free, pulled, None).await,
            };
            pause = pace.after(found, self.chance());
        }
    }

    async fn look_and_claim(
        self: &Arc<Self>,
        pace: &mut PollBackoff,
        pulled: &PolledProducts,
        woken: PollTrigger,
        free: u32,
    ) -> PollResult {
        let is_open = match self.client.queue_state(pulled.only.as_deref().unwrap_or_default(), pace.tag()).await {
            Ok(news) => pace.opens(news, woken),
            Err(error) => {
                debug!(%error, "No answer about the queue");
                return PollResult::Nothing;
            }
        };
        if is_open { self.claim(free, pulled, None).await } else { PollResult::Closed }
    }

    /// Claims jobs that were announced, for as long as the factory runs.
    pub(super) async fn claim_announced(self: &Arc<Self>) {
        loop {
            let jobs = self.announced.next().await;
            let free = self.free_seats();
            // Without a free seat the coordinator announces them to another factory.
            if free > 0 && !self.stopping.is_cancelled() {
                debug!("Claiming {} that were announced", domain::counted(jobs.len() as u64, "job"));
                self.claim(free, &PolledProducts::default(), Some(jobs)).await;
            }
        }
    }

    /// Claims in a task of its own: a grant must be received although this factory stops.
    async fn claim(self: &Arc<Self>, limit: u32, pulled: &PolledProducts, jobs: Option<Vec<JobId>>) -> PollResult {
        let (station, pulled) = (Arc::clone(self), pulled.clone());
        let claimed = self.tasks.spawn(async move { station.claim_and_work(limit, pulled, jobs).await });
        claimed.await.unwrap_or(PollResult::Nothing)
    }

    async fn claim_and_work(
        self: &Arc<Self>,
        limit: u32,
        pulled: PolledProducts,
        jobs: Option<Vec<JobId>>,
    ) -> PollResult {
        // One claim at a time: all of them use the same nonce until it has won something.
        let _turn = self.claiming.lock().await;
        let fresh = ClaimNonce::new(self.clock.now(), self.entropy.bytes());
        let Some(nonce) = self.nonce.current(self.instance, fresh).await else { return PollResult::Nothing };
        fail_point!("factory::claim_nonce_saved", |_| PollResult::Nothing);
        let sent_at = self.sent_at();
        let request = ClaimRequest {
            factory_id: None,
            instance: self.instance,
            claim_nonce: nonce,
            limit: Some(limit),
            products: pulled.only,
            jobs,
            except_products: pulled.except,
        };
        match self.ask_for_work(&request).await {
            Ok(claimed) if claimed.granted.is_empty() => PollResult::Nothing,
            Ok(claimed) => {
                fail_point!("factory::claimed", |_| PollResult::Nothing);
                for granted in claimed.granted {
                    let term = self.lease_term(sent_at, granted.accepted.lease_ttl_ms);
                    self.take_granted(granted, nonce, term).await;
                }
                self.nonce.spent();
                PollResult::Work
            }
            Err(error) => {
                debug!(%error, "Nothing could be claimed");
                if error.code() == Some("already_granted") {
                    self.nonce.spent();
                }
                PollResult::Nothing
            }
        }
    }

    async fn ask_for_work(&self, request: &ClaimRequest) -> Result<ClaimResponse, ClientError> {
        let mut backoff = Backoff::new(RECONNECT_FIRST, RECONNECT_MAX);
        let mut tries = 0;
        loop {
            match self.client.claim(request).await {
                Err(error) if !error.is_final() && tries < self.tries_max(CLAIM_TRIES_MAX) => {
                    debug!(%error, "No answer to a claim, asking again with the same nonce");
                    tries += 1;
                    self.clock.sleep(backoff.next_pause()).await;
                }
                answer => return answer,
            }
        }
    }

    /// Starts a claimed job like an accepted offer.
    async fn take_granted(self: &Arc<Self>, granted: GrantedJob, nonce: ClaimNonce, term: LeaseTerm) {
        let GrantedJob { dispatch_seq, accepted } = granted;
        let (job, epoch) = (accepted.assignment.job_id, accepted.lease_epoch);
        if !self.taking.lock().insert((job, dispatch_seq)) {
            return;
        }
        let record = RunRecord {
            v: 1,
            job,
            dispatch_seq,
            nonce,
            epoch: Some(epoch),
            repo: accepted.assignment.repo.clone(),
            guard: None,
            worktree: None,
            session: None,
            insights: domain::RunInsights::default(),
            stage: LocalStage::Preparing,
        };
        if self.stopping.is_cancelled() || !self.ledger.remember(&record).await {
            self.give_back_unbegun(job, epoch, "the factory stops").await;
            self.is_over(job, dispatch_seq);
            return;
        }
        let station = Arc::clone(self);
        self.tasks.spawn(async move {
            station.work(record, accepted, term).await;
            station.is_over(job, dispatch_seq);
        });
    }

    /// Releases what an earlier process claimed without receiving the answer.
    pub(super) async fn give_back_claimed(&self) {
        let Some(note) = self.nonce.left_behind().await else { return };
        let request = ClaimRequest {
            factory_id: None,
            instance: note.instance,
            claim_nonce: note.nonce,
            limit: None,
            products: None,
            jobs: None,
            except_products: Vec::new(),
        };
        match self.client.claim_dry_run(&request).await {
            Ok(claimed) => {
                for granted in claimed.granted {
                    let (job, epoch) = (granted.accepted.assignment.job_id, granted.accepted.lease_epoch);
                    info!(job.id = %job, "Job `{job}` was claimed right before this factory ended, giving it back");
                    self.give_back_unbegun(job, epoch, "the factory was restarted").await;
                }
            }
            // Registering revokes it as well, but as a lost lease.
            Err(error) => debug!(%error, "What was claimed last is not known"),
        }
        self.nonce.forget().await;
    }

    async fn give_back_unbegun(&self, job: domain::JobId, epoch: domain::Epoch, why: &str) {
        let request = ReleaseReport {
            lease_epoch: epoch,
            message: Some(why.to_owned()),
            checkpoint: None,
            insights: RunInsights::default(),
        };
        self.report(reports::release(job, request)).await;
    }

    /// The dispatch modes, from the coordinator and the configuration.
    fn asking(&self, modes: &DispatchModes) -> PollMode {
        let (polling, told) = (self.settings.polling, modes.modes());
        let polls = polling.when == PollWhen::Always || told.contains(&Mode::Poll);
        match (polls, told.contains(&Mode::Gate)) {
            (false, false) => PollMode::Never,
            (true, _) if !polling.gated => PollMode::Poll,
            (true, _) | (false, true) => PollMode::Gate,
        }
    }

    /// What to claim: every product where offers do not get through.
    fn pulled(&self, modes: &DispatchModes) -> PolledProducts {
        match self.settings.polling.when {
            PollWhen::Always => PolledProducts::default(),
            PollWhen::Told => PolledProducts::by(modes),
        }
    }

    /// Updates the dispatch modes.
    pub(super) fn told(&self, modes: &DispatchModes) {
        self.modes.send_if_modified(|known| {
            let is_news = known != modes;
            if is_news {
                known.clone_from(modes);
            }
            is_news
        });
    }

    /// Free seats according to this process; the coordinator decides.
    fn free_seats(&self) -> u32 {
        let taken = u32::try_from(self.taking.lock().len()).unwrap_or(u32::MAX);
        self.seats_offered().saturating_sub(taken)
    }

    fn chance(&self) -> f64 {
        self.entropy.fraction()
    }
}

/// The products to claim from: those that are not pushed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct PolledProducts {
    /// Only these; all when absent.
    only: Option<Vec<ProductId>>,
    /// All but these.
    except: Vec<ProductId>,
}

impl PolledProducts {
    fn by(modes: &DispatchModes) -> Self {
        let own = |is_meant: fn(Mode) -> bool| {
            modes
                .products
                .iter()
                .filter(move |(_, mode)| is_meant(**mode))
                .map(|(product, _)| product.clone())
                .collect()
        };
        match modes.mode {
            Mode::Push => Self { only: Some(own(|mode| mode != Mode::Push)), except: Vec::new() },
            _ => Self { only: None, except: own(|mode| mode == Mode::Push) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_products_that_are_not_pushed_are_asked_for() {
        let product = |name: &str| name.parse::<ProductId>().unwrap();
        let own = [(product("notes"), Mode::Push), (product("tracker"), Mode::Gate)];
        let flags = |mode| DispatchModes { mode, products: own.clone().into(), ..DispatchModes::default() };

        let (pushed, polled) = (PolledProducts::by(&flags(Mode::Push)), PolledProducts::by(&flags(Mode::Poll)));

        assert_eq!(pushed, PolledProducts { only: Some(vec![product("tracker")]), except: vec![] });
        assert_eq!(polled, PolledProducts { only: None, except: vec![product("notes")] });
    }
}
