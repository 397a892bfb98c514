//! The comparison of dispatch modes: what the plan of push mode would have done, beside what factories claimed [D1].

use std::fmt;

use domain::{FactoryId, JobId, Mode, ProductId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Hours with decisions before push mode can be trusted: a day shows every regular load.
const HOURS_MIN: u32 = 24;

/// Decisions before push mode can be trusted: one divergence in a thousand must be able to show.
const DECISIONS_MIN: u64 = 1_000;

/// One divergence in so many decisions is tolerated.
const DECISIONS_PER_DIVERGENCE: u64 = 1_000;

/// How push mode compares with polling in the last 168 hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DivergenceReport {
    /// All products of the answer together.
    pub summary: ShadowSummary,
    /// By product.
    pub products: Vec<ProductDivergence>,
    /// The hours with decisions, oldest first, all products of the answer together.
    pub hours: Vec<ShadowHour>,
    /// The last 200 divergences, newest first.
    pub divergences: Vec<Divergence>,
}

/// How push mode compares with polling for one product.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProductDivergence {
    /// The product.
    pub product_id: ProductId,
    /// Its dispatch mode.
    pub mode: Mode,
    /// Whether its claims are compared now.
    pub compared: bool,
    /// The comparison.
    pub summary: ShadowSummary,
}

/// The sum of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShadowSummary {
    /// Hours with decisions.
    pub hours: u32,
    /// Decisions that were compared.
    #[schema(minimum = 0)]
    pub decisions: u64,
    /// Decisions that differ in more than the choice among eligible factories.
    #[schema(minimum = 0)]
    pub divergent: u64,
    /// What was counted.
    pub counts: ShadowCounts,
    /// How long shadow messages took; absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<ShadowLag>,
    /// Whether push mode can take over.
    pub verdict: CutOverVerdict,
}

/// The counts of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShadowCounts {
    /// The factory that the plan chose claimed the job.
    #[schema(minimum = 0)]
    pub same: u64,
    /// Another eligible factory claimed the job. Not a divergence: which one polls first is chance.
    #[schema(minimum = 0)]
    pub other_eligible: u64,
    /// A factory claimed the job that the plan would not have used for it.
    #[schema(minimum = 0)]
    pub ineligible: u64,
    /// A factory claimed the job, and the plan had no factory for it.
    #[schema(minimum = 0)]
    pub only_poll: u64,
    /// The plan had a free seat for the job, and no factory claimed it for long.
    #[schema(minimum = 0)]
    pub only_push: u64,
    /// Shadow messages that reached their factory in time.
    #[schema(minimum = 0)]
    pub delivered: u64,
    /// Shadow messages that did not.
    #[schema(minimum = 0)]
    pub missing: u64,
    /// Shadow messages without a result: their factory or the coordinator restarted meanwhile.
    #[schema(minimum = 0)]
    pub unknown: u64,
}

/// What was counted in one hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShadowHour {
    /// When the hour began.
    pub hour: Timestamp,
    /// What was counted.
    pub counts: ShadowCounts,
    /// How long shadow messages took; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<ShadowLag>,
}

/// How long shadow messages took from the decision until the factory had them, in milliseconds. Quantiles are rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShadowLag {
    /// Half of the messages took at most this long.
    #[schema(minimum = 0)]
    pub p50_ms: u64,
    /// 99 % of the messages took at most this long.
    #[schema(minimum = 0)]
    pub p99_ms: u64,
    /// The slowest message.
    #[schema(minimum = 0)]
    pub max_ms: u64,
}

/// One difference between the two modes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Divergence {
    /// When it was found.
    pub at: Timestamp,
    /// The kind.
    pub kind: DivergenceKind,
    /// The product.
    pub product_id: ProductId,
    /// The job.
    pub job_id: JobId,
    /// The factory that claimed the job, or that the message was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory_id: Option<FactoryId>,
    /// What happened by polling.
    pub poll: String,
    /// What push mode would have done.
    pub push: String,
}

/// How the two modes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DivergenceKind {
    /// A factory claimed the job that the plan would not have used for it.
    Ineligible,
    /// A factory claimed the job, and the plan had no factory for it.
    OnlyPoll,
    /// The plan had a free seat for the job, and no factory claimed it.
    OnlyPush,
    /// The shadow message did not arrive in time.
    Missing,
}

/// Whether push mode can take over from polling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CutOverVerdict {
    /// Whether it can.
    pub safe: bool,
    /// The verdict in one sentence.
    pub text: String,
    /// What is lacking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<String>,
}

impl DivergenceKind {
    /// The name in requests, documents and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ineligible => "ineligible",
            Self::OnlyPoll => "only-poll",
            Self::OnlyPush => "only-push",
            Self::Missing => "missing",
        }
    }
}

impl fmt::Display for DivergenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ShadowCounts {
    /// Decisions that were compared.
    pub fn decisions(&self) -> u64 {
        self.same + self.other_eligible + self.divergent()
    }

    /// Decisions that differ in more than the choice among eligible factories.
    pub fn divergent(&self) -> u64 {
        self.ineligible + self.only_poll + self.only_push
    }

    /// Adds the counts of another period.
    pub fn add(&mut self, other: &Self) {
        self.same += other.same;
        self.other_eligible += other.other_eligible;
        self.ineligible += other.ineligible;
        self.only_poll += other.only_poll;
        self.only_push += other.only_push;
        self.delivered += other.delivered;
        self.missing += other.missing;
        self.unknown += other.unknown;
    }
}

impl ShadowSummary {
    /// The sum of a comparison over a number of hours with decisions.
    pub fn of(counts: ShadowCounts, hours: u32, lag: Option<ShadowLag>) -> Self {
        let (decisions, divergent) = (counts.decisions(), counts.divergent());
        Self { hours, decisions, divergent, counts, lag, verdict: CutOverVerdict::of(&counts, hours) }
    }
}

impl CutOverVerdict {
    fn of(counts: &ShadowCounts, hours: u32) -> Self {
        let (decisions, divergent) = (counts.decisions(), counts.divergent());
        let mut lacking = Vec::new();
        if hours < HOURS_MIN {
            lacking.push(format!("decisions in {hours} of {HOURS_MIN} hours"));
        }
        if decisions < DECISIONS_MIN {
            lacking.push(format!("{decisions} of {DECISIONS_MIN} decisions"));
        }
        if divergent * DECISIONS_PER_DIVERGENCE > decisions {
            lacking.push(format!("{divergent} of {decisions} decisions diverge, 0.1 % may"));
        }
        if counts.missing > 0 {
            lacking.push(format!("{} missing, none may", domain::counted(counts.missing, "shadow message")));
        }
        let safe = lacking.is_empty();
        let text = if safe { "safe to cut over".to_owned() } else { format!("not yet: {}", lacking.join("; ")) };
        Self { safe, text, lacking }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(counts: ShadowCounts, hours: u32) -> CutOverVerdict {
        ShadowSummary::of(counts, hours, None).verdict
    }

    // [D1] [I13]
    #[test]
    fn a_cut_over_is_safe_after_a_day_of_agreement() {
        let agreed = ShadowCounts { same: 900, other_eligible: 99, ineligible: 1, ..ShadowCounts::default() };

        assert_eq!(
            verdict(agreed, 24),
            CutOverVerdict { safe: true, text: "safe to cut over".to_owned(), lacking: vec![] }
        );
        for (counts, hours, lacking) in [
            (agreed, 23, "decisions in 23 of 24 hours"),
            (ShadowCounts { same: 899, ..agreed }, 24, "999 of 1000 decisions"),
            (ShadowCounts { only_poll: 1, ..agreed }, 24, "2 of 1001 decisions diverge, 0.1 % may"),
            (ShadowCounts { missing: 1, ..agreed }, 24, "1 shadow message missing, none may"),
        ] {
            let found = verdict(counts, hours);
            assert!(!found.safe && found.lacking.iter().any(|one| one == lacking), "{lacking}: {found:?}");
            assert!(found.text.starts_with("not yet: "), "{}", found.text);
        }
    }

    #[test]
    fn every_kind_of_divergence_is_written_by_its_name() {
        for kind in
            [DivergenceKind::Ineligible, DivergenceKind::OnlyPoll, DivergenceKind::OnlyPush, DivergenceKind::Missing]
        {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
