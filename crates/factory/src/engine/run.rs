//! One run of one engine.

use domain::Insights;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Engine, EngineEvent, EngineRequest, Judgement, Session};
use crate::process::{Bounds, Finished, Launcher, Line, ProcessMark, Running, StartError};

/// An engine that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Its program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The job asks for something that this engine cannot be given.
    #[error("the job's {what} cannot be given to an engine")]
    Unusable {
        /// Which part of the request.
        what: &'static str,
    },
}

/// A line of an engine, and what it means.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineOutput {
    /// The line as it came. It may hold anything, escape sequences included.
    pub line: Line,
    /// What it means, mostly nothing.
    pub events: Vec<EngineEvent>,
}

/// What is left of a run of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineRunEnd {
    /// What it came to.
    pub judgement: Judgement,
    /// How the program ended.
    pub finished: Finished,
    /// What it cost, as far as the engine told.
    pub insights: Insights,
}

/// An engine at work. Dropping it kills its process group.
pub struct EngineRun {
    running: Running,
    session: Box<dyn Session>,
}

/// Lines on their way from the program to whoever listens. More would only hide that the listener is slow.
const LINES_IN_FLIGHT_MAX: usize = 64;

impl EngineRun {
    /// Starts the engine's program.
    pub fn start(
        engine: &dyn Engine,
        request: &EngineRequest,
        launcher: &Launcher,
        bounds: Bounds,
    ) -> Result<Self, EngineError> {
        let (program, session) = engine.command(request)?;
        Ok(Self { running: launcher.start(program, bounds)?, session })
    }

    /// What names the engine's guard after a restart of the factory.
    pub fn mark(&self) -> ProcessMark {
        self.running.mark()
    }

    /// Follows the engine to its end. What it says goes to `output`; `cancel` stops it.
    pub async fn wait(self, output: mpsc::Sender<EngineOutput>, cancel: &CancellationToken) -> EngineRunEnd {
        let Self { running, mut session } = self;
        let (sender, mut lines) = mpsc::channel(LINES_IN_FLIGHT_MAX);
        let translate = async {
            while let Some(line) = lines.recv().await {
                let events = session.translate(&line);
                // Nobody need listen; what the line means still counts.
                let _ = output.send(EngineOutput { line, events }).await;
            }
        };
        let (finished, ()) = tokio::join!(running.wait(sender, cancel), translate);
        let mut insights = session.insights();
        insights.engine_ms = u64::try_from(finished.took.as_millis()).ok();
        EngineRunEnd { judgement: session.judge(&finished), finished, insights }
    }
}
