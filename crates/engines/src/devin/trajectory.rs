//! The trajectory that Devin exports, in the Agent Trajectory Interchange Format.

use std::path::Path;

use domain::RunInsights;
use sandbox::DirFd;
use serde::Deserialize;

/// The fields that the engine uses.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Trajectory {
    pub(super) session: Option<String>,
    pub(super) insights: RunInsights,
}

/// A long day's work is a few megabytes; a larger file is no trajectory.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

impl Trajectory {
    /// Reads a file that may be missing or incomplete: then nothing is known.
    pub(super) fn read(path: &Path) -> Self {
        let written = bytes_of(path).and_then(|bytes| serde_json::from_slice::<TrajectoryFile>(&bytes).ok());
        let Some(written) = written else { return Self::default() };
        let turns = written.steps.iter().filter(|step| step.source.as_deref() == Some("agent")).count();
        let Metrics { total_prompt_tokens, total_completion_tokens, total_cost_usd } =
            written.final_metrics.unwrap_or_default();
        let insights = RunInsights {
            tokens_in: total_prompt_tokens,
            tokens_out: total_completion_tokens,
            // Work is never free: zero means unknown.
            cost_usd: total_cost_usd.filter(|cost| cost.is_finite() && *cost > 0.0),
            turns: u32::try_from(turns).ok().filter(|turns| *turns > 0),
            ..RunInsights::default()
        };
        Self { session: written.session_id, insights }
    }
}

/// The content of a file that the agent may have replaced.
fn bytes_of(path: &Path) -> Option<Vec<u8>> {
    DirFd::open(path.parent()?).ok()?.read(path.file_name()?, BYTES_MAX).ok()
}

#[derive(Deserialize)]
struct TrajectoryFile {
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    final_metrics: Option<Metrics>,
}

#[derive(Deserialize)]
struct Step {
    #[serde(default)]
    source: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metrics {
    total_prompt_tokens: Option<u64>,
    total_completion_tokens: Option<u64>,
    total_cost_usd: Option<f64>,
}
