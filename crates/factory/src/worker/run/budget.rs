//! What is left of a job's budget for its next run. The budget is for all runs of the job together.

use std::time::Duration;

use engines::Allowance;
use protocol::Assignment;

use super::StartFailure;

/// What the next run may use. Unknown usage of runs that ended by themselves may be the whole budget: uncertain money
/// and tokens are not spent, and a person decides whether to start over. An interrupted run blocks nothing: it is no
/// failure, and the job goes on with what is known to be left.
pub(super) fn budget_left(assignment: &Assignment) -> Result<Allowance, StartFailure> {
    let (budget, spent) = (&assignment.spec.budget, &assignment.spent);
    let wall = budget.wall_ms.map(|ms| Duration::from_millis(ms.saturating_sub(spent.engine_ms.unwrap_or(0))));
    let usd = budget.usd.map(|usd| usd - spent.cost_usd.unwrap_or(0.0));
    let tokens = budget.tokens.map(|tokens| tokens.saturating_sub(spent.tokens.unwrap_or(0)));
    if usd.is_some_and(|left| left <= 0.0) {
        return Err(StartFailure::Budget("budget.usd"));
    }
    if tokens == Some(0) {
        return Err(StartFailure::Budget("budget.tokens"));
    }
    if wall.is_some_and(|left| left.is_zero()) {
        return Err(StartFailure::Budget("budget.wall"));
    }
    let untold = [
        (usd.is_some(), spent.runs_without_cost.saturating_sub(spent.interrupted_without_cost), "budget.usd"),
        (tokens.is_some(), spent.runs_without_tokens.saturating_sub(spent.interrupted_without_tokens), "budget.tokens"),
    ];
    if let Some((_, runs, budget)) = untold.into_iter().find(|(is_limited, runs, _)| *is_limited && *runs > 0) {
        return Err(StartFailure::UnknownSpending { runs, budget });
    }
    Ok(Allowance { wall, usd, tokens, ..Allowance::default() })
}

/// A note on that allowance: interrupted runs may have used some of it.
pub(super) fn left_uncounted(assignment: &Assignment) -> Option<String> {
    let (budget, spent) = (&assignment.spec.budget, &assignment.spent);
    let cost = budget.usd.map(|_| (spent.interrupted_without_cost, "budget.usd"));
    let tokens = budget.tokens.map(|_| (spent.interrupted_without_tokens, "budget.tokens"));
    let (runs, budget) = cost.into_iter().chain(tokens).find(|(runs, _)| *runs > 0)?;
    let runs = if runs == 1 { "1 interrupted run".to_owned() } else { format!("{runs} interrupted runs") };
    Some(format!("[what {runs} used of the job's `{budget}` is not known: this one has what is known to be left]"))
}

#[cfg(test)]
mod tests {
    use domain::{Budget, JobId, ProductId, Spec, TotalSpend};

    use super::*;

    fn assigned(budget: Budget, spent: TotalSpend) -> Assignment {
        Assignment {
            job_id: JobId::from_bytes([1; 16]),
            product_id: ProductId::default_product(),
            repo: None,
            base: None,
            engine: None,
            attempts: 1,
            spent,
            spec: Spec { budget, ..Spec::default() },
            body_md: String::new(),
            persona: None,
            checkpoint: None,
            changes: None,
            answer: None,
            conflict: None,
            message: None,
            previous_run: None,
            children: Vec::new(),
            may_create_subtasks: false,
            errand: None,
        }
    }

    fn left(budget: Budget, spent: TotalSpend) -> Result<Allowance, String> {
        budget_left(&assigned(budget, spent)).map_err(|trouble| trouble.to_string())
    }

    // [T2] [B8]
    #[test]
    fn a_run_that_was_interrupted_leaves_what_is_known_to_be_left_and_says_so() {
        let assignment = assigned(
            Budget { usd: Some(5.0), tokens: Some(1_000), ..Budget::default() },
            TotalSpend {
                cost_usd: Some(1.5),
                runs_without_cost: 2,
                runs_without_tokens: 2,
                interrupted_without_cost: 2,
                interrupted_without_tokens: 2,
                ..TotalSpend::default()
            },
        );

        let allowance = budget_left(&assignment).unwrap();

        assert_eq!((allowance.usd, allowance.tokens), (Some(3.5), Some(1_000)));
        let said = "[what 2 interrupted runs used of the job's `budget.usd` is not known: this one has what is known to \
             be left]";
        assert_eq!(left_uncounted(&assignment).as_deref(), Some(said));
        assert_eq!(left_uncounted(&assigned(Budget::default(), assignment.spent)), None);
    }

    // [T2] [B8]
    #[test]
    fn what_earlier_runs_took_of_each_part_is_gone() {
        let budget = Budget { usd: Some(5.0), wall_ms: Some(60_000), tokens: Some(1_000) };
        let spent =
            TotalSpend { cost_usd: Some(1.5), tokens: Some(400), engine_ms: Some(20_000), ..TotalSpend::default() };

        let allowance = left(budget.clone(), spent).unwrap();

        let expected = (Some(3.5), Some(600), Some(Duration::from_secs(40)));
        assert_eq!((allowance.usd, allowance.tokens, allowance.wall), expected);
        let over = TotalSpend { engine_ms: Some(60_001), ..TotalSpend::default() };
        assert_eq!(left(budget, over).unwrap_err(), "nothing is left of the job's `budget.wall`");
    }

    // [T2] [B8]
    #[test]
    fn money_is_not_spent_when_the_remainder_is_unknown() {
        let unknown = TotalSpend { runs_without_cost: 1, ..TotalSpend::default() };
        let with_money = Budget { usd: Some(5.0), ..Budget::default() };

        let refused = left(with_money, unknown).unwrap_err();

        let expected = "what 1 earlier run used of the job's `budget.usd` is not known, so nothing of it can be counted on: \
             `giga requeue` lets the job go on from its saved work with a whole budget";
        assert_eq!(refused, expected);
        assert_eq!(left(Budget::default(), unknown), Ok(Allowance::default()), "without a budget nothing is counted");
    }
}
