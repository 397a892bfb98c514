//! Dry run of a claim: what it would be granted, and why not more. Nothing is written or reserved.

use domain::{FactoryId, ProductId};
use protocol::{ClaimRequest, ClaimResponse, NotGranted, WouldGrant};

use super::pick::{Pick, limit_of};
use super::{check, claimant};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;

/// The limit of listed reasons.
const REASONS_MAX: usize = 20;

impl Coordinator {
    /// What a claim would be granted now. `granted` shows what its nonce has already won.
    pub async fn claim_dry_run(&self, who: &Principal, request: &ClaimRequest) -> Result<ClaimResponse, Error> {
        let factory = claimant(who, request)?;
        check(request)?;
        let process = self.process(factory, request.instance)?;
        let mut answer = self.claimed(who, request, self.granted_before(&process, request)).await?;
        if let Err(refusal) = self.check_claimant(factory, request) {
            answer.passed_over.push(NotGranted { job_id: None, why: refusal.to_string() });
            return Ok(answer);
        }
        let (picks, passed) = self.simulate(who, factory, request);
        for pick in picks {
            let job_id = pick.placement.job;
            match self.unmet(&pick.job.value).await? {
                Some(why) => answer.passed_over.push(NotGranted { job_id: Some(job_id), why }),
                None => answer.would_grant.push(WouldGrant {
                    job_id,
                    product_id: pick.job.value.product().clone(),
                    engine: pick.placement.engine,
                    score: pick.placement.score.total,
                }),
            }
        }
        answer.passed_over.extend(passed);
        Ok(answer)
    }

    /// Selects the jobs of a claim and returns them to the queue under one lock.
    fn simulate(&self, who: &Principal, factory: &FactoryId, request: &ClaimRequest) -> (Vec<Pick>, Vec<NotGranted>) {
        let now = self.steady();
        // A product outside the token's scope does not exist for the factory.
        let is_asked = |product: &ProductId| request.asks_for(product) && who.sees(product);
        let mut state = self.state.lock();
        let mut picks = Vec::new();
        let mut named = request.jobs.as_deref().map(|jobs| jobs.iter().copied());
        while picks.len() < limit_of(request) {
            let pick = match &mut named {
                None => self.next_pick(&mut state, factory, None, is_asked),
                Some(jobs) => jobs.find_map(|job| self.next_pick(&mut state, factory, Some(job), is_asked)),
            };
            let Some(pick) = pick else { break };
            picks.push(pick);
        }
        let view = state.view(now, &self.settings.weights, 1);
        let passed = scheduler::skipped(&view, factory, |product| who.sees(product), REASONS_MAX);
        for pick in &picks {
            state.put_back(pick.placement.job, now);
        }
        let why = |passed: scheduler::SkippedJob| {
            let reasons: Vec<_> = passed.unfit.iter().map(ToString::to_string).collect();
            let why = match reasons.as_slice() {
                [] => "it failed on this factory before, and another factory can run it".to_owned(),
                reasons => format!("the factory {}", reasons.join(", ")),
            };
            NotGranted { job_id: Some(passed.job), why }
        };
        (picks, passed.into_iter().map(why).collect())
    }
}
