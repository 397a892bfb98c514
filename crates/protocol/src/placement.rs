//! The decision by which a job was placed, as it was taken [S4].

use domain::{EngineName, EventKind, FactoryId, JobEvent, Timestamp};
use scheduler::{Placement, RunnerUp, Score, Weights};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// The key of the decision in the data of its event.
const KEY: &str = "decision";

/// Why a job was placed on a factory, at the time of the decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementDecision {
    /// When it was taken.
    pub at: Timestamp,
    /// The chosen factory.
    pub factory: FactoryId,
    /// The engine whose seat it got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// The score of the factory then.
    pub score: Score,
    /// The weights of the score then.
    pub weights: Weights,
    /// The factories that came next, best first; at most five.
    pub runners_up: Vec<RunnerUp>,
}

/// What the event of a dispatch keeps of the decision: few bytes, for every dispatch writes them.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    engine: Option<EngineName>,
    /// Fit, affinity, idle, cost, health, wait.
    terms: [f64; 6],
    /// The same order; absent for the default weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weights: Option<[f64; 6]>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    runners_up: Vec<(FactoryId, f64)>,
}

impl PlacementDecision {
    /// Adds the decision behind a placement to the data of its event.
    pub fn record(placement: &Placement, data: &mut Map<String, Value>) {
        let (score, own) = (&placement.score, &placement.weights);
        let terms = [
            score.capability_fit,
            score.affinity,
            score.idleness,
            score.cost_fit,
            score.health,
            score.starvation_penalty,
        ];
        let weights =
            [own.capability_fit, own.affinity, own.idleness, own.cost_fit, own.health, own.starvation_penalty];
        let kept = Kept {
            engine: placement.engine.clone(),
            terms: terms.map(rounded),
            weights: (*own != Weights::default()).then_some(weights),
            runners_up: placement.runners_up.iter().map(|next| (next.factory.clone(), rounded(next.total))).collect(),
        };
        data.insert(KEY.to_owned(), json!(kept));
    }

    /// The decision that an event records. `None` for other events, and for those of earlier versions.
    #[must_use]
    pub fn of(event: &JobEvent) -> Option<Self> {
        if event.kind != EventKind::Dispatched {
            return None;
        }
        let kept: Kept = serde_json::from_value(event.data.get(KEY)?.clone()).ok()?;
        let [capability_fit, affinity, idleness, cost_fit, health, starvation_penalty] = kept.terms;
        let total = event.data.get("score")?.as_f64()?;
        let weights = kept.weights.map_or_else(Weights::default, |weights| {
            let [capability_fit, affinity, idleness, cost_fit, health, starvation_penalty] = weights;
            Weights { capability_fit, affinity, idleness, cost_fit, health, starvation_penalty }
        });
        Some(Self {
            at: event.at,
            factory: event.data.get("targetFactoryId")?.as_str()?.parse().ok()?,
            engine: kept.engine,
            score: Score { capability_fit, affinity, idleness, cost_fit, health, starvation_penalty, total },
            weights,
            runners_up: kept.runners_up.into_iter().map(|(factory, total)| RunnerUp { factory, total }).collect(),
        })
    }

    /// `m1, engine claude, score 3.12 (fit 1.00, …); then m2 3.01, m3 2.90`
    #[must_use]
    pub fn text(&self) -> String {
        let engine = self.engine.as_ref().map_or_else(String::new, |engine| format!(", engine {engine}"));
        let score = &self.score;
        let next: Vec<String> =
            self.runners_up.iter().map(|next| format!("{} {:.2}", next.factory, next.total)).collect();
        let next =
            if next.is_empty() { "; no other was eligible".to_owned() } else { format!("; then {}", next.join(", ")) };
        // Adding zero makes a negative zero an ordinary one.
        let wait = 0.0 - score.starvation_penalty;
        format!(
            "{}{engine}, score {:.2} (fit {:.2}, affinity {:.2}, idle {:.2}, cost {:.2}, health {:.2}, wait {wait:.2}){}{next}",
            self.factory,
            score.total,
            score.capability_fit,
            score.affinity,
            score.idleness,
            score.cost_fit,
            score.health,
            weights_text(&self.weights).map_or_else(String::new, |weights| format!(", by the weights {weights}")),
        )
    }
}

/// `affinity 2, health 0.5`: the weights that are not the default ones.
#[must_use]
pub fn weights_text(weights: &Weights) -> Option<String> {
    let default = Weights::default();
    let terms = [
        ("fit", weights.capability_fit, default.capability_fit),
        ("affinity", weights.affinity, default.affinity),
        ("idle", weights.idleness, default.idleness),
        ("cost", weights.cost_fit, default.cost_fit),
        ("health", weights.health, default.health),
        ("wait", weights.starvation_penalty, default.starvation_penalty),
    ];
    let own = terms.into_iter().filter(|(_, weight, default)| weight.total_cmp(default).is_ne());
    let own: Vec<String> = own.map(|(name, weight, _)| format!("{name} {weight}")).collect();
    (!own.is_empty()).then(|| own.join(", "))
}

/// Three decimals: a score is compared, not computed with.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use domain::{Actor, Epoch, EventSeq, JobId, ProductId, StageName};

    use super::*;

    fn event(data: Value) -> JobEvent {
        JobEvent {
            job_id: JobId::from_bytes([1; 16]),
            product_id: ProductId::default_product(),
            seq: EventSeq(2),
            at: Timestamp::from_millis(1),
            kind: EventKind::Dispatched,
            stage: StageName::Queued,
            epoch: Epoch(0),
            by: Actor::Coordinator,
            text: String::new(),
            data,
        }
    }

    fn placement(runners_up: usize) -> Placement {
        let named = |n: usize| format!("factory-number-{n}").parse().unwrap();
        let score = Score {
            capability_fit: 1.0 / 3.0,
            affinity: 1.0,
            idleness: 0.5,
            cost_fit: 0.9,
            health: 1.0,
            starvation_penalty: 0.987_654,
            total: 2.5,
        };
        Placement {
            job: JobId::from_bytes([1; 16]),
            factory: named(0),
            engine: Some("claude".parse().unwrap()),
            score,
            weights: Weights { affinity: 2.0, ..Weights::default() },
            runners_up: (1..=runners_up).map(|n| RunnerUp { factory: named(n), total: 2.0 / 3.0 }).collect(),
        }
    }

    // [S4]
    #[test]
    fn a_recorded_decision_is_read_back_and_small() {
        let mut data = Map::new();
        PlacementDecision::record(&placement(5), &mut data);
        let len = Value::Object(data.clone()).to_string().len();
        data.extend([("score".to_owned(), json!(2.5)), ("targetFactoryId".to_owned(), json!("factory-number-0"))]);

        let decision = PlacementDecision::of(&event(Value::Object(data))).unwrap();

        assert!(len < 320, "{len} bytes");
        assert_eq!((decision.runners_up.len(), decision.weights.affinity), (5, 2.0));
        assert_eq!(
            PlacementDecision { runners_up: decision.runners_up[..1].to_vec(), ..decision }.text(),
            "factory-number-0, engine claude, score 2.50 (fit 0.33, affinity 1.00, idle 0.50, cost 0.90, health 1.00, \
             wait -0.99), by the weights affinity 2; then factory-number-1 0.67"
        );
    }

    // [S4]
    #[test]
    fn an_event_of_an_earlier_version_has_no_decision() {
        let data = json!({ "dispatchSeq": 1, "targetFactoryId": "m1", "score": 1.5 });

        assert_eq!(PlacementDecision::of(&event(data)), None);
    }
}
