//! Shadow mode: factories poll, and beside them the plan of push mode is made, sent as marked messages and compared with
//! what factories claim [D1][I13].
//!
//! Nothing here writes a job. Turning the mode off ends it at once: messages that are still on their way are completed
//! wherever they arrive.

pub(crate) mod board;
pub(crate) mod hours;
pub(crate) mod report;

use std::time::Duration;

use domain::{Dispatch, DispatchModes, FactoryId, Message, MessageId, Mode, ProductId, Timestamp};
use protocol::DivergenceKind;
use scheduler::{FleetView, Ineligible, Placement, WeighedClaim};

use crate::coordinator::Coordinator;
use crate::dispatch::claim::pick::Pick;
use crate::dispatch::{ROUND_MAX, message};
use crate::state::FleetState;
use board::{ClaimOutcome, PlannedJob};

/// A shadow message that takes longer is missing.
pub(crate) const DELIVERED_WITHIN: Duration = Duration::from_secs(5);

/// What polling did where only the message is at fault.
const POLL_UNAFFECTED: &str = "factories poll: the job is not affected";

impl Coordinator {
    /// Whether the claims of a product in this mode are compared with the plan of push mode.
    pub(crate) fn is_compared(&self, mode: Mode) -> bool {
        match mode {
            Mode::Shadow => true,
            Mode::Poll | Mode::Gate => self.settings.shadow,
            Mode::Push | Mode::SelfSelect => false,
        }
    }

    /// Plans the jobs of compared products as push mode would, remembers the first choice for each job and sends a
    /// shadow message to its factory. Idempotent. The dispatcher calls it in every round.
    pub(crate) fn compare_plan(&self) {
        let now = self.steady();
        let messages = {
            let state = self.state.lock();
            let modes = self.modes_of_comparison(&state);
            if modes.products.is_empty() {
                self.shadow.lock().forget_picks();
                return;
            }
            let (planned, is_whole) = self.planned(&state, &modes, now);
            let mut shadow = self.shadow.lock();
            shadow.retain_picks(|job| state.is_waiting(job));
            let fresh = shadow.take_plan(planned, is_whole, now, self.settings.starving_after, self.now());
            for message in &fresh {
                let is_open = self.inboxes.is_open(&message.target_factory_id);
                shadow.sending(message, self.ports.clock.monotonic(), is_open);
            }
            fresh
        };
        if messages.is_empty() {
            return;
        }
        for message in messages {
            self.publish_shadow(message);
        }
        self.timer.notify_one();
    }

    /// The modes in which a plan places exactly the waiting jobs of compared products.
    fn modes_of_comparison(&self, state: &FleetState) -> DispatchModes {
        let compared = state.waiting_products().filter(|product| self.is_compared(state.mode_of(product)));
        let products = compared.map(|product| (product.clone(), Mode::Push)).collect();
        DispatchModes { mode: Mode::Poll, products, ..DispatchModes::default() }
    }

    /// What push mode would offer now, and whether that is everything.
    fn planned(&self, state: &FleetState, modes: &DispatchModes, now: Timestamp) -> (Vec<PlannedJob>, bool) {
        let view = FleetView { flags: modes, ..state.view(now, &self.settings.weights, ROUND_MAX) };
        let placements = scheduler::plan(&view).placements;
        let is_whole = placements.len() < ROUND_MAX;
        let mut purses = state.purses(self.now(), &|job| self.live_spend(job));
        let planned = placements.into_iter().filter_map(|placement| {
            let job = state.job(placement.job)?.value;
            let billing = placement.engine.as_ref().and_then(|engine| state.billing_at(&placement.factory, engine));
            state.take_from(&mut purses, &job, billing).ok()?;
            Some(PlannedJob { message: shadow_message(&job, &placement), score: placement.score.total })
        });
        (planned.collect(), is_whole)
    }

    /// What the plan would do with a job that a factory is about to claim; `None` if its product is not compared.
    pub(crate) fn weigh_claim(&self, state: &FleetState, placement: &Placement) -> Option<WeighedClaim> {
        let product = state.job(placement.job)?.value.product().clone();
        if !self.is_compared(state.mode_of(&product)) {
            return None;
        }
        let view = state.view(self.steady(), &self.settings.weights, 1);
        scheduler::weigh(&view, placement.job, &placement.factory)
    }

    /// Compares a claim that was written with the plan.
    pub(crate) fn compare_claim(&self, pick: &Pick) {
        let Some(weighed) = &pick.weighed else { return };
        let (job, claimant) = (&pick.job.value, &pick.placement.factory);
        let against = (!weighed.against.is_empty()).then(|| reasons_text(&weighed.against));
        let planned = match &weighed.planned {
            Ok((factory, score)) => Ok((factory.clone(), score.total)),
            Err(why) => Err(why.to_string()),
        };
        let outcome = ClaimOutcome {
            job: job.id(),
            seq: job.dispatch_seq().next(),
            product: job.product().clone(),
            claimant: claimant.clone(),
            score: pick.placement.score.total,
            planned,
            against,
        };
        self.shadow.lock().take_claim(outcome, self.now());
    }

    /// A shadow message reached its factory, which has had it for `held`.
    pub(crate) fn note_shadow_delivered(&self, factory: &FactoryId, message: MessageId, held: Duration) {
        let now = self.ports.clock.monotonic().saturating_sub(held);
        self.shadow.lock().delivered(factory, message, now, self.now());
    }

    /// The broker did not accept a shadow message, for this reason; without one it had the message already.
    pub(crate) fn note_shadow_published(&self, message: &Message, problem: Option<String>) {
        let mut shadow = self.shadow.lock();
        match problem {
            None => shadow.forget_message(message.id()),
            Some(problem) => shadow.missing(message.id(), &problem, self.now()),
        }
    }

    /// Counts the shadow messages that did not arrive in time.
    pub(crate) fn expire_shadow_messages(&self) {
        let now = self.ports.clock.monotonic();
        let is_warming = self.is_warming();
        let mut shadow = self.shadow.lock();
        for (id, factory, was_open) in shadow.overdue(now) {
            let is_open = self.inboxes.is_open(&factory);
            // A factory that connected or disconnected meanwhile, or a coordinator that started, decides nothing.
            match was_open == is_open && !is_warming {
                true => {
                    let inbox = if is_open { "its inbox is open" } else { "its inbox is closed" };
                    let within = DELIVERED_WITHIN.as_secs();
                    let problem = format!("the message for `{factory}` did not arrive within {within} s; {inbox}");
                    shadow.missing(id, &problem, self.now());
                }
                false => shadow.unknown(id, self.now()),
            }
        }
    }

    /// The time until a shadow message counts as missing.
    pub(crate) fn until_shadow_expires(&self) -> Option<Duration> {
        let next = self.shadow.lock().next_due()?;
        Some(next.saturating_sub(self.ports.clock.monotonic()))
    }

    /// Whether the claims of a product are compared now.
    pub(crate) fn compares_product(&self, product: &ProductId) -> bool {
        self.is_compared(self.modes.now().value.mode_of(product))
    }
}

/// The message that push mode would publish, with its mark.
fn shadow_message(job: &domain::Job, placement: &Placement) -> Message {
    let dispatch = Dispatch {
        seq: job.dispatch_seq().next(),
        target: placement.factory.clone(),
        accept_by: job.updated_at(),
        score: placement.score.total,
    };
    Message { shadow: true, ..message(job, &dispatch) }
}

fn reasons_text(reasons: &[Ineligible]) -> String {
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// How a divergence of a message is told.
pub(crate) fn message_divergence(problem: &str) -> (DivergenceKind, String, String) {
    (DivergenceKind::Missing, POLL_UNAFFECTED.to_owned(), problem.to_owned())
}
