//! The prompt of a run's agent [F2b]. Every engine gets this text; no other module writes to an agent.

use std::path::Path;

use domain::{
    BranchName, ChildResult, CommandStep, CommitSha, FactoryId, FailedCommand, MergeConflict, PreviousRun,
    QUESTION_FILE, RunEnd, StageName,
};

/// Everything that a prompt depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text of the job's profile.
    pub persona: Option<String>,
    /// The text of the manifest.
    pub task: String,
    /// Commands that run after the agent and before the commit.
    pub prepare: Vec<String>,
    /// Commands that run on the commit.
    pub verify: Vec<String>,
    /// The content of the worktree when the engine starts.
    pub worktree: WorktreeState,
    /// The factory that runs it.
    pub factory: Option<FactoryId>,
    /// The end of the last run with an engine.
    pub previous: Option<PreviousRun>,
    /// The question of an earlier run, and the answer.
    pub answer: Option<String>,
    /// The requested changes of completed work.
    pub changes: Option<String>,
    /// The conflict that the merge of completed work ended with.
    pub conflict: Option<MergeConflict>,
    /// An operator's message.
    pub message: Option<String>,
    /// The child jobs that ran before this one.
    pub children: Vec<ChildResult>,
}

/// What separates the persona from the job's own text.
const JOB_HEADING: &str = "The job:";

/// The content of a worktree when the engine starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeState {
    /// An empty directory: the job has no repository.
    Empty,
    /// A new checkout of the base branch.
    New(BaseBranch),
    /// The saved work of earlier runs, with its uncommitted changes.
    Saved(BaseBranch),
    /// The completed commits of an earlier run.
    Completed(BaseBranch),
}

/// The base branch in a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseBranch {
    /// Its name.
    pub name: BranchName,
    /// The commit of `origin/<name>`.
    pub sha: CommitSha,
}

/// Whether an engine resumes its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// The conversation continues.
    Resumed,
    /// A new conversation.
    New,
}

impl Prompt {
    /// The prompt of a first run without a repository and without commands.
    pub fn of_task(task: &str) -> Self {
        Self {
            persona: None,
            task: task.to_owned(),
            prepare: Vec::new(),
            verify: Vec::new(),
            worktree: WorktreeState::Empty,
            factory: None,
            previous: None,
            answer: None,
            changes: None,
            conflict: None,
            message: None,
            children: Vec::new(),
        }
    }

    /// The text for an agent that works in `dir`.
    pub fn text(&self, memory: Memory, dir: &Path) -> String {
        let news = [
            self.conversation(memory),
            self.previous.as_ref().map(|previous| self.ended(previous)),
            self.answer.as_deref().map(answered),
            self.changes.as_deref().map(|changes| self.requested(changes)),
            self.conflict.as_ref().and_then(|conflict| self.conflicting(conflict)),
            self.message.as_deref().map(|message| format!("Message from an operator:\n\n{}", quoted(message))),
            self.is_further(memory).then(|| self.standing(memory, dir)),
        ];
        // The persona and the job's own text come first in every run: an engine that reads the first line finds the
        // same one. The heading tells them apart.
        let persona = self.persona.as_deref().map(str::trim).filter(|persona| !persona.is_empty());
        let mut parts: Vec<String> =
            persona.into_iter().flat_map(|persona| [persona, "---", JOB_HEADING]).map(str::to_owned).collect();
        parts.extend([self.task.trim_end().to_owned(), "---".to_owned()]);
        parts.extend(self.families());
        parts.extend(news.into_iter().flatten());
        parts.extend(self.checks());
        parts.extend(self.base().map(about_base));
        parts.push(format!(
            "If you cannot continue without a decision by a person, write the question to the file `{QUESTION_FILE}` in `{}` and \
             stop.",
            dir.display()
        ));
        parts.join("\n\n") + "\n"
    }

    /// Whether an agent has worked on the job before.
    fn is_further(&self, memory: Memory) -> bool {
        let is_known = self.previous.is_some() || self.answer.is_some() || self.changes.is_some();
        is_known || self.has_work() || memory == Memory::Resumed
    }

    fn has_work(&self) -> bool {
        matches!(self.worktree, WorktreeState::Saved(_) | WorktreeState::Completed(_))
    }

    fn is_discarded(&self) -> bool {
        self.previous.as_ref().is_some_and(|previous| previous.work_discarded)
    }

    fn base(&self) -> Option<&BaseBranch> {
        match &self.worktree {
            WorktreeState::Empty => None,
            WorktreeState::New(base) | WorktreeState::Saved(base) | WorktreeState::Completed(base) => Some(base),
        }
    }

    fn conversation(&self, memory: Memory) -> Option<String> {
        let text = match memory {
            _ if !self.is_further(memory) => return None,
            Memory::Resumed => "You worked on this job before, in this conversation. This is a new run of it.",
            Memory::New => {
                "An earlier run worked on this job. This run is a new conversation, without the messages of that run."
            }
        };
        Some(text.to_owned())
    }

    /// Why the previous run ended.
    fn ended(&self, previous: &PreviousRun) -> String {
        let run = named(previous);
        let text = match &previous.end {
            RunEnd::Completed => match (&self.changes, &self.conflict, &self.message) {
                (None, None, None) => format!("{run} completed the work. An operator has requeued the job since."),
                _ => format!("{run} completed the work."),
            },
            RunEnd::CommandFailed(failed) => format!("{run} failed: {}", command_failed(failed)),
            RunEnd::NoChanges => format!(
                "{run} failed: its agent finished, but no file differs from the base branch. The job needs a change to be \
                 completed."
            ),
            RunEnd::TimedOut { message } => with_message(&format!("{run} was stopped at a limit"), message),
            RunEnd::BudgetExceeded { message } => {
                with_message(&format!("{run} was stopped because the job's budget was used up"), message)
            }
            RunEnd::EngineFailed { message } => with_message(&format!("{run} failed"), message),
            RunEnd::FactoryFailed { message } => with_message(&format!("{run} crashed"), message),
            RunEnd::Asked { .. } => format!("{run} ended with a question to a person."),
            RunEnd::AwaitedSubtasks => {
                format!("{run} ended to wait for the subtasks that it created. They have ended.")
            }
            RunEnd::QuotaExhausted { message } => {
                with_message(&format!("{run} was interrupted by a usage limit of its engine"), message)
            }
            RunEnd::CreditExhausted => {
                format!("{run} was interrupted: the account of its engine had no credit left.")
            }
            RunEnd::LeaseExpired => format!("{run} was interrupted: the factory sent no heartbeat."),
            RunEnd::Released { message: Some(message) } => with_message(&format!("{run} was interrupted"), message),
            RunEnd::Released { message: None } => format!("{run} was interrupted."),
            RunEnd::Preempted => format!("{run} was interrupted: a more urgent job needed its seat."),
            RunEnd::Restored => {
                format!("{run} was interrupted: the coordinator's store was restored from a backup.")
            }
            RunEnd::Cancelled { message } => {
                let text = format!("{run} was the last one. An operator cancelled the job, and it was requeued since.");
                with_reason(&text, message.as_deref())
            }
            RunEnd::Rejected { message } => {
                let text = format!("{run} completed the work. The work was rejected, and the job was requeued since.");
                with_reason(&text, message.as_deref())
            }
        };
        let is_elsewhere = self.factory.as_ref().is_some_and(|factory| *factory != previous.factory);
        match is_elsewhere {
            true => {
                format!(
                    "{text}\n\nThat run was on another machine: files that it left outside the repository are not here."
                )
            }
            false => text,
        }
    }

    fn requested(&self, changes: &str) -> String {
        let opening = match self.has_work() {
            true => "The completed work was sent back. Make the requested changes, and keep what is right:",
            false => {
                "Completed work of an earlier run was sent back. That work is not in this worktree; these changes were \
                 requested of it:"
            }
        };
        format!("{opening}\n\n{}", changes.trim())
    }

    /// Without the conflicting work there is no conflict: the run starts at the base branch.
    fn conflicting(&self, conflict: &MergeConflict) -> Option<String> {
        let base = self.base().filter(|_| self.has_work())?;
        let (name, tried) = (&conflict.base, &conflict.base_sha);
        let mut text = format!(
            "Merging the completed work into `{name}` failed with a merge conflict. The merge was tried with commit {tried} of \
             `{name}`."
        );
        if !conflict.files.is_empty() {
            text.push_str(&format!(" Files in conflict:\n\n{}", indented(&conflict.files)));
        }
        text.push_str(&format!(
            "\n\nMerge the base branch into the current branch with `git merge origin/{}`, resolve the conflicts so that the \
             changes of both sides are kept, and commit the merge.",
            base.name
        ));
        Some(text)
    }

    /// The content of the worktree.
    fn standing(&self, memory: Memory, dir: &Path) -> String {
        let dir = dir.display();
        let not_saved = "Ignored files, such as installed dependencies and build output, are not saved between runs.";
        let look = match memory {
            Memory::New => " Look at `git log` and `git status` first, keep what is good, and finish the rest.",
            Memory::Resumed => " Continue from there.",
        };
        match &self.worktree {
            WorktreeState::Empty => {
                format!("The working directory `{dir}` is new and empty: files of earlier runs are not kept.")
            }
            WorktreeState::New(base) if memory == Memory::Resumed && !self.is_discarded() => format!(
                "No file changes of earlier runs are available. The worktree `{dir}` is a new checkout of `{}`. Continue the job \
                 there.",
                base.name
            ),
            WorktreeState::New(base) => {
                let why = match self.is_discarded() {
                    true => "An operator discarded the work of earlier runs.",
                    false => "No work of earlier runs is available.",
                };
                format!("{why} The worktree `{dir}` is a new checkout of `{}`: start from the beginning.", base.name)
            }
            WorktreeState::Saved(_) => format!(
                "The worktree `{dir}` contains the saved work of earlier runs: their commits on the current branch, and their \
                 uncommitted changes as last saved.{look} {not_saved}"
            ),
            WorktreeState::Completed(_) => format!(
                "The worktree `{dir}` contains the completed work of an earlier run as commits on the current branch; nothing \
                 is uncommitted.{look} {not_saved}"
            ),
        }
    }

    /// The results of the child jobs.
    fn families(&self) -> Option<String> {
        let has_branches =
            self.children.iter().any(|child| child.branch.is_some() && child.stage != StageName::Shipped);
        let place = match (self.base(), has_branches) {
            (Some(base), true) => format!(
                " The work of those that shipped is in `origin/{}`. That of the others is not: where a branch is named, it is in \
                 this repository as `origin/` and its name; merge it if this job needs it.",
                base.name
            ),
            (Some(base), false) => format!(" The work of those that shipped is in `origin/{}`.", base.name),
            (None, _) => String::new(),
        };
        let results: Vec<String> = self.children.iter().map(child_result).collect();
        let opening = format!("Child jobs of this job have run before it.{place} What their agents reported:");
        (!results.is_empty()).then(|| format!("{opening}\n\n{}", results.join("\n\n")))
    }

    /// The commands that will be run.
    fn checks(&self) -> Option<String> {
        let mut steps = Vec::new();
        let has_repo = self.base().is_some();
        if !self.prepare.is_empty() {
            let kept = if has_repo { " What they change is committed with your work." } else { "" };
            steps.push(format!("- `prepare` commands. Each must exit with 0.{kept}\n\n{}", blocks(&self.prepare)));
        }
        if !self.verify.is_empty() {
            let on = if has_repo { " They run on the committed work; their changes are not committed." } else { "" };
            steps.push(format!("- `verify` commands. Each must exit with 0.{on}\n\n{}", blocks(&self.verify)));
        }
        (!steps.is_empty()).then(|| format!("When you finish, these commands are run:\n\n{}", steps.join("\n\n")))
    }
}

/// `Run 2 (engine `claude` on factory `west`)`
fn named(previous: &PreviousRun) -> String {
    let engine = previous.engine.as_ref().map_or_else(String::new, |engine| format!("engine `{engine}` on "));
    format!("Run {} ({engine}factory `{}`)", previous.n, previous.factory)
}

fn child_result(child: &ChildResult) -> String {
    let commit = child.commit.as_ref().map_or_else(String::new, |commit| format!(", commit {commit}"));
    let branch = child.branch.as_ref().map_or_else(String::new, |branch| format!(" of branch `{branch}`"));
    let request = child.pull_request.as_ref().map_or_else(String::new, |url| format!(", pull request {url}"));
    let (title, stage) = (child.title.replace('`', "'"), child.stage);
    let line = format!("- Job {} `{title}`: {stage}{commit}{branch}{request}", child.id.short());
    match child.summary.as_deref().filter(|summary| !summary.trim().is_empty()) {
        Some(summary) => {
            let summary = quoted(summary).lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n");
            format!("{line}\n\n{summary}")
        }
        None => line,
    }
}

fn about_base(base: &BaseBranch) -> String {
    format!(
        "`origin/{}` is the base branch as it is now (commit {}). The repository has no remote: fetch and push do not work, and \
         are not needed.",
        base.name, base.sha
    )
}

fn answered(answer: &str) -> String {
    format!("An earlier run asked a person, and this is the answer:\n\n{}", quoted(answer))
}

fn command_failed(failed: &FailedCommand) -> String {
    let after = match failed.step {
        CommandStep::Prepare => " Its work was not verified.",
        CommandStep::Verify => "",
    };
    let (step, ended) = (failed.step.name(), &failed.ended);
    let command = indented(std::slice::from_ref(&failed.command));
    let mut text = format!("a `{step}` command failed ({ended}).{after}\n\n{command}");
    match (failed.output.trim().is_empty(), failed.output_cut) {
        (true, _) => text.push_str("\n\nIt printed nothing."),
        (false, true) => text.push_str(&format!("\n\nThe end of its output:\n\n{}", fenced(&failed.output))),
        (false, false) => text.push_str(&format!("\n\nIts output:\n\n{}", fenced(&failed.output))),
    }
    text
}

/// A sentence with a message of any kind: in the same line, or quoted below if it has several lines.
fn with_message(text: &str, message: &str) -> String {
    let message = message.trim();
    if message.contains('\n') {
        format!("{text}:\n\n{}", quoted(message))
    } else {
        format!("{text}: {}.", message.trim_end_matches('.'))
    }
}

fn with_reason(text: &str, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => with_message(&format!("{text} The reason that was given"), reason),
        None => text.to_owned(),
    }
}

fn quoted(text: &str) -> String {
    let quote = |line: &str| format!("> {line}").trim_end().to_owned();
    text.trim().lines().map(quote).collect::<Vec<_>>().join("\n")
}

/// Lines as a code block, which they cannot close.
fn indented(lines: &[String]) -> String {
    let indent = |line: &str| format!("      {line}").trim_end().to_owned();
    lines.iter().flat_map(|text| text.lines()).map(indent).collect::<Vec<_>>().join("\n")
}

/// Each command as a code block of its own, below a list item.
fn blocks(commands: &[String]) -> String {
    let indent = |line: &str| format!("  {line}").trim_end().to_owned();
    let block = |command: &String| fenced_as("sh", command).lines().map(indent).collect::<Vec<_>>().join("\n");
    commands.iter().map(block).collect::<Vec<_>>().join("\n\n")
}

/// A text as a code block, which it cannot close.
fn fenced(text: &str) -> String {
    fenced_as("text", text)
}

fn fenced_as(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}
