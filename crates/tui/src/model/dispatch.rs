//! The page of the dispatcher: modes, paused credentials, dead letters.

use std::collections::BTreeSet;

use domain::{DispatchModes, JobId};
use protocol::{CredentialList, CredentialView, DeadLetter, DeadLetterList, DivergenceReport, Utilisation};

use super::{Cursor, Filter};

/// The page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dispatch {
    pub(crate) modes: Option<DispatchModes>,
    /// The use of the seats in the last hour, when the page was last opened.
    pub(crate) utilisation: Option<Utilisation>,
    /// How push mode compares with polling.
    pub(crate) divergence: Option<DivergenceReport>,
    credentials: Vec<CredentialView>,
    letters: Vec<DeadLetter>,
    pub(crate) is_loaded: bool,
    pub(crate) error: Option<String>,
    pub(crate) filter: Filter,
    pub(crate) cursor: Cursor,
    pub(crate) marks: BTreeSet<JobId>,
}

/// A row that can be acted on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DispatchRow<'d> {
    Credential(&'d CredentialView),
    DeadLetter(&'d DeadLetter),
}

impl Dispatch {
    pub(crate) fn rows(&self) -> Vec<DispatchRow<'_>> {
        let credentials = self
            .credentials
            .iter()
            .filter(|credential| self.filter.admits_text(&[&credential.credential, credential.engine.as_str()]));
        let letters = self.letters.iter().filter(|letter| {
            self.filter.admits_text(&[
                &letter.job.title,
                letter.reason.name(),
                letter.job.message.as_deref().unwrap_or(""),
            ])
        });
        credentials.map(DispatchRow::Credential).chain(letters.map(DispatchRow::DeadLetter)).collect()
    }

    pub(crate) fn dead_letters(&self) -> &[DeadLetter] {
        &self.letters
    }

    pub(crate) fn set_letters(&mut self, list: DeadLetterList) {
        self.letters = list.items;
        self.marks.retain(|id| self.letters.iter().any(|letter| letter.job.id == *id));
        (self.is_loaded, self.error) = (true, None);
    }

    pub(crate) fn set_credentials(&mut self, list: CredentialList) {
        self.credentials = list.items;
    }
}
