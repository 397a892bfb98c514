//! Pauses of products: the switch of people, and the ceiling. Nothing new starts [I10]; what happens to running jobs is
//! a setting.

use std::time::Duration;

use domain::{
    Collection, Expected, Holder, Job, JobId, Lease, Pause, Product, ProductId, RunningWork, StageEvent, StageName,
    Timestamp, Versioned,
};
use foldhash::HashSet;
use protocol::Directive;
use tracing::{info, warn};

use super::writer::BudgetChange;
use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::commit::{AmendOutcome, Decision};
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::sanitize::short;

/// How long the write of a grant may take.
const GRANT_TIME_MAX: Duration = Duration::from_secs(2);

/// The characters of a reason.
const REASON_CHARS_MAX: usize = 500;

impl Coordinator {
    /// Pauses a product, or changes the reason of its pause: nothing of it starts, whatever was offered already.
    pub async fn pause_product(&self, who: &Principal, id: &ProductId, reason: Option<&str>) -> Result<Product, Error> {
        let reason = reason.map(|text| short(text.trim(), REASON_CHARS_MAX)).filter(|text| !text.is_empty());
        self.switch_product(who, id, Some(reason)).await
    }

    /// Ends the pause of a product.
    pub async fn resume_product(&self, who: &Principal, id: &ProductId) -> Result<Product, Error> {
        self.switch_product(who, id, None).await
    }

    /// `pause` is the reason of a pause; `None` resumes.
    async fn switch_product(
        &self,
        who: &Principal,
        id: &ProductId,
        pause: Option<Option<String>>,
    ) -> Result<Product, Error> {
        self.product(who, id)?;
        who.require_operator(id)?;
        let known = self.state.lock().versioned_product(id);
        let Some(Versioned { value: known, revision }) = known else { return Err(is_conflict()) };
        let mut product = known.clone();
        set_pause(&mut product, pause, &who.name, self.now());
        if product != known {
            match self.put_document(Collection::Products, id.as_str(), Expected::At(revision), Some(&product)).await? {
                PutOutcome::Written(revision) => self.cache_product(Versioned { value: product.clone(), revision }),
                PutOutcome::Lost(found) => {
                    if let Some(found) = found {
                        self.cache_product(found);
                    }
                    return Err(is_conflict());
                }
            }
            info!(product = %id, by = %who.name, paused = product.paused, "`{}` {} product `{id}`", who.name, if product.paused { "paused" } else { "resumed" });
        }
        self.after_pause(&product).await;
        self.work.notify_one();
        Ok(product)
    }

    /// The effects of a product's pause. Idempotent; the sweep does the same for running jobs.
    pub(crate) async fn after_pause(&self, product: &Product) {
        // The chart shades pauses of products that have a budget.
        let has_budget = self.state.lock().budget(&product.id).is_some();
        if has_budget {
            let pause = product.pause.as_ref().filter(|_| product.paused);
            let pause = pause.map(|pause| (pause.by.clone(), pause.reason.clone()));
            if let Err(error) = self.change_budget(&product.id, BudgetChange::Pause(pause)).await {
                warn!(product = %product.id, %error, "Could not record the pause of product `{}` in its budget", product.id);
            }
        }
        self.enforce_pauses().await;
    }

    /// Revokes grants that raced a pause, and treats other running jobs of stopped products as their setting says.
    /// Idempotent.
    pub(crate) async fn enforce_pauses(&self) {
        for stopped in self.stopped_products() {
            let running = self.state.lock().running_of(&stopped.product);
            for job in running {
                self.stop_run(&stopped, &job.value).await;
            }
        }
    }

    async fn stop_run(&self, stopped: &StoppedProduct, job: &Job) {
        let Some(lease) = job.seat() else { return };
        let is_raced = stopped.since.is_some_and(|since| raced(job, lease, since));
        if is_raced || stopped.running == RunningWork::Stop {
            return self.revoke_run(job.id(), &stopped.why).await;
        }
        if stopped.running == RunningWork::Finish {
            return;
        }
        let now = self.ports.clock.monotonic();
        let asked_at = *self.release_asked.lock().entry((job.id(), lease.epoch)).or_insert(now);
        if now.saturating_sub(asked_at) > self.settings.lease_ttl {
            return self.revoke_run(job.id(), &stopped.why).await;
        }
        // Sent again by each pass: directives may be lost.
        self.inboxes.direct(&lease.factory, Directive::Preempt { job_id: job.id(), lease_epoch: lease.epoch });
    }

    /// Takes a running job back from its factory. Its last checkpoint stays, and no attempt is counted.
    async fn revoke_run(&self, id: JobId, why: &str) {
        let revoked = self
            .try_amend(id, |job| {
                let Some(lease) = job.seat() else { return Ok(Decision::Keep) };
                let holder = Holder { epoch: lease.epoch, factory: lease.factory.clone() };
                let job = self.with_usage(job);
                let insights = job.run().map(|run| run.insights.clone()).unwrap_or_default();
                let released =
                    StageEvent::Released { holder, message: Some(why.to_owned()), insights, not_before: None };
                job.apply(released, self.now(), COORDINATOR).map(Decision::Write)
            })
            .await;
        match revoked {
            Ok(AmendOutcome::Written(job)) => {
                info!(job.id = %id, "Requeued job {}: {why}", job.value.label());
            }
            Ok(AmendOutcome::Kept(_)) => {}
            Err(error) => {
                warn!(job.id = %id, %error, "Could not revoke the run of job {}, the sweep retries", self.label(id));
            }
        }
    }

    /// The products of which nothing may start, and what happens to their running jobs.
    fn stopped_products(&self) -> Vec<StoppedProduct> {
        let state = self.state.lock();
        let setting =
            |id: &ProductId| state.budget(id).map_or(RunningWork::Finish, |budget| budget.value.settings.running);
        let paused = state.products().filter(|product| product.paused).map(|product| StoppedProduct {
            product: product.id.clone(),
            since: product.pause.as_ref().map(|pause| pause.at),
            running: setting(&product.id),
            why: pause_text(product),
        });
        let exhausted = state.out_of_money().iter().filter(|(_, money)| money.spent_usd >= money.ceiling_usd);
        let exhausted = exhausted.map(|(id, _)| StoppedProduct {
            product: id.clone(),
            since: None,
            running: setting(id),
            why: format!("the budget of product `{id}` is exhausted"),
        });
        let stopped: Vec<_> = paused.chain(exhausted).collect();
        let mut asked = self.release_asked.lock();
        if !asked.is_empty() {
            let held: HashSet<_> =
                state.jobs().filter_map(|job| Some((job.value.id(), job.value.seat()?.epoch))).collect();
            asked.retain(|run, _| held.contains(run));
        }
        stopped
    }
}

struct StoppedProduct {
    product: ProductId,
    /// Runs that were granted later raced the pause.
    since: Option<Timestamp>,
    running: RunningWork,
    why: String,
}

/// Whether a run was granted after its product was paused, or just before: the grant may have been decided before, and
/// its engine has not started.
fn raced(job: &Job, lease: &Lease, paused_at: Timestamp) -> bool {
    let is_on_its_way = job.stage().name() == StageName::Assigned && lease.granted_at.after(GRANT_TIME_MAX) > paused_at;
    lease.granted_at > paused_at || is_on_its_way
}

/// Sets or ends a pause. A repeated pause keeps its time.
pub(crate) fn set_pause(product: &mut Product, pause: Option<Option<String>>, by: &str, now: Timestamp) {
    let known = product.pause.take().filter(|_| product.paused);
    product.paused = pause.is_some();
    product.pause = match (pause, known) {
        (None, _) => None,
        (Some(None), Some(known)) => Some(known),
        (Some(reason), Some(known)) => Some(Pause { by: by.to_owned(), reason, ..known }),
        (Some(reason), None) => Some(Pause { by: by.to_owned(), at: now, reason }),
    };
}

/// A pause as a sentence.
pub(crate) fn pause_text(product: &Product) -> String {
    let mut text = format!("product `{}` is paused", product.id);
    if let Some(pause) = &product.pause {
        text.push_str(&format!(" by {}", pause.by));
        if let Some(reason) = &pause.reason {
            text.push_str(&format!(": {reason}"));
        }
    }
    text
}
