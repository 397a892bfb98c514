//! What each alert means, and what an operator does: one table, from which docs/reference/alerts.md is generated.

use crate::AlertCode;

impl AlertCode {
    /// Every code, in the order of a list of alerts.
    pub const ALL: [Self; 26] = [
        Self::QueueStarvation,
        Self::NoLiveFactory,
        Self::Unplaceable,
        Self::StaleFactory,
        Self::UnresponsiveFactory,
        Self::PoolNotStarting,
        Self::DeadLetter,
        Self::JobsFailed,
        Self::DispatchLag,
        Self::DuplicateDispatch,
        Self::ChangesExhausted,
        Self::QuestionWaiting,
        Self::ReviewWaiting,
        Self::RemoteUnavailable,
        Self::MergeFailed,
        Self::DependencyFailed,
        Self::DiskFull,
        Self::EnginePaused,
        Self::CredentialExhausted,
        Self::TrackerUnreachable,
        Self::ItemRejected,
        Self::WebhookFailing,
        Self::BudgetWarning,
        Self::BudgetPaused,
        Self::StoreDamaged,
        Self::UnreadableDocument,
    ];

    /// What has happened, and what to do about it.
    #[must_use]
    pub fn help(self) -> (&'static str, &'static str) {
        match self {
            Self::QueueStarvation => (
                "A job has waited too long for a seat (`starving_after`).",
                "Add seats or a factory, or cancel other jobs; `giga explain ID` shows what it waits for.",
            ),
            Self::NoLiveFactory => (
                "Jobs wait, and no factory is connected.",
                "Start a factory with `giga factory run`, or check the connection of those that run.",
            ),
            Self::Unplaceable => (
                "No live factory is eligible for a job, a promotion or a merge.",
                "Add the named capability or repository to a factory, or drop it from the job.",
            ),
            Self::StaleFactory => {
                ("A factory sent no heartbeat for too long.", "Start it, or remove it with `giga factory remove NAME`.")
            }
            Self::UnresponsiveFactory => (
                "A connected factory leaves offers unanswered, or declines them repeatedly.",
                "Read its log, check its disk, or restart it.",
            ),
            Self::PoolNotStarting => (
                "A pool should have a factory more and none has joined in time (`startWithin`), or one joined that does not offer what the pool declares.",
                "Check that `giga scaler` runs and can start machines. Correct the pool with `giga pool set NAME`: that also makes it try again.",
            ),
            Self::DeadLetter => (
                "Jobs are dead-lettered: retries exhausted, too many lost leases, or undeliverable.",
                "List them with `giga dead-letters`; `giga requeue ID`, or `giga dead-letters dismiss ID`.",
            ),
            Self::JobsFailed => (
                "Jobs of a product failed in the last 24 hours. Cancelled ones do not count.",
                "`giga job ID` shows why; `giga requeue ID` tries again.",
            ),
            Self::DispatchLag => (
                "Jobs wait although seats are free.",
                "Check that the store is writable; in the modes `poll` and `gate`, that factories poll.",
            ),
            Self::DuplicateDispatch => (
                "The broker dropped a new dispatch as a duplicate.",
                "The sweep dispatches the job again. Report it: the broker's deduplication is at fault.",
            ),
            Self::ChangesExhausted => (
                "A pull request used up its feedback rounds (`feedback_rounds_max`).",
                "Review it; `giga requeue ID` or a maintainer's request for changes resets the rounds.",
            ),
            Self::QuestionWaiting => ("An agent asks a question, and its job is blocked.", "`giga answer ID -m \"…\"`"),
            Self::ReviewWaiting => (
                "The work of a job waits for the approvals of its review.",
                "`giga review list` shows whose; a reviewer decides with `giga review approve|changes|reject ID`.",
            ),
            Self::RemoteUnavailable => (
                "A factory cannot use the remote of a repository.",
                "Check the remote and git's credentials on that factory. It probes the remote every minute at most.",
            ),
            Self::MergeFailed => (
                "A job is done, and the coordinator stopped retrying its promotion or merge.",
                "`giga ship ID` tries again, `giga requeue ID` starts a rework round, `giga cancel ID` ends it.",
            ),
            Self::DependencyFailed => (
                "A job is blocked on a dependency that failed, was cancelled or dead-lettered.",
                "`giga requeue` the dependency, or `giga cancel` the blocked job.",
            ),
            Self::DiskFull => (
                "The state disk of a factory has too little free space for work (`disk_free_min_mib`), or the coordinator's disk is full.",
                "Free space. On a factory, `giga gc` removes what is no longer needed.",
            ),
            Self::EnginePaused => (
                "Jobs wait for an engine whose provider has an outage.",
                "The factory tries it again at the shown time. Offer another engine if the jobs cannot wait.",
            ),
            Self::CredentialExhausted => {
                ("The account of a credential has no credit left.", "Add credit, then `giga credential resume NAME`.")
            }
            Self::TrackerUnreachable => (
                "A tracker does not take the status of jobs.",
                "Check its token and address (`giga tracker list` shows the error). The coordinator retries.",
            ),
            Self::ItemRejected => (
                "An item of a tracker became no job: its delivery was rejected. For a week, or until a delivery of the item succeeds.",
                "`giga tracker list` shows why. Correct the settings or the item, then deliver it again (GitHub: *Redeliver* in the webhook's settings).",
            ),
            Self::WebhookFailing => (
                "The receiver of an outgoing webhook did not take three deliveries in a row.",
                "`giga webhook list` shows the error, `giga webhook test NAME` tries it. The coordinator retries for a day.",
            ),
            Self::BudgetWarning => (
                "A product has spent more than 50, 80 or 95 % of its ceiling.",
                "`giga budget show NAME` shows what it is spent on; `giga budget set NAME --ceiling USD` raises the ceiling.",
            ),
            Self::BudgetPaused => (
                "A product is paused by its budget: the ceiling is reached, or less is left than the next job needs.",
                "`giga budget set NAME --ceiling USD` raises the ceiling; otherwise the next period starts its jobs.",
            ),
            Self::StoreDamaged => (
                "An integrity check found the store damaged. `/readyz` fails.",
                "Restore a backup with `giga backup restore FILE`.",
            ),
            Self::UnreadableDocument => (
                "A stored document cannot be read and is skipped.",
                "Repair or remove it: [troubleshooting](../how-to/troubleshooting.md#the-alert-unreadable_document).",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::page;

    use super::*;

    const HEAD: &str = "\
# Alerts

`giga alerts` and `GET /api/fleet/alerts` list what needs an operator. Alerts are computed from the current state: one ends when its cause does.

";

    #[test]
    fn the_page_of_alerts_is_current() {
        let rows = AlertCode::ALL.into_iter().map(|code| {
            let name = serde_json::to_string(&code).expect("a code is a string");
            let (meaning, remedy) = code.help();
            [format!("`{}`", name.trim_matches('"')), meaning.to_owned(), remedy.to_owned()]
        });

        page::matches("reference/alerts.md", &format!("{HEAD}{}", page::table(["code", "meaning", "remedy"], rows)));
    }

    #[test]
    fn every_alert_is_listed_once_and_in_order() {
        assert!(AlertCode::ALL.windows(2).all(|pair| pair[0] < pair[1]));
    }
    // [D4]
    #[test]
    fn every_alert_is_raised_and_cleared_by_a_tagged_test() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut tests = String::new();
        for krate in std::fs::read_dir(crates).unwrap() {
            read_all(&krate.unwrap().path().join("tests"), &mut tests);
        }

        let tag = |code: AlertCode| {
            let name = serde_json::to_value(code).unwrap();
            format!("[alert: {}]", name.as_str().unwrap())
        };
        let untested: Vec<String> =
            AlertCode::ALL.into_iter().map(tag).filter(|tag| !tests.contains(tag.as_str())).collect();

        assert!(untested.is_empty(), "no test raises and clears: cite {untested:?} in front of one that does both");
    }

    /// The comments of all tests below a directory.
    fn read_all(directory: &std::path::Path, text: &mut String) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                read_all(&path, text);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let code = std::fs::read_to_string(&path).unwrap();
                code.lines().filter(|line| line.starts_with("// [")).for_each(|line| text.push_str(line));
            }
        }
    }
}
