//! Arguments of the commands that steer jobs, and of what needs a person.

use std::str::FromStr;

use clap::{Args, Subcommand};
use domain::{CommitSha, FactoryId, Priority};
use protocol::NeedKind;

/// Arguments of `reject` and `request-changes`.
#[derive(Debug, Args)]
pub(crate) struct VerdictArgs {
    /// Job ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// What is wrong: recorded in the job's events, and sent to the next run
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// The verbs of `review`.
#[derive(Debug, Subcommand)]
pub(crate) enum ReviewCommand {
    /// List jobs that wait for review, with their votes
    List,
    /// Approve the completed commit of a job
    Approve(VoteArgs),
    /// Send the work back to its branch and session, with a comment
    Changes(VoteArgs),
    /// Reject the work: the job fails
    Reject(VoteArgs),
    /// Request a review of finished work, or a stricter one
    Request(ReviewRequestArgs),
}

/// Arguments of `review approve`, `changes` and `reject`.
#[derive(Debug, Args)]
pub(crate) struct VoteArgs {
    /// Job id, or its last characters (at least 4)
    pub(crate) id: String,
    /// Comment; required with `changes`, because the agent works by it
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// The reviewed commit (default: the job's current one, which is printed)
    #[arg(long, value_name = "SHA")]
    pub(crate) sha: Option<CommitSha>,
}

/// Arguments of `review request`.
#[derive(Debug, Args)]
pub(crate) struct ReviewRequestArgs {
    /// Job id, or its last characters (at least 4)
    pub(crate) id: String,
    /// Required approvals (default: the job's, or 1)
    #[arg(long, value_name = "COUNT")]
    pub(crate) quorum: Option<u32>,
    /// People whose approvals count, comma-separated (default: anyone but the author)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) reviewers: Vec<String>,
    /// Message for the reviewers
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// Arguments of `priority`.
#[derive(Debug, Args)]
pub(crate) struct PriorityArgs {
    /// Job id, or its last characters (at least 4)
    pub(crate) id: String,
    /// The new priority: critical, high, normal or low
    #[arg(value_parser = priority)]
    pub(crate) priority: Priority,
}

fn priority(text: &str) -> Result<Priority, String> {
    let found = Priority::ALL.into_iter().find(|priority| priority.name() == text);
    found.ok_or_else(|| format!("use one of {}", Priority::ALL.map(Priority::name).join(", ")))
}

/// Arguments of `pin`.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// Job id, or its last characters (at least 4)
    pub(crate) id: String,
    /// The factory
    #[arg(required_unless_present = "clear", conflicts_with = "clear")]
    pub(crate) factory: Option<FactoryId>,
    /// Remove the pin: any eligible factory may run the job
    #[arg(long)]
    pub(crate) clear: bool,
}

/// Arguments of `dismiss`.
#[derive(Debug, Args)]
pub(crate) struct DismissArgs {
    /// Job ids, or their last characters (at least 4)
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Reason, recorded in the job's events
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// Arguments of `needs-me`.
#[derive(Debug, Args)]
pub(crate) struct NeedsMeArgs {
    /// Only items of this kind, such as question or dead_letter; repeatable
    #[arg(long = "kind", value_name = "KIND")]
    pub(crate) kinds: Vec<NeedKind>,
    /// Maximum number of items
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) limit: u16,
}

/// How much of the end of a log to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// This many lines.
    Lines(usize),
    /// This many bytes.
    Bytes(u64),
}

/// The most that a coordinator returns.
const TAIL_MAX: u64 = 1024 * 1024;

impl FromStr for Tail {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shown = domain::escape_for_terminal(text);
        let unclear = || format!("`{shown}` is neither a number of lines nor a size: write `200` or `64KiB`");
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let number: u64 = number.parse().map_err(|_| unclear())?;
        let tail = match unit {
            "" => Self::Lines(usize::try_from(number).unwrap_or(usize::MAX)),
            "B" => Self::Bytes(number),
            "KiB" => Self::Bytes(number.saturating_mul(1 << 10)),
            "MiB" => Self::Bytes(number.saturating_mul(1 << 20)),
            _ => return Err(unclear()),
        };
        match tail {
            Self::Lines(0) | Self::Bytes(0) => Err("at least one line or byte".to_owned()),
            Self::Bytes(bytes) if bytes > TAIL_MAX => Err(format!("`{shown}` is more than 1MiB")),
            tail => Ok(tail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_a_number_of_lines_or_a_size() {
        assert_eq!("200".parse(), Ok(Tail::Lines(200)));
        assert_eq!("64KiB".parse(), Ok(Tail::Bytes(65_536)));
        assert_eq!("1MiB".parse(), Ok(Tail::Bytes(1_048_576)));
        for wrong in ["", "0", "0B", "2MiB", "64kb", "KiB", "-1"] {
            assert!(wrong.parse::<Tail>().is_err(), "{wrong}");
        }
    }
}
