//! Plans: one Markdown file becomes a tree of jobs, accepted as a whole [J4].

use domain::{Dep, Finding, Kind, Plan, PlannedJob, Severity, Strictness};
use protocol::{PlanRequest, PlanResponse, PlannedJobView, PlannedPlacement, SubmitRequest};
use scheduler::ExplainedOutcome;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::SubmitOutcome;
use crate::submit::validate::{ValidatedJob, is_of_rejected_tree};

impl Coordinator {
    /// Submits the jobs of a plan in one flush; the same plan once.
    pub async fn submit_plan(&self, who: &Principal, request: &PlanRequest) -> Result<PlanResponse, Error> {
        let plan = parse(request)?;
        let outcomes = self.submit_all(who, requests(request, &plan)).await?;
        let taken: Vec<SubmitOutcome> = accepted(&plan, outcomes)?;
        let jobs = plan.jobs.iter().zip(&taken).map(|(planned, outcome)| {
            let job = &outcome.job.value;
            PlannedJobView { id: Some(job.id()), stage: Some(job.stage().name()), ..view(planned) }
        });
        let (jobs, created) = (jobs.collect(), taken.iter().any(|outcome| outcome.created));
        Ok(PlanResponse { jobs, created, warnings: plan.warnings })
    }

    /// Reports what a plan would become and where its jobs would run, and writes nothing [B2].
    pub async fn submit_plan_dry(&self, who: &Principal, request: &PlanRequest) -> Result<PlanResponse, Error> {
        let plan = parse(request)?;
        let outcomes = self.validate(who, requests(request, &plan)).await?.outcomes;
        let valid: Vec<ValidatedJob> = accepted(&plan, outcomes)?;
        let jobs = plan.jobs.iter().zip(&valid).map(|(planned, valid)| {
            let placement = (!planned.is_composite).then(|| {
                let job = &valid.job;
                let forecast = self.explanation_for(who, job.id(), self.forecast(job));
                let unplaceable = matches!(forecast.answer, ExplainedOutcome::Waits { unplaceable: true, .. });
                PlannedPlacement { text: forecast.text, unplaceable }
            });
            PlannedJobView { placement, ..view(planned) }
        });
        Ok(PlanResponse { jobs: jobs.collect(), created: false, warnings: plan.warnings })
    }
}

fn parse(request: &PlanRequest) -> Result<Plan, Error> {
    let strictness = if request.strict { Strictness::Strict } else { Strictness::Lenient };
    Plan::parse(&request.body_md, request.key.as_deref(), strictness).map_err(Error::Manifest)
}

fn requests(request: &PlanRequest, plan: &Plan) -> Vec<SubmitRequest> {
    let jobs = plan.jobs.iter().map(|job| SubmitRequest {
        body_md: job.manifest.clone(),
        idempotency_key: Some(job.key.clone()),
        product_id: request.product_id.clone(),
        parent: job.parent.map(|parent| Dep::Key(plan.jobs[parent].key.clone())),
        strict: request.strict,
    });
    jobs.collect()
}

/// The outcomes of all jobs, or why the plan is rejected. What is wrong with the text is listed by heading.
fn accepted<T>(plan: &Plan, outcomes: Vec<Result<T, Error>>) -> Result<Vec<T>, Error> {
    let (mut taken, mut findings) = (Vec::with_capacity(outcomes.len()), Vec::new());
    for (job, outcome) in plan.jobs.iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => taken.push(outcome),
            Err(error) if is_of_rejected_tree(&error) => {}
            Err(Error::Manifest(found)) => findings.extend(found.into_iter().map(|finding| at_heading(job, finding))),
            Err(error @ (Error::Invalid { .. } | Error::NoSuchDep(_) | Error::DependencyCycle(_))) => {
                let message = error.to_string();
                findings.push(at_heading(job, Finding { line: 1, key: None, message, severity: Severity::Error }));
            }
            Err(error) => return Err(error),
        }
    }
    if findings.is_empty() { Ok(taken) } else { Err(Error::Manifest(findings)) }
}

fn at_heading(job: &PlannedJob, finding: Finding) -> Finding {
    let title = domain::escape_for_terminal(&job.title);
    Finding { line: job.line, message: format!("{title}: {}", finding.message), ..finding }
}

fn view(job: &PlannedJob) -> PlannedJobView {
    let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    PlannedJobView {
        title: job.title.clone(),
        line: job.line,
        kind: if job.is_composite { Kind::Composite } else { Kind::Task },
        parent: job.parent.map(place),
        after: job.after.iter().copied().map(place).collect(),
        id: None,
        stage: None,
        placement: None,
    }
}
