//! One run of one engine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::{Clock, RunInsights, ValueOutOfRange};
use parking_lot::Mutex;
use sandbox::{
    Bounds, End, FinishedProgram, Launcher, Line, ProcessMark, Program, RunningProgram, Source, StartError,
    find_program,
};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::limits::{DiskWatch, Limit};
use super::{Allowance, Engine, EngineEvent, EngineRequest, Exit, Pending, Reply, RunVerdict, Session};

/// An engine that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Its program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its program no longer exists.
    #[error("its program `{program}` is gone")]
    Gone {
        /// The program.
        program: String,
    },
    /// The engine does not support a part of the job's request.
    #[error("the job's {what} cannot be given to an engine")]
    Unusable {
        /// Which part of the request.
        what: &'static str,
    },
    /// The files that the engine needs could not be created.
    #[error("cannot make the engine's own folder ready")]
    Disk(#[source] std::io::Error),
}

/// A line of an engine, and its events.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineOutput {
    /// The line, unchanged. It may hold anything, escape sequences included. Empty where only the usage is new.
    pub line: Line,
    /// Its events, mostly none.
    pub events: Vec<EngineEvent>,
    /// The cost of the run so far.
    pub insights: RunInsights,
}

/// The result of an engine's run.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineRunEnd {
    /// The verdict.
    pub judgement: RunVerdict,
    /// How the program ended.
    pub finished: FinishedProgram,
    /// Its cost, if the engine reported it.
    pub insights: RunInsights,
}

/// A running engine. Dropping it kills its process group.
pub struct EngineRun {
    running: RunningProgram,
    session: Box<dyn Session>,
    bounds: Bounds,
    allowance: Allowance,
    disk: Option<DiskWatch>,
    clock: Arc<dyn Clock>,
}

/// Lines buffered between the program and the listener. More would only hide that the listener is slow, and each can be
/// as long as lines may be.
const LINES_IN_FLIGHT_MAX: usize = 2;

/// How often a session reads its program's own records: a budget is exceeded by no more than the usage in between.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// How long a program may report that its provider is unavailable before its run ends as an outage.
const OUTAGE_MAX: Duration = Duration::from_mins(5);

/// How long a program with a dialogue has to end its turn by itself, before it gets a signal.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

impl EngineRun {
    /// Starts the engine's program.
    pub fn start(
        engine: &dyn Engine,
        request: &EngineRequest,
        launcher: &Launcher,
        bounds: Bounds,
    ) -> Result<Self, EngineError> {
        let (program, mut session) = engine.command(request)?;
        if let Some(gone) = gone(&program) {
            session.settle();
            return Err(EngineError::Gone { program: gone });
        }
        let (allowance, clock) = (request.allowance.clone(), launcher.clock());
        let disk = allowance.disk.map(|disk| DiskWatch::new(disk, &request.worktree));
        // All output is read, because its last lines decide the verdict; what is kept of it has its own bound.
        let running = launcher.start(program, Bounds { output_bytes_max: u64::MAX, ..bounds });
        let running = running.inspect_err(|_| session.settle())?;
        Ok(Self { running, session, bounds, allowance, disk, clock })
    }

    /// Identifies the engine's guard after a restart of the factory.
    pub fn mark(&self) -> ProcessMark {
        self.running.mark()
    }

    /// Follows the engine to its end. Its lines go to `output`; `cancel` stops it.
    pub async fn wait(self, output: mpsc::Sender<EngineOutput>, cancel: &CancellationToken) -> EngineRunEnd {
        let Self { running, mut session, bounds, allowance, disk, clock } = self;
        let stop = Stop { in_tool_call: running.in_tool_call(), ..Stop::default() };
        let (sender, lines) = mpsc::channel(LINES_IN_FLIGHT_MAX);
        let (say, input) = mpsc::channel(LINES_IN_FLIGHT_MAX);
        let ear = OutputListener { output: &output, allowance: &allowance, stop: &stop, clock: &*clock };
        let translate = ear.follow(&mut *session, lines, say, cancel);
        let followed = async { tokio::join!(running.converse(sender, input, &stop.token), translate) };
        let (finished, ()) = tokio::select! {
            ended = followed => ended,
            never = stop.when_told(&*clock, cancel) => match never {},
            never = stop.after_closing_word(&*clock, bounds.grace) => match never {},
            never = stop.when_disk_is_full(&*clock, disk) => match never {},
        };
        session.settle();
        let judgement = match (stop.why(&finished, &bounds, &allowance, cancel), session.pending()) {
            (RunOver::Exit(exit), _) => {
                Limit::verdict_at_end(session.judge(exit), &allowance, &reportable(session.insights()).0)
            }
            (RunOver::Outage, Pending::Provider(message)) => RunVerdict::Outage { message },
            // Its time passed while it waited for its provider, which is not the agent's fault.
            (RunOver::Limit(Limit::Wall(_) | Limit::Idle(_)), Pending::Provider(message)) => {
                RunVerdict::Outage { message }
            }
            (RunOver::Outage, _) => RunVerdict::Outage { message: "its provider did not answer".to_owned() },
            (RunOver::Limit(limit), _) => limit.with_final(&session.insights()).judgement(),
            (RunOver::Told, _) => RunVerdict::Stopped,
        };
        let (mut insights, dropped) = reportable(session.insights());
        for figure in dropped {
            warn!(
                field = figure.field,
                "The engine printed an impossible `{}`, which counts as unknown: it {figure}", figure.field
            );
        }
        insights.engine_ms = u64::try_from(finished.took.as_millis()).ok();
        EngineRunEnd { judgement, finished, insights }
    }
}

/// An engine's metrics without those that the coordinator would reject: a report with one could never be delivered.
/// Returns what was removed.
fn reportable(mut insights: RunInsights) -> (RunInsights, Vec<ValueOutOfRange>) {
    let dropped = insights.drop_out_of_range();
    (insights, dropped)
}

/// The program's name, if it no longer exists. Otherwise the guard would report that in the engine's place.
fn gone(program: &Program) -> Option<String> {
    let name = program.argv.first()?.to_str()?;
    let path = program.environment.variable("PATH");
    let is_told = Path::new(name).is_absolute() || (path.is_some() && !name.contains('/'));
    (is_told && find_program(name, path).is_none()).then(|| domain::escape_for_terminal(name))
}

/// The limits of a session's output, and its receiver.
struct OutputListener<'a> {
    output: &'a mpsc::Sender<EngineOutput>,
    allowance: &'a Allowance,
    stop: &'a Stop,
    clock: &'a dyn Clock,
}

impl OutputListener<'_> {
    /// Transfers lines in both directions, and stops the program at the first limit that it reaches.
    async fn follow(
        &self,
        session: &mut dyn Session,
        mut lines: mpsc::Receiver<Line>,
        say: mpsc::Sender<Vec<u8>>,
        cancel: &CancellationToken,
    ) {
        let stop = self.stop;
        let mut mouth = Some(say);
        answer(session, &mut mouth).await;
        stop.spoken_with.store(mouth.is_some(), Ordering::Relaxed);
        let mut pause = self.clock.sleep(LOOK_EVERY);
        let mut unreachable_since = None;
        loop {
            let next = tokio::select! {
                line = lines.recv() => line,
                () = cancel.cancelled(), if mouth.is_some() && !stop.bidden.load(Ordering::Relaxed) => {
                    stop.bidden.store(true, Ordering::Relaxed);
                    if let (Some(words), Some(say)) = (session.farewell(), &mouth) {
                        let _ = say.send(words).await;
                    }
                    continue;
                }
                () = &mut pause => {
                    pause = self.clock.sleep(LOOK_EVERY);
                    self.poll_session(session).await;
                    self.watch_outage(session, &mut unreachable_since);
                    continue;
                }
            };
            let Some(line) = next else { return };
            let events = session.translate(&line);
            stop.in_tool_call.store(session.pending() == Pending::ToolCall, Ordering::Relaxed);
            answer(session, &mut mouth).await;
            self.measure(EngineOutput { line, events, insights: reportable(session.insights()).0 }).await;
        }
    }

    /// Ends a run whose program keeps retrying its unavailable provider.
    fn watch_outage(&self, session: &dyn Session, since: &mut Option<Duration>) {
        let now = self.clock.monotonic();
        match session.pending() {
            Pending::Provider(_) if now.saturating_sub(*since.get_or_insert(now)) >= OUTAGE_MAX => self.stop.outage(),
            Pending::Provider(_) => {}
            Pending::Answer | Pending::ToolCall => *since = None,
        }
    }

    /// Reads the program's own records, and reports what is new.
    async fn poll_session(&self, session: &mut dyn Session) {
        let known = reportable(session.insights()).0;
        session.poll_files();
        let insights = reportable(session.insights()).0;
        if insights != known {
            let line = Line { source: Source::Out, text: String::new() };
            self.measure(EngineOutput { line, events: Vec::new(), insights }).await;
        }
    }

    async fn measure(&self, output: EngineOutput) {
        if output.events.iter().any(|event| matches!(event, EngineEvent::Ended { .. })) {
            self.stop.closing_word();
        } else if let Some(limit) = Limit::reached(self.allowance, &output.insights) {
            self.stop.at(limit);
        }
        // The receiver may be gone; the event still counts.
        let _ = self.output.send(output).await;
    }
}

async fn answer(session: &mut dyn Session, mouth: &mut Option<mpsc::Sender<Vec<u8>>>) {
    while let Some(say) = mouth {
        match session.reply() {
            Reply::Wait => return,
            // A program that is gone reads nothing; its end is noticed elsewhere.
            Reply::Say(bytes) => drop(say.send(bytes).await),
            Reply::HangUp => *mouth = None,
        }
    }
}

/// What ends a program from within its run.
#[derive(Default)]
struct Stop {
    token: CancellationToken,
    cause: Mutex<Option<Cause>>,
    closing: Notify,
    /// Whether the program reads input after its prompt.
    spoken_with: AtomicBool,
    /// Whether it was asked to stop.
    bidden: AtomicBool,
    /// Whether a tool call is in progress.
    in_tool_call: Arc<AtomicBool>,
}

enum Cause {
    Limit(Limit),
    /// Its provider was unavailable for too long.
    Outage,
    /// The engine had sent its result message.
    Lingered,
}

/// Why a run ended.
enum RunOver {
    Exit(Exit),
    Limit(Limit),
    Outage,
    Told,
}

impl Stop {
    /// From here on the engine only has to exit. Limits no longer apply: the work is done.
    fn closing_word(&self) {
        self.cause.lock().get_or_insert(Cause::Lingered);
        self.closing.notify_one();
    }

    fn at(&self, limit: Limit) {
        self.end(Cause::Limit(limit));
    }

    fn outage(&self) {
        self.end(Cause::Outage);
    }

    fn end(&self, why: Cause) {
        let mut cause = self.cause.lock();
        if cause.is_none() {
            *cause = Some(why);
            self.token.cancel();
        }
    }

    /// Forwards that the run is to end: at once, or after a program with a dialogue has had time to exit.
    async fn when_told(&self, clock: &dyn Clock, cancel: &CancellationToken) -> std::convert::Infallible {
        cancel.cancelled().await;
        if self.spoken_with.load(Ordering::Relaxed) {
            clock.sleep(FAREWELL_MAX).await;
        }
        self.token.cancel();
        std::future::pending().await
    }

    async fn after_closing_word(&self, clock: &dyn Clock, grace: Duration) -> std::convert::Infallible {
        self.closing.notified().await;
        clock.sleep(grace).await;
        self.token.cancel();
        std::future::pending().await
    }

    async fn when_disk_is_full(&self, clock: &dyn Clock, watch: Option<DiskWatch>) -> std::convert::Infallible {
        if let Some(mut watch) = watch {
            let limit = watch.trips(clock).await;
            self.at(limit);
        }
        std::future::pending().await
    }

    fn why(
        self,
        finished: &FinishedProgram,
        bounds: &Bounds,
        allowance: &Allowance,
        cancel: &CancellationToken,
    ) -> RunOver {
        match (finished.end, self.cause.into_inner()) {
            (End::Exited(_), _) if self.bidden.load(Ordering::Relaxed) => RunOver::Told,
            (End::Exited(code), _) => RunOver::Exit(Exit::Code(code)),
            (End::Cancelled, _) if cancel.is_cancelled() => RunOver::Told,
            (_, Some(Cause::Lingered)) => RunOver::Exit(Exit::Lingered),
            (End::Cancelled, Some(Cause::Limit(limit))) => RunOver::Limit(limit),
            (End::Cancelled, Some(Cause::Outage)) => RunOver::Outage,
            (End::Cancelled, None) => RunOver::Told,
            (End::TimedOut, _) if allowance.wall == Some(bounds.wall) => RunOver::Limit(Limit::BudgetWall(bounds.wall)),
            (End::TimedOut, _) => RunOver::Limit(Limit::Wall(bounds.wall)),
            (End::FellSilent, _) if self.in_tool_call.load(Ordering::Relaxed) => {
                RunOver::Limit(Limit::ToolIdle(bounds.tool_idle.or(bounds.idle).unwrap_or_default()))
            }
            (End::FellSilent, _) => RunOver::Limit(Limit::Idle(bounds.idle.unwrap_or_default())),
        }
    }
}
