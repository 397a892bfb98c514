//! The permission policy for agents that ask first.

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, SelectedPermissionOutcome, ToolKind,
};
use serde::Deserialize;

/// How an agent's permission requests are answered; no person is present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permissions {
    /// Everything is allowed, once each. The sandbox restricts the agent.
    #[default]
    All,
    /// Reading and changing files is allowed; commands, the network and the rest are not.
    Edits,
    /// Nothing is allowed.
    Nothing,
}

/// An answer, and whether it allowed the call.
pub(super) struct PermissionAnswer {
    pub(super) outcome: RequestPermissionOutcome,
    pub(super) allowed: bool,
}

impl Permissions {
    /// Answers a request about a tool of this kind with one of the agent's options.
    pub(super) fn answer(self, kind: ToolKind, options: &[PermissionOption]) -> PermissionAnswer {
        // A permanent answer would be written to the agent's own settings, and outlive the job.
        let (allow, wanted) = if self.allows(kind) {
            (true, [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways])
        } else {
            (false, [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways])
        };
        let chosen = wanted.iter().find_map(|wanted| options.iter().find(|option| option.kind == *wanted));
        match chosen {
            Some(option) => {
                let selected = SelectedPermissionOutcome::new(option.option_id.clone());
                PermissionAnswer { outcome: RequestPermissionOutcome::Selected(selected), allowed: allow }
            }
            None => PermissionAnswer { outcome: RequestPermissionOutcome::Cancelled, allowed: false },
        }
    }

    fn allows(self, kind: ToolKind) -> bool {
        match self {
            Self::All => true,
            Self::Edits => matches!(
                kind,
                ToolKind::Read
                    | ToolKind::Edit
                    | ToolKind::Delete
                    | ToolKind::Move
                    | ToolKind::Search
                    | ToolKind::Think
            ),
            Self::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(permissions: Permissions, kind: ToolKind, offered: &[PermissionOptionKind]) -> (Option<String>, bool) {
        let options: Vec<PermissionOption> =
            offered.iter().map(|kind| PermissionOption::new(format!("{kind:?}"), "x", *kind)).collect();
        let PermissionAnswer { outcome, allowed } = permissions.answer(kind, &options);
        match outcome {
            RequestPermissionOutcome::Selected(selected) => (Some(selected.option_id.to_string()), allowed),
            _ => (None, allowed),
        }
    }

    #[test]
    fn a_permission_is_given_for_one_time_where_that_is_offered() {
        use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
        let all = [AllowAlways, AllowOnce, RejectAlways, RejectOnce];
        let given = |permissions, kind, offered: &[PermissionOptionKind]| chosen(permissions, kind, offered);

        assert_eq!(given(Permissions::All, ToolKind::Execute, &all), (Some("AllowOnce".to_owned()), true));
        assert_eq!(given(Permissions::All, ToolKind::Execute, &[AllowAlways]), (Some("AllowAlways".to_owned()), true));
        assert_eq!(given(Permissions::Edits, ToolKind::Edit, &all), (Some("AllowOnce".to_owned()), true));
        assert_eq!(given(Permissions::Edits, ToolKind::Execute, &all), (Some("RejectOnce".to_owned()), false));
        assert_eq!(given(Permissions::Nothing, ToolKind::Read, &all), (Some("RejectOnce".to_owned()), false));
    }

    #[test]
    fn a_request_without_a_fitting_option_is_not_granted() {
        let offered = [PermissionOptionKind::RejectOnce];

        assert_eq!(chosen(Permissions::All, ToolKind::Edit, &offered), (None, false));
        assert_eq!(chosen(Permissions::Nothing, ToolKind::Edit, &[]), (None, false));
    }
}
