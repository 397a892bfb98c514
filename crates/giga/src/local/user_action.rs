//! What a user's move of a file means.

use domain::StageName;

use super::folder::Folder;

/// What a user's move of a job's file to another folder means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserAction {
    /// Try it again, from its saved work.
    Retry,
    /// Do it once more, from the beginning.
    Anew,
    /// Merge it.
    Ship,
    /// Say no to work that is done.
    Reject,
    /// Stop it.
    Cancel,
    /// Nothing that we understand: the file goes back to where its job is.
    Nothing,
}

/// What the move of a file to `to` means while its job is in `stage`. The whole table.
pub(crate) fn requested(stage: StageName, to: Folder) -> UserAction {
    use StageName as S;
    match (stage, to) {
        (S::Failed | S::DeadLetter | S::Review | S::Testing, Folder::Inbox) => UserAction::Retry,
        (S::Shipped, Folder::Inbox) => UserAction::Anew,
        (S::Testing, Folder::Shipped) => UserAction::Ship,
        (S::Review | S::Testing, Folder::Failed) => UserAction::Reject,
        (S::Queued | S::Blocked | S::Assigned | S::Building, Folder::Failed) => UserAction::Cancel,
        (
            S::Queued
            | S::Blocked
            | S::Assigned
            | S::Building
            | S::Review
            | S::Testing
            | S::Shipped
            | S::Failed
            | S::DeadLetter,
            _,
        ) => UserAction::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_means_what_a_person_would_mean_by_it() {
        assert_eq!(requested(StageName::Failed, Folder::Inbox), UserAction::Retry);
        assert_eq!(requested(StageName::DeadLetter, Folder::Inbox), UserAction::Retry);
        assert_eq!(requested(StageName::Testing, Folder::Shipped), UserAction::Ship);
        assert_eq!(requested(StageName::Testing, Folder::Failed), UserAction::Reject);
        assert_eq!(requested(StageName::Building, Folder::Failed), UserAction::Cancel);
        assert_eq!(requested(StageName::Shipped, Folder::Inbox), UserAction::Anew);
    }

    #[test]
    fn nobody_finishes_a_job_by_moving_its_file() {
        for stage in [StageName::Queued, StageName::Building, StageName::Review, StageName::Failed] {
            assert_eq!(requested(stage, Folder::Shipped), UserAction::Nothing, "{stage}");
            assert_eq!(requested(stage, Folder::Testing), UserAction::Nothing, "{stage}");
        }
    }
}
