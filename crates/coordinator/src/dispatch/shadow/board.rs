//! Open comparisons, in memory: the plan's choices for waiting jobs, and shadow messages on their way.
//!
//! A restart loses them. The counters are kept by [`super::hours`].

use std::collections::VecDeque;
use std::time::Duration;

use domain::{DispatchSeq, FactoryId, JobId, Message, MessageId, ProductId, Timestamp};
use foldhash::HashMap;
use parking_lot::{Mutex, MutexGuard};
use protocol::{Divergence, DivergenceKind};

use super::hours::ShadowHours;
use super::{DELIVERED_WITHIN, message_divergence};
use crate::submit::sanitize::short;

/// Choices and messages that are open at most. Beyond it no further ones are noted; a claim is compared all the same.
const OPEN_MAX: usize = 10_000;

/// The limit of an explanation.
const TEXT_CHARS_MAX: usize = 400;

/// The comparison of dispatch modes.
#[derive(Default)]
pub(crate) struct ShadowBoard {
    comparison: Mutex<Comparison>,
}

impl ShadowBoard {
    /// Locks the comparison. The fleet's state is locked before it, never after it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Comparison> {
        self.comparison.lock()
    }
}

/// What is being compared.
#[derive(Default)]
pub(crate) struct Comparison {
    picks: HashMap<JobId, ShadowPick>,
    messages: HashMap<MessageId, SentMessage>,
    /// Messages by their deadline: all have equally long.
    due: VecDeque<(Duration, MessageId)>,
    pub(crate) hours: ShadowHours,
}

/// The first choice of the plan for a dispatch of a job.
struct ShadowPick {
    seq: DispatchSeq,
    factory: FactoryId,
    score: f64,
    /// Since when the plan has had a free seat for the job, without a break.
    free_since: Option<Timestamp>,
    /// No factory claimed it for long: it is counted.
    is_counted: bool,
}

/// A shadow message on its way.
struct SentMessage {
    product: ProductId,
    factory: FactoryId,
    at: Duration,
    /// Whether the factory's inbox was open.
    was_open: bool,
}

/// A job that push mode would offer now.
pub(crate) struct PlannedJob {
    pub(crate) message: Message,
    pub(crate) score: f64,
}

/// A claim that was written, with what the plan would have done instead.
pub(crate) struct ClaimOutcome {
    pub(crate) job: JobId,
    pub(crate) seq: DispatchSeq,
    pub(crate) product: ProductId,
    pub(crate) claimant: FactoryId,
    pub(crate) score: f64,
    /// The plan's choice at the moment of the claim, or why it had none.
    pub(crate) planned: Result<(FactoryId, f64), String>,
    /// Why the plan would not have used the claimant.
    pub(crate) against: Option<String>,
}

impl Comparison {
    /// Forgets the choices: no compared product has waiting jobs.
    pub(crate) fn forget_picks(&mut self) {
        self.picks.clear();
    }

    /// Forgets the choices for jobs that no longer wait.
    pub(crate) fn retain_picks(&mut self, is_waiting: impl Fn(JobId) -> bool) {
        self.picks.retain(|job, _| is_waiting(*job));
    }

    /// Notes the choices of a plan, and returns the messages of those that are new. `is_whole`: the plan left out no job
    /// that fits.
    pub(crate) fn take_plan(
        &mut self,
        planned: Vec<PlannedJob>,
        is_whole: bool,
        now: Timestamp,
        starving_after: Duration,
        wall: Timestamp,
    ) -> Vec<Message> {
        if is_whole {
            let placed: foldhash::HashSet<JobId> = planned.iter().map(|planned| planned.message.job_id).collect();
            for (_, pick) in self.picks.iter_mut().filter(|(job, _)| !placed.contains(*job)) {
                pick.free_since = None;
            }
        }
        let mut fresh = Vec::new();
        for PlannedJob { message, score } in planned {
            let known = self.picks.get_mut(&message.job_id).filter(|pick| pick.seq == message.dispatch_seq);
            if let Some(pick) = known {
                let since = *pick.free_since.get_or_insert(now);
                if !pick.is_counted && now.since(since) >= starving_after {
                    pick.is_counted = true;
                    let push = planned_text(&pick.factory, pick.score);
                    let poll =
                        format!("no factory claimed it for {} s, although a seat was free", starving_after.as_secs());
                    self.hours.of(&message.product_id, wall).counts.only_push += 1;
                    self.note(DivergenceKind::OnlyPush, &message, wall, (poll, push));
                }
                continue;
            }
            if self.picks.len() >= OPEN_MAX {
                continue;
            }
            let factory = message.target_factory_id.clone();
            let pick =
                ShadowPick { seq: message.dispatch_seq, factory, score, free_since: Some(now), is_counted: false };
            self.picks.insert(message.job_id, pick);
            fresh.push(message);
        }
        fresh
    }

    fn note(&mut self, kind: DivergenceKind, message: &Message, at: Timestamp, (poll, push): (String, String)) {
        let factory = Some(message.target_factory_id.clone());
        self.diverged(kind, &message.product_id, message.job_id, factory, at, (&poll, &push));
    }

    fn diverged(
        &mut self,
        kind: DivergenceKind,
        product: &ProductId,
        job: JobId,
        factory: Option<FactoryId>,
        at: Timestamp,
        (poll, push): (&str, &str),
    ) {
        let divergence = Divergence {
            at,
            kind,
            product_id: product.clone(),
            job_id: job,
            factory_id: factory,
            poll: short(poll, TEXT_CHARS_MAX),
            push: short(push, TEXT_CHARS_MAX),
        };
        self.hours.diverged(divergence);
    }

    /// Counts a claim.
    pub(crate) fn take_claim(&mut self, claim: ClaimOutcome, wall: Timestamp) {
        let pick = self.picks.remove(&claim.job).filter(|pick| pick.seq == claim.seq);
        if pick.as_ref().is_some_and(|pick| pick.is_counted) {
            return;
        }
        let planned = match pick {
            Some(pick) => Ok((pick.factory, pick.score)),
            None => claim.planned,
        };
        let poll = format!("claimed by `{}` (score {:.2})", claim.claimant, claim.score);
        let counts = &mut self.hours.of(&claim.product, wall).counts;
        let (kind, push) = match (planned, claim.against) {
            (Ok((factory, score)), Some(against)) => {
                counts.ineligible += 1;
                let push = format!("{}; `{}` {against}", planned_text(&factory, score), claim.claimant);
                (DivergenceKind::Ineligible, push)
            }
            (Err(why), Some(against)) => {
                counts.ineligible += 1;
                (DivergenceKind::Ineligible, format!("no factory: {why}; `{}` {against}", claim.claimant))
            }
            (Err(why), None) => {
                counts.only_poll += 1;
                (DivergenceKind::OnlyPoll, format!("no factory: {why}"))
            }
            (Ok((factory, _)), None) if factory == claim.claimant => {
                counts.same += 1;
                return;
            }
            (Ok(_), None) => {
                counts.other_eligible += 1;
                return;
            }
        };
        self.diverged(kind, &claim.product, claim.job, Some(claim.claimant), wall, (&poll, &push));
    }

    /// A message is about to be published.
    pub(crate) fn sending(&mut self, message: &Message, now: Duration, was_open: bool) {
        if self.messages.len() >= OPEN_MAX {
            return;
        }
        let (product, factory) = (message.product_id.clone(), message.target_factory_id.clone());
        self.messages.insert(message.id(), SentMessage { product, factory, at: now, was_open });
        self.due.push_back((now + DELIVERED_WITHIN, message.id()));
    }

    /// A message arrived at its factory at `now`.
    pub(crate) fn delivered(&mut self, factory: &FactoryId, id: MessageId, now: Duration, wall: Timestamp) {
        let Some(sent) = self.messages.get(&id).filter(|sent| sent.factory == *factory) else { return };
        let lag = now.saturating_sub(sent.at);
        if lag > DELIVERED_WITHIN {
            return self.missing(id, &format!("the message took {:.1} s", lag.as_secs_f64()), wall);
        }
        let product = sent.product.clone();
        self.messages.remove(&id);
        let hour = self.hours.of(&product, wall);
        hour.counts.delivered += 1;
        hour.lag.record(lag);
    }

    /// Counts a message as missing.
    pub(crate) fn missing(&mut self, id: MessageId, problem: &str, wall: Timestamp) {
        let Some(sent) = self.messages.remove(&id) else { return };
        self.hours.of(&sent.product, wall).counts.missing += 1;
        let (kind, poll, push) = message_divergence(problem);
        self.diverged(kind, &sent.product, id.job, Some(sent.factory), wall, (&poll, &push));
    }

    /// Counts a message as one without a result.
    pub(crate) fn unknown(&mut self, id: MessageId, wall: Timestamp) {
        let Some(sent) = self.messages.remove(&id) else { return };
        self.hours.of(&sent.product, wall).counts.unknown += 1;
    }

    /// The broker had this message already: whether it arrives again is not known.
    pub(crate) fn forget_message(&mut self, id: MessageId) {
        self.messages.remove(&id);
    }

    /// Messages that did not arrive in time, with their factories and whether those were connected.
    pub(crate) fn overdue(&mut self, now: Duration) -> Vec<(MessageId, FactoryId, bool)> {
        let mut overdue = Vec::new();
        while let Some((_, id)) = self.due.pop_front_if(|(due, _)| *due <= now) {
            overdue.extend(self.messages.get(&id).map(|sent| (id, sent.factory.clone(), sent.was_open)));
        }
        overdue
    }

    /// When the next message counts as missing.
    pub(crate) fn next_due(&mut self) -> Option<Duration> {
        let Self { due, messages, .. } = self;
        while due.pop_front_if(|(_, id)| !messages.contains_key(id)).is_some() {}
        due.front().map(|(due, _)| *due)
    }
}

fn planned_text(factory: &FactoryId, score: f64) -> String {
    format!("`{factory}` (score {score:.2})")
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;
    use protocol::ShadowCounts;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);

    fn claim(planned: Result<&str, &str>, against: Option<&str>) -> ClaimOutcome {
        ClaimOutcome {
            job: JobId::from_bytes([1; 16]),
            seq: DispatchSeq(1),
            product: ProductId::default_product(),
            claimant: "mac".parse().unwrap(),
            score: 2.0,
            planned: planned.map(|factory| (factory.parse().unwrap(), 3.0)).map_err(str::to_owned),
            against: against.map(str::to_owned),
        }
    }

    // [D1]
    #[test]
    fn every_claim_counts_once_by_what_the_plan_would_have_done() {
        let full = Err("all seats are in use");
        let lacks = Some("lacks `has:xcode`");
        let mut comparison = Comparison::default();

        for (planned, against) in
            [(Ok("mac"), None), (Ok("pc"), None), (Ok("pc"), lacks), (full, lacks), (full, None), (Ok("mac"), None)]
        {
            comparison.take_claim(claim(planned, against), NOW);
        }

        let [(_, _, hour)] = &comparison.hours.recent(NOW).collect::<Vec<_>>()[..] else { panic!("one hour") };
        let counts =
            ShadowCounts { same: 2, other_eligible: 1, ineligible: 2, only_poll: 1, ..ShadowCounts::default() };
        let told: Vec<_> =
            hour.divergences.iter().map(|one| (one.kind, one.poll.as_str(), one.push.as_str())).collect();
        let poll = "claimed by `mac` (score 2.00)";
        assert_eq!(hour.counts, counts);
        assert_eq!(
            told,
            [
                (DivergenceKind::Ineligible, poll, "`pc` (score 3.00); `mac` lacks `has:xcode`"),
                (DivergenceKind::Ineligible, poll, "no factory: all seats are in use; `mac` lacks `has:xcode`"),
                (DivergenceKind::OnlyPoll, poll, "no factory: all seats are in use"),
            ]
        );
    }

    // [D1]
    #[test]
    fn a_message_counts_once_and_only_from_its_factory() {
        let message = Message {
            job_id: JobId::from_bytes([1; 16]),
            dispatch_seq: DispatchSeq(1),
            product_id: ProductId::default_product(),
            repo: None,
            caps: Vec::new(),
            priority: domain::Priority::Normal,
            target_factory_id: "mac".parse().unwrap(),
            shadow: true,
        };
        let (mac, pc) = ("mac".parse().unwrap(), "pc".parse().unwrap());
        let second = Duration::from_secs(1);
        let mut comparison = Comparison::default();

        comparison.sending(&message, second, true);
        comparison.delivered(&pc, message.id(), second, NOW);
        assert_eq!(comparison.next_due(), Some(second * 6));
        comparison.delivered(&mac, message.id(), second * 2, NOW);
        comparison.delivered(&mac, message.id(), second * 2, NOW);
        assert_eq!((comparison.next_due(), comparison.overdue(second * 60)), (None, vec![]));
        comparison.sending(&message, second, true);
        comparison.delivered(&mac, message.id(), second * 9, NOW);

        let counts = ShadowCounts { delivered: 1, missing: 1, ..ShadowCounts::default() };
        assert_eq!(comparison.hours.recent(NOW).next().unwrap().2.counts, counts);
        let late = &comparison.hours.recent(NOW).next().unwrap().2.divergences[0];
        assert_eq!((late.kind, late.push.as_str()), (DivergenceKind::Missing, "the message took 8.0 s"));
    }
}
