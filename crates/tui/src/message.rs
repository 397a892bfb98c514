//! What happens to the model, and what it asks for.

use domain::{DispatchModes, FactoryId, JobEvent, JobId, Mode, Priority, ProductId, Timestamp};
use protocol::{
    BudgetList, CredentialList, Dag, DeadLetterList, DivergenceReport, EventList, FactoryList, HelloEvent, JobDetail,
    JobExplanation, JobList, Metrics, MetricsHistory, NeedList, PoolList, ProgressEvent, VoteRequest,
};
use ratatui::crossterm::event::KeyEvent;

use crate::model::FolderListing;

/// Something happened.
#[derive(Debug, Clone)]
pub(crate) enum Msg {
    /// The time. It comes before every other message, and by itself when the model asked for it.
    Clock(Timestamp),
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The terminal has this size now.
    Resize(u16, u16),
    /// The event stream.
    Stream(StreamMsg),
    /// A read was answered.
    Answer(Box<Answer>),
    /// An action ended.
    Acted(Acted),
    /// A piece of a log.
    Log(LogMsg),
    /// The files of a folder queue.
    Folder(Result<FolderListing, String>),
    /// Something to tell the user.
    Note(String),
}

/// News of the event stream.
#[derive(Debug, Clone)]
pub(crate) enum StreamMsg {
    /// It is open. `api` is the address it was opened at.
    Open { api: String },
    /// It was lost, or cannot be opened; the next attempt is at `retry_at`.
    Lost { why: String, retry_at: Timestamp },
    /// The coordinator does not accept the token.
    SignedOut { why: String },
    /// The first frame.
    Hello(HelloEvent),
    /// Something happened to a job.
    Job(Box<JobEvent>),
    /// An agent made progress.
    Progress(Box<ProgressEvent>),
    /// A factory changed.
    Factory,
    /// An alert was raised or cleared.
    Alert,
    /// The modes changed.
    Flags(Box<DispatchModes>),
    /// The metrics changed.
    Metrics(Box<Metrics>),
    /// What needs an operator changed.
    Needs,
    /// Events were missed.
    Reset,
}

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// A page of jobs; `cursor` continues a list.
    Jobs {
        query: String,
        cursor: Option<String>,
    },
    /// One job in full.
    Job(JobId),
    /// A page of a job's events.
    Events {
        job: JobId,
        after: Option<String>,
    },
    Explain(JobId),
    Dag(JobId),
    Needs,
    Factories,
    Metrics,
    History,
    Flags,
    Divergence,
    DeadLetters,
    Credentials,
    Budgets,
    Pools,
}

/// The answer to a read.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) request: Request,
    pub(crate) outcome: Result<Data, ReadError>,
}

/// What was read.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    Jobs(JobList),
    Job(Box<JobDetail>),
    Events(EventList),
    Explain(Box<JobExplanation>),
    Dag(Dag),
    Needs(NeedList),
    Factories(FactoryList),
    Metrics(Metrics),
    History(MetricsHistory),
    Flags(DispatchModes),
    Divergence(Box<DivergenceReport>),
    DeadLetters(DeadLetterList),
    Credentials(CredentialList),
    Budgets(BudgetList),
    Pools(PoolList),
}

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The coordinator did not answer.
    Unreachable(String),
    /// The token is not accepted.
    SignedOut(String),
    /// The coordinator refused it.
    Refused(String),
}

impl ReadError {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Unreachable(text) | Self::SignedOut(text) | Self::Refused(text) => text,
        }
    }
}

/// A piece of the log that is open.
#[derive(Debug, Clone)]
pub(crate) struct LogMsg {
    /// Which opening of a log it belongs to: a late piece of an earlier one is ignored.
    pub(crate) opening: u64,
    pub(crate) piece: LogPiece,
}

#[derive(Debug, Clone)]
pub(crate) enum LogPiece {
    /// Text, cleaned.
    Text(String),
    /// The run has ended, and its output with it.
    End,
    /// It cannot be read.
    Failed(String),
}

/// What the runtime is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Read something.
    Read(Request),
    /// Act on targets, one after the other.
    Act(Deed),
    /// Open a log, closing the one that is open.
    OpenLog { job: JobId, opening: u64 },
    /// Close the log that is open.
    CloseLog,
    /// Copy a text to the terminal's clipboard.
    Copy(String),
    /// Open a page of the web client.
    Browse(String),
    /// Try to connect at once.
    Reconnect,
    /// List the files of the folder queue.
    ListFolder,
    /// Stop like any program after Ctrl-Z.
    Suspend,
    /// Draw everything again.
    Redraw,
    /// End.
    Quit,
}

/// An action with its targets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Deed {
    pub(crate) act: Act,
    pub(crate) targets: Vec<Target>,
    /// The reason, message or answer.
    pub(crate) text: Option<String>,
}

/// What an operator can do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    Answer,
    Ship,
    Requeue,
    RequeueFresh,
    RequestChanges,
    Reject,
    /// A vote on the work that was shown.
    Vote(VoteRequest),
    Cancel,
    PauseJob,
    ResumeJob,
    Priority(Priority),
    Pin(Option<FactoryId>),
    Dismiss,
    Redrive,
    Drain,
    Resume,
    Prune,
    ResumeCredential,
    PauseProduct,
    ResumeProduct,
    SetCeiling,
    Mode(Mode),
    Preemption(bool),
}

/// What an action is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Job { id: JobId, title: String },
    Factory(FactoryId),
    Credential(String),
    Product(ProductId),
    Fleet,
}

impl Target {
    /// How it is called in messages.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Job { title, .. } => title.clone(),
            Self::Factory(id) => id.to_string(),
            Self::Credential(id) => id.clone(),
            Self::Product(id) => id.to_string(),
            Self::Fleet => "the fleet".to_owned(),
        }
    }
}

/// How an action ended, for each target.
#[derive(Debug, Clone)]
pub(crate) struct Acted {
    pub(crate) deed: Deed,
    pub(crate) outcomes: Vec<Result<(), String>>,
}
