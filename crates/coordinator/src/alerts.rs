//! What a person should know, computed from what is: an alert ends by itself when its cause does [I9].

use domain::{Flags, Mode, StageName, Timestamp};
use protocol::{Alert, AlertCode, AlertList};
use scheduler::{FleetView, Placement, Plan, Presence, Unplaced};

use crate::coordinator::Coordinator;
use crate::desk::Desk;
use crate::error::Error;
use crate::principal::Principal;

/// More alerts of one kind than this are not read one by one.
const ERRANDS_LOOKED_AT_MAX: usize = 100;

impl Coordinator {
    /// Everything that is not as it should be.
    pub async fn alerts(&self, who: &Principal) -> Result<AlertList, Error> {
        who.look()?;
        if self.is_warming() {
            return Ok(AlertList { items: Vec::new() });
        }
        let mut items = self.queue_alerts(who);
        items.extend(self.errand_alerts(who));
        items.extend(self.factory_alerts());
        items.extend(self.dead_letter_alert(who).await?);
        for (job, since) in self.counters.duplicates() {
            let message = format!(
                "the broker called a new dispatch of job `{job}` a duplicate: its duplicate detection is at fault"
            );
            items.push(alert(AlertCode::DuplicateDispatch, message, since, Some(job)));
        }
        items.sort_by_key(|alert| (alert.code, alert.since));
        Ok(AlertList { items })
    }

    fn queue_alerts(&self, who: &Principal) -> Vec<Alert> {
        let now = self.now();
        let desk = self.desk.lock();
        // What factories ask for can be unplaceable just as what is offered to them.
        let everything = Flags::default();
        let view = FleetView { flags: &everything, ..desk.view(now, &self.settings.weights, usize::MAX) };
        let plan = scheduler::plan(&view);
        let mut alerts = Vec::from_iter(self.lag_alert(who, &desk, &plan, now));
        for unplaced in plan.unplaced {
            if !who.sees(&unplaced.shape.product) {
                continue;
            }
            let since = desk.waiting_since(unplaced.oldest).unwrap_or(now);
            let code = match &unplaced.why {
                Unplaced::NoFactories | Unplaced::Away { .. } => AlertCode::NoLiveFactory,
                why if why.is_unplaceable() => AlertCode::Unplaceable,
                // It says when it goes on, and nobody has to do anything.
                Unplaced::UsageWindow { .. } => continue,
                _ if now.since(since) >= self.settings.starving_after => AlertCode::QueueStarvation,
                _ => continue,
            };
            let message = format!("{} job(s) wait: {}", unplaced.jobs, unplaced.why);
            let mut alert = alert(code, message, since, Some(unplaced.oldest));
            alert.jobs = Some(unplaced.jobs as u64);
            alerts.push(alert);
        }
        alerts
    }

    /// Jobs that have waited although a seat is free for them: the dispatcher does not keep up or cannot write, or nobody
    /// asks for them.
    fn lag_alert(&self, who: &Principal, desk: &Desk, plan: &Plan, now: Timestamp) -> Option<Alert> {
        let waited = |placement: &Placement| {
            let job = desk.job(placement.job).filter(|job| who.sees(job.value.product()))?;
            let since = desk.waiting_since(placement.job)?;
            let patience = match desk.flags.mode_of(job.value.product()) {
                Mode::Push => self.settings.accept_within,
                Mode::Poll | Mode::Gate | Mode::Shadow | Mode::SelfSelect => self.settings.starving_after,
            };
            (now.since(since) > patience).then(|| (since, job.value.id()))
        };
        let late: Vec<_> = plan.placements.iter().filter_map(waited).collect();
        let (since, oldest) = *late.iter().min()?;
        let message = format!(
            "{} job(s) wait although seats are free for them: is the store writable, do factories ask?",
            late.len()
        );
        let mut alert = alert(AlertCode::DispatchLag, message, since, Some(oldest));
        alert.jobs = Some(late.len() as u64);
        Some(alert)
    }

    /// Promotions and merges that no live factory can take.
    fn errand_alerts(&self, who: &Principal) -> Vec<Alert> {
        let now = self.now();
        let desk = self.desk.lock();
        let view = desk.view(now, &self.settings.weights, 1);
        let mut alerts = Vec::new();
        for id in desk.errands.ready(ERRANDS_LOOKED_AT_MAX) {
            let Some(job) = desk.job(id).filter(|job| who.sees(job.value.product())) else { continue };
            let (Some(errand), Some(repo)) = (job.value.errand(), &job.value.spec().repo) else { continue };
            if scheduler::errand(&view, repo, job.value.product(), None).is_some() {
                continue;
            }
            let message = format!(
                "job `{id}` is done and waits to {}: no live factory has `{repo}`, bring one back or let one clone it",
                errand.kind.name()
            );
            alerts.push(alert(AlertCode::Unplaceable, message, job.value.updated_at(), Some(id)));
        }
        alerts
    }

    fn factory_alerts(&self) -> Vec<Alert> {
        let desk = self.desk.lock();
        let is_stale =
            |id: &&domain::FactoryId| desk.fleet.get(id).is_some_and(|state| state.presence == Presence::Stale);
        let stale = desk.factories.keys().filter(is_stale);
        stale
            .map(|id| {
                let since = desk.pulses.get(id).map_or(self.started_at, |pulse| pulse.last);
                let message = format!(
                    "factory `{id}` has been silent since {since}: start it, or forget it with `giga factories --prune`"
                );
                let mut alert = alert(AlertCode::StaleFactory, message, since, None);
                alert.factory_id = Some(id.clone());
                alert
            })
            .collect()
    }

    async fn dead_letter_alert(&self, who: &Principal) -> Result<Option<Alert>, Error> {
        let census = self.ports.history.census().await?;
        let is_dead = |(product, stage, _): &&(domain::ProductId, StageName, u64)| {
            *stage == StageName::DeadLetter && who.sees(product)
        };
        let count: u64 = census.iter().filter(is_dead).map(|(_, _, count)| count).sum();
        Ok((count > 0).then(|| {
            let message = format!("{count} job(s) are in the dead letters: look with `giga jobs --stage dead_letter`, send one round again with `giga requeue`");
            let mut alert = alert(AlertCode::DeadLetter, message, self.started_at, None);
            alert.jobs = Some(count);
            alert
        }))
    }
}

fn alert(code: AlertCode, message: String, since: domain::Timestamp, job_id: Option<domain::JobId>) -> Alert {
    Alert { code, message, since, job_id, factory_id: None, jobs: None }
}
