//! The tools of a run's agent [B11]: a socket in the run's own home, served while its engine runs.
//!
//! The socket belongs to one run, so that a request names no job and shows no token: the factory adds both. It is gone
//! when the engine ends or the lease is lost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use client::ClientError;
use domain::{Checkpoint, CommitSha, byte_size};
use engines::{Allowance, ToolServer};
use protocol::{
    NewSubtask, RUN_LINE_LEN_MAX, RUN_QUESTION_LEN_MAX, RunAnswer, RunContext, RunRequest, RunTool, SubtaskList,
    SubtaskRequest, SubtaskResponse,
};
use sandbox::{Bounds, Launcher, PathAccess};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::super::Worker;
use super::super::log_buffer::LogWriter;
use super::super::settings::RunToolsCommand;
use super::{Parked, Run, chain};

/// How long an agent may take to stop by itself after it parked its job.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// How long a request may take to arrive: it is one line.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);

/// How far the engine may be above the program of its tools: some engines start it by way of a few others.
const ANCESTORS_MAX: usize = 32;

/// Requests to save work that wait. Connections are served one after the other, so that there is one.
pub(super) const SAVES_WAITING_MAX: usize = 1;

/// The socket of a run.
pub(super) struct RunSocket {
    listener: UnixListener,
    path: PathBuf,
    command: RunToolsCommand,
    allowance: Allowance,
    wall: Duration,
    since: Duration,
}

/// A request to save the work now, with the way back for the commit, or for what prevented it.
pub(super) type SaveRequest = oneshot::Sender<Result<Option<CommitSha>, String>>;

/// What the tools share with the rest of the run.
pub(super) struct RunControl<'r> {
    /// Saves the work in progress.
    pub(super) saves: mpsc::Sender<SaveRequest>,
    /// Stops the engine, and nothing else.
    pub(super) stop_engine: &'r CancellationToken,
    /// The log of the run.
    pub(super) log: &'r LogWriter,
    /// The agent's working directory.
    pub(super) dir: &'r Path,
}

impl RunSocket {
    /// The MCP server that reaches it.
    pub(super) fn server(&self) -> Option<ToolServer> {
        let mut argv = self.command.argv.iter().map(|arg| arg.to_str().map(str::to_owned));
        let program = argv.next()??;
        let args = argv.chain([self.path.to_str().map(str::to_owned)]).collect::<Option<Vec<_>>>()?;
        Some(ToolServer { program, args })
    }

    /// Lets programs execute the server. They reach the socket in their own home.
    pub(super) fn open_to(&self, launcher: Launcher) -> Launcher {
        launcher.reaching(self.command.argv.first().map(|program| (PathBuf::from(program), PathAccess::Read)))
    }
}

impl Worker {
    /// Opens the socket of a run. Without one the agent works all the same, and asks by a file.
    pub(super) fn open_tools(&self, run: &Run, allowance: &Allowance, bounds: &Bounds) -> Option<RunSocket> {
        let command = self.settings.run_tools.clone()?;
        let listened = self.host.listen(run.key).map_err(|error| chain(&error));
        let listened = listened.and_then(|(listener, path)| {
            let listener = UnixListener::from_std(listener).map_err(|error| error.to_string())?;
            Ok((listener, path))
        });
        match listened {
            Ok((listener, path)) => Some(RunSocket {
                listener,
                path,
                command,
                allowance: allowance.clone(),
                wall: bounds.wall,
                since: self.clock.monotonic(),
            }),
            Err(error) => {
                let label = self.titles.label(run.key.job);
                warn!(job.id = %run.key.job, %error, "The agent of job {label} works without tools of its run");
                None
            }
        }
    }

    /// Answers the tools of an agent until its engine ends or the lease is lost.
    pub(super) async fn serve_tools(
        &self,
        run: &Run,
        socket: Option<RunSocket>,
        control: RunControl<'_>,
        over: &CancellationToken,
    ) {
        let Some(socket) = socket else { return };
        let served = async {
            let mut stop_at = None;
            loop {
                let is_parked = run.parked.lock().is_some();
                let now = self.clock.monotonic();
                // Fixed when the job is parked: no later request postpones it.
                let left = is_parked.then(|| stop_at.get_or_insert(now + STOPS_WITHIN).saturating_sub(now));
                tokio::select! {
                    biased;
                    () = self.clock.sleep(left.unwrap_or_default()), if is_parked => {
                        control.stop_engine.cancel();
                        return;
                    }
                    accepted = socket.listener.accept() => match accepted {
                        Ok((stream, _)) => self.serve_one(run, &socket, &control, stream).await,
                        // Out of file descriptors, as a rule: the next attempt may find one.
                        Err(_) => self.clock.sleep(REQUEST_TIME_MAX).await,
                    },
                }
            }
        };
        tokio::select! {
            () = served => {}
            () = over.cancelled() => {}
            () = run.stop.cancelled() => {}
        }
    }

    async fn serve_one(&self, run: &Run, socket: &RunSocket, control: &RunControl<'_>, mut stream: UnixStream) {
        if !self.is_of_run(run, &stream) {
            warn!(job.id = %run.key.job, "Refused a program that is not of job `{}` the tools of its run", run.key.job);
            return;
        }
        let answer = match tokio::time::timeout(REQUEST_TIME_MAX, read(&mut stream)).await {
            Ok(Ok(request)) => self.answer(run, socket, control, request).await,
            Ok(Err(message)) => refused("invalid_request", &message),
            Err(_) => return,
        };
        let Ok(mut line) = serde_json::to_vec(&answer) else { return };
        line.push(b'\n');
        // An agent that is gone reads no answer.
        let _ = tokio::time::timeout(REQUEST_TIME_MAX, stream.write_all(&line)).await;
    }

    /// Whether the other end is a program of this run: of the account that agents run under, and started by the engine.
    /// An agent of another run may have the same account.
    fn is_of_run(&self, run: &Run, stream: &UnixStream) -> bool {
        let own = rustix::process::geteuid().as_raw();
        let agents = self.host.account().map_or(own, |account| account.uid());
        let Ok(peer) = stream.peer_cred() else { return false };
        let guard = run.record.guard.as_ref().map(|guard| guard.pid);
        let is_started = peer.pid().zip(guard).is_some_and(|(peer, guard)| descends_from(peer, guard));
        peer.uid() == agents && (is_started || !cfg!(target_os = "linux"))
    }

    async fn answer(&self, run: &Run, socket: &RunSocket, control: &RunControl<'_>, request: RunRequest) -> RunAnswer {
        match request {
            RunRequest::Offer {} => RunAnswer::Offer { tools: socket.offered(run) },
            RunRequest::Context {} => RunAnswer::Context(Box::new(self.run_context(run, socket))),
            RunRequest::Progress { text } => {
                control.log.push(&self.turn_to(run, &text));
                RunAnswer::Noted
            }
            RunRequest::Ask { .. } if !socket.offered(run).contains(&RunTool::AskHuman) => {
                refused("nobody_answers", "no person answers questions here; decide by yourself and go on")
            }
            RunRequest::Ask { question } => self.ask_person(run, control, question.trim()).await,
            RunRequest::Attach { path, name } => {
                let answer = self.attach_for_agent(run, control.dir, &path, name.as_deref()).await;
                if let RunAnswer::Attached { name, bytes } = &answer {
                    control.log.push(&self.turn_to(run, &format!("artifact {name} attached ({})", byte_size(*bytes))));
                }
                answer
            }
            RunRequest::Checkpoint {} => match save_now(control).await {
                Ok(saved) => RunAnswer::Saved { saved },
                Err(message) => refused("not_saved", &format!("{message}; go on, it is saved again later")),
            },
            RunRequest::CreateSubtask { .. } | RunRequest::ListSubtasks {} | RunRequest::AwaitSubtasks {}
                if !run.assignment.may_create_subtasks =>
            {
                refused("no_subtasks", "this job can have no subtasks; do the work yourself")
            }
            RunRequest::CreateSubtask { .. } | RunRequest::AwaitSubtasks {} if run.parked.lock().is_some() => {
                refused("parked", "this job is parked; stop now")
            }
            RunRequest::CreateSubtask { subtask } => self.create_subtask(run, socket, control, subtask).await,
            RunRequest::ListSubtasks {} => match self.subtasks(run).await {
                Ok(list) => RunAnswer::Subtasks(Box::new(list)),
                Err(error) => self.refused_by(run, &error),
            },
            RunRequest::AwaitSubtasks {} => self.await_subtasks(run, control).await,
        }
    }

    /// Parks the job: the run ends as a question, once its engine does. The first reason counts.
    async fn ask_person(&self, run: &Run, control: &RunControl<'_>, question: &str) -> RunAnswer {
        if question.is_empty() || question.len() > RUN_QUESTION_LEN_MAX {
            let message = format!("a question has 1 to {RUN_QUESTION_LEN_MAX} bytes; shorten it");
            return refused("invalid_question", &message);
        }
        run.parked.lock().get_or_insert_with(|| Parked::Question(question.to_owned()));
        control.log.push(&self.turn_to(run, &format!("asks: {question}")));
        // What cannot be saved now is saved at the end of the run, for as long as the lease lasts.
        RunAnswer::Parked { saved: save_now(control).await.ok().flatten() }
    }

    /// Creates a subtask. What is reserved for it, this run cannot spend.
    async fn create_subtask(
        &self,
        run: &Run,
        socket: &RunSocket,
        control: &RunControl<'_>,
        subtask: NewSubtask,
    ) -> RunAnswer {
        let subtask = NewSubtask {
            title: self.scrubber.text(&subtask.title),
            instructions: self.scrubber.text(&subtask.instructions),
            ..subtask
        };
        let insights = run.activity.lock().insights.clone();
        let request = SubtaskRequest { lease_epoch: run.key.epoch, subtask, insights };
        let path = format!("/jobs/{}/subtasks", run.key.job);
        let answered: Result<SubtaskResponse, _> = self.client.call(http::Method::POST, &path, Some(&request)).await;
        match answered {
            Ok(created) => {
                // One of an earlier run was subtracted before this run began.
                if run.assignment.children.iter().all(|child| child.id != created.id) {
                    let reserved = &socket.allowance.reserved;
                    reserved.add(created.id, created.usd.unwrap_or(0.0), created.tokens.unwrap_or(0));
                }
                if created.created {
                    let title = &request.subtask.title;
                    control.log.push(&self.turn_to(run, &format!("creates subtask {}: {title}", created.id.short())));
                }
                RunAnswer::Subtask(Box::new(created))
            }
            Err(error) => self.refused_by(run, &error),
        }
    }

    async fn subtasks(&self, run: &Run) -> Result<SubtaskList, ClientError> {
        let path = format!("/jobs/{}/subtasks?leaseEpoch={}", run.key.job, run.key.epoch);
        self.client.get(&path).await
    }

    /// Parks the job until its subtasks have ended. If they have, the agent goes on.
    async fn await_subtasks(&self, run: &Run, control: &RunControl<'_>) -> RunAnswer {
        let list = match self.subtasks(run).await {
            Ok(list) => list,
            Err(error) => return self.refused_by(run, &error),
        };
        if list.items.is_empty() {
            return refused("no_subtasks", "this job has no subtasks; create one first, or go on");
        }
        if list.items.iter().all(|subtask| subtask.settled) && self.knows_results(run, &list) {
            return RunAnswer::Subtasks(Box::new(list));
        }
        run.parked.lock().get_or_insert(Parked::Subtasks);
        control.log.push(&self.turn_to(run, "waits for its subtasks"));
        RunAnswer::Parked { saved: save_now(control).await.ok().flatten() }
    }

    /// Whether this run was told the results of all subtasks: it has their branches.
    fn knows_results(&self, run: &Run, list: &SubtaskList) -> bool {
        list.items.iter().all(|subtask| {
            let told = run.assignment.children.iter().find(|child| child.id == subtask.id);
            told.is_some_and(|told| told.commit == subtask.commit)
        })
    }

    /// The coordinator's refusal, for the agent. A fenced run is stopped.
    fn refused_by(&self, run: &Run, error: &ClientError) -> RunAnswer {
        self.stop_if_not_ours(run.key, error);
        let code = error.code().unwrap_or("coordinator_unavailable");
        refused(code, &self.scrubber.text(&chain(error)))
    }

    fn run_context(&self, run: &Run, socket: &RunSocket) -> RunContext {
        let insights = run.activity.lock().insights.clone();
        let used = insights.tokens_in.unwrap_or(0).saturating_add(insights.tokens_out.unwrap_or(0));
        let spent = insights.cost_usd.unwrap_or(0.0);
        let passed = self.clock.monotonic().saturating_sub(socket.since);
        let assignment = &run.assignment;
        RunContext {
            job_id: run.key.job,
            title: assignment.spec.title.clone(),
            product_id: assignment.product_id.clone(),
            factory_id: self.settings.name.clone(),
            attempt: assignment.attempts + 1,
            repo: assignment.repo.clone(),
            base: assignment.base.clone(),
            deps: assignment.spec.deps.iter().map(|dep| dep.job(&assignment.product_id)).collect(),
            usd_left: socket.allowance.usd_left().map(|usd| (usd - spent).max(0.0)),
            tokens_left: socket.allowance.tokens_left().map(|tokens| tokens.saturating_sub(used)),
            seconds_left: socket.wall.saturating_sub(passed).as_secs(),
            checkpoint: run.last_saved(),
        }
    }
}

impl RunSocket {
    /// The tools that can work in this run: one that cannot is called all the same, and costs a turn.
    fn offered(&self, run: &Run) -> Vec<RunTool> {
        let asks = self.command.has_answers.then_some(RunTool::AskHuman);
        let saves = run.assignment.repo.as_ref().map(|_| RunTool::SaveCheckpoint);
        let subtasks: &[RunTool] = match run.assignment.may_create_subtasks && self.command.has_answers {
            true => &[RunTool::CreateSubtask, RunTool::ListSubtasks, RunTool::WaitForSubtasks],
            false => &[],
        };
        let always = [RunTool::GetContext, RunTool::ReportProgress, RunTool::AttachArtifact];
        always.into_iter().chain(asks).chain(saves).chain(subtasks.iter().copied()).collect()
    }
}

impl Run {
    /// The work that was saved last, by this run or an earlier one.
    fn last_saved(&self) -> Option<Checkpoint> {
        self.saved.lock().clone().or_else(|| self.assignment.checkpoint.clone())
    }
}

async fn save_now(control: &RunControl<'_>) -> Result<Option<CommitSha>, String> {
    let (reply, saved) = oneshot::channel();
    let over = || "the run is ending".to_owned();
    control.saves.send(reply).await.map_err(|_| over())?;
    saved.await.unwrap_or_else(|_| Err(over()))
}

async fn read(stream: &mut UnixStream) -> Result<RunRequest, String> {
    let mut line = Vec::new();
    let bytes_max = u64::try_from(RUN_LINE_LEN_MAX).unwrap_or(u64::MAX);
    stream.take(bytes_max).read_to_end(&mut line).await.map_err(|error| error.to_string())?;
    serde_json::from_slice(&line).map_err(|error| error.to_string())
}

fn refused(code: &str, message: &str) -> RunAnswer {
    RunAnswer::Refused { code: code.to_owned(), message: message.to_owned() }
}

/// Whether a process was started by another one, directly or not, as far as the system shows it.
fn descends_from(process: i32, ancestor: i32) -> bool {
    let mut process = process;
    for _ in 0..ANCESTORS_MAX {
        if process == ancestor {
            return true;
        }
        let Some(parent) = parent(process).filter(|parent| *parent > 1) else { return false };
        process = parent;
    }
    false
}

fn parent(process: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    // [B11]
    #[test]
    fn only_processes_below_the_engine_are_of_its_run() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (own, other) = (std::process::id().cast_signed(), child.id().cast_signed());

        assert!(descends_from(other, own) && descends_from(own, own));
        assert!(!descends_from(own, other) && !descends_from(other, i32::MAX));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
