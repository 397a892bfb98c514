//! Writes of budgets. Requests that wait for the same document share one compare-and-set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{
    BudgetSettings, Collection, Expected, JobEvent, JobId, OutOfMoney, Position, ProductBudget, ProductId,
    ReservationKey, StoreError, Timestamp, Usd, Versioned,
};
use fail::fail_point;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::commit::cas_documents::PutOutcome;
use crate::coordinator::Coordinator;
use crate::error::Error;

/// A lost race is normal; this many in a row mean that coordinators contend for one budget.
const ATTEMPTS_MAX: u32 = 16;

/// The budgets that are being read or written.
#[derive(Default)]
pub(crate) struct BudgetWriters {
    by_product: Mutex<BTreeMap<ProductId, Arc<BudgetWriter>>>,
    /// Products whose events changed since they were last counted.
    behind: Mutex<BTreeSet<ProductId>>,
    /// A product is behind.
    pub(super) bell: Notify,
    /// Reservations that were missing although their jobs were running, since the start.
    pub(super) restored: std::sync::atomic::AtomicU64,
}

/// One product's budget.
#[derive(Default)]
pub(super) struct BudgetWriter {
    waiting: Mutex<Vec<Request>>,
    writing: tokio::sync::Mutex<()>,
    /// One reader of the events at a time.
    pub(super) counting: tokio::sync::Mutex<()>,
    /// Whether the events were counted up to the end since the start of this process.
    pub(super) is_counted: AtomicBool,
    /// The budget of a product without a ceiling, counted further than the stored one.
    pub(super) ahead: Mutex<Option<ProductBudget>>,
}

struct Request {
    change: BudgetChange,
    answer: oneshot::Sender<Answer>,
}

type Answer = Result<bool, Refused>;

/// A change of a budget. Each may be repeated.
#[derive(Debug, Clone)]
pub(super) enum BudgetChange {
    /// Reserve money for a run.
    Reserve { key: ReservationKey, amount: Usd },
    /// Restore the reservations of running jobs.
    Restore(Vec<(ReservationKey, Usd)>),
    /// Remove reservations of runs that did not begin.
    Release(Vec<ReservationKey>),
    /// Change the settings.
    Settings(BudgetSettings),
    /// Include events.
    Absorb { after: Position, events: Arc<Vec<JobEvent>>, end: Position },
    /// Record that a pause began, or ended.
    Pause(Option<(String, Option<String>)>),
}

/// Why a change was not written.
#[derive(Debug)]
pub(super) enum Refused {
    Money(OutOfMoney),
    Store(String),
    Contended,
}

impl BudgetWriters {
    pub(super) fn of(&self, product: &ProductId) -> Arc<BudgetWriter> {
        Arc::clone(self.by_product.lock().entry(product.clone()).or_default())
    }

    /// A job of a product with a ceiling ended a run.
    pub(crate) fn note_behind(&self, product: &ProductId) {
        let is_new = self.behind.lock().insert(product.clone());
        if is_new {
            self.bell.notify_one();
        }
    }

    pub(super) fn take_behind(&self) -> BTreeSet<ProductId> {
        std::mem::take(&mut *self.behind.lock())
    }

    pub(super) fn is_counted(&self, product: &ProductId) -> bool {
        self.of(product).is_counted.load(Ordering::Relaxed) && !self.behind.lock().contains(product)
    }
}

impl Coordinator {
    /// Changes a budget by compare-and-set. One request writes for all that wait. Returns whether this change
    /// made a difference.
    pub(super) async fn change_budget(&self, product: &ProductId, change: BudgetChange) -> Result<bool, Error> {
        let writer = self.budgets.of(product);
        loop {
            let (sender, mut answer) = oneshot::channel();
            writer.waiting.lock().push(Request { change: change.clone(), answer: sender });
            let turn = writer.writing.lock().await;
            let batch = match answer.try_recv() {
                Ok(answered) => return outcome(answered),
                Err(oneshot::error::TryRecvError::Closed) => continue,
                Err(oneshot::error::TryRecvError::Empty) => std::mem::take(&mut *writer.waiting.lock()),
            };
            self.write_budget(product, batch).await;
            drop(turn);
            match answer.try_recv() {
                Ok(answered) => return outcome(answered),
                // The request that wrote for this one was dropped half-way.
                Err(_) => continue,
            }
        }
    }

    async fn write_budget(&self, product: &ProductId, batch: Vec<Request>) {
        let mut known = self.state.lock().budget(product).cloned();
        let mut is_fresh = false;
        for _ in 0..ATTEMPTS_MAX {
            let mut budget =
                known.as_ref().map_or_else(|| ProductBudget::new(product.clone()), |known| known.value.clone());
            let now = self.now();
            let answers: Vec<Answer> = batch.iter().map(|one| apply(&mut budget, &one.change, now)).collect();
            let is_refused = answers.iter().any(Result::is_err);
            if !answers.iter().any(|answer| matches!(answer, Ok(true))) {
                if is_fresh || !is_refused {
                    return answer(batch, answers);
                }
                // A refusal decided on the copy in memory is decided again on a fresh read.
                match self.read_budget(product).await {
                    Ok(found) => known = found,
                    Err(error) => return fail(batch, &error),
                }
                is_fresh = true;
                continue;
            }
            let over = known.as_ref().map_or(Expected::Absent, |known| Expected::At(known.revision));
            fail_point!("budget::before_write");
            match self.put_document(Collection::Budgets, product.as_str(), over, Some(&budget)).await {
                Ok(PutOutcome::Written(revision)) => {
                    self.cache_budget(product, Versioned { value: budget, revision });
                    fail_point!("budget::written");
                    return answer(batch, answers);
                }
                Ok(PutOutcome::Lost(found)) => {
                    if let Some(found) = &found {
                        self.cache_budget(product, found.clone());
                    }
                    (known, is_fresh) = (found, true);
                }
                Err(error) => return fail(batch, &error),
            }
        }
        for request in batch {
            let _ = request.answer.send(Err(Refused::Contended));
        }
    }

    async fn read_budget(&self, product: &ProductId) -> Result<Option<Versioned<ProductBudget>>, Error> {
        let Some(found) = self.ports.fleet.document(Collection::Budgets, product.as_str()).await? else {
            return Ok(None);
        };
        let value: ProductBudget = serde_json::from_value(found.value)
            .map_err(|error| StoreError::Corrupt(format!("fleet_budgets `{product}`: {error}")))?;
        let budget = Versioned { value, revision: found.revision };
        self.cache_budget(product, budget.clone());
        Ok(Some(budget))
    }

    /// Takes a stored budget into memory, and finds out who waits for money now.
    pub(crate) fn cache_budget(&self, product: &ProductId, budget: Versioned<ProductBudget>) {
        self.state.lock().put_budget(product, budget);
        self.weigh_money();
    }

    /// Finds out which products wait for money. A change wakes the dispatcher and the streams.
    pub(crate) fn weigh_money(&self) {
        let now = self.now();
        let live = |job: JobId| self.live_spend(job);
        let is_changed = self.state.lock().weigh_money(now, &live);
        if is_changed {
            self.work.notify_one();
            self.timer.notify_one();
        }
        self.live.note();
    }

    /// What the agent of a running job has reported so far.
    pub(crate) fn live_spend(&self, job: JobId) -> Usd {
        let reported = self.progress.of(job).and_then(|progress| progress.cost_usd);
        reported.map_or(Usd::ZERO, Usd::of)
    }
}

fn apply(budget: &mut ProductBudget, change: &BudgetChange, now: Timestamp) -> Answer {
    match change {
        BudgetChange::Reserve { key, amount } => budget.reserve(*key, *amount, now).map_err(Refused::Money),
        BudgetChange::Restore(missing) => {
            Ok(missing.iter().fold(false, |changed, (key, amount)| budget.restore(*key, *amount, now) || changed))
        }
        BudgetChange::Release(keys) => Ok(keys.iter().filter(|key| budget.release(**key)).count() > 0),
        BudgetChange::Settings(settings) => {
            if budget.settings.period != settings.period {
                budget.spending.restart_breakdowns(settings.period, now);
            }
            budget.settings = settings.clone();
            Ok(true)
        }
        BudgetChange::Absorb { after, events, end } => {
            if budget.spending.position != *after {
                return Ok(false);
            }
            budget.absorb(events.iter(), *end);
            Ok(true)
        }
        BudgetChange::Pause(pause) => {
            let before = budget.pauses.clone();
            budget.note_pause(pause.as_ref().map(|(by, reason)| (by.as_str(), reason.as_deref())), now);
            Ok(budget.pauses != before)
        }
    }
}

fn answer(batch: Vec<Request>, answers: Vec<Answer>) {
    for (request, answer) in batch.into_iter().zip(answers) {
        // The caller may have left: the sweep removes what it reserved.
        let _ = request.answer.send(answer);
    }
}

fn fail(batch: Vec<Request>, error: &Error) {
    let why = match error {
        Error::Store(cause) => cause.to_string(),
        error => error.to_string(),
    };
    for request in batch {
        let _ = request.answer.send(Err(Refused::Store(why.clone())));
    }
}

fn outcome(answered: Answer) -> Result<bool, Error> {
    match answered {
        Ok(changed) => Ok(changed),
        Err(Refused::Money(money)) => Err(Error::OutOfMoney(money)),
        Err(Refused::Store(why)) => Err(StoreError::Unavailable(why).into()),
        Err(Refused::Contended) => Err(Error::NotReady("its budget is being changed by too many writers".to_owned())),
    }
}
