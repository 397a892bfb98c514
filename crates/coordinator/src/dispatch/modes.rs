//! Dispatch modes [D1]: stored, changed at run time, sent to every subscriber.
//!
//! A mode applies to a dispatch: an open offer ends as an offer, whatever the mode is by then. A change applies only to
//! the next dispatch, so switching modes leaves running work alone [I13].

use domain::{Collection, DispatchModes, Expected, Mode, Revision, TokenScope, Versioned};
use tokio::sync::watch;
use tracing::info;

use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;

/// The one document of its collection.
const KEY: &str = "modes";

/// The modes in force, for every subscriber.
pub(crate) struct Modes {
    now: watch::Sender<Versioned<DispatchModes>>,
}

impl Default for Modes {
    fn default() -> Self {
        Self { now: watch::Sender::new(Versioned { value: DispatchModes::default(), revision: Revision(0) }) }
    }
}

impl Modes {
    /// The modes in force.
    pub(crate) fn now(&self) -> Versioned<DispatchModes> {
        self.now.borrow().clone()
    }

    /// Subscribes to the modes; several changes in between arrive as one.
    pub(crate) fn follow(&self) -> watch::Receiver<Versioned<DispatchModes>> {
        self.now.subscribe()
    }
}

impl Coordinator {
    /// The modes in force, limited to the caller's products.
    pub fn flags(&self, who: &Principal) -> Result<Versioned<DispatchModes>, Error> {
        if !matches!(who.grant, TokenScope::Admin | TokenScope::Operator { .. }) {
            return Err(Error::Forbidden("an operator or admin token is needed".to_owned()));
        }
        let Versioned { value, revision } = self.modes.now();
        Ok(Versioned { value: self.in_force(value).limited_to(&who.products()), revision })
    }

    /// The modes with the coordinator's settings where no flag was set.
    pub(crate) fn in_force(&self, modes: DispatchModes) -> DispatchModes {
        DispatchModes { preemption: Some(modes.preemption.unwrap_or(self.settings.preemption)), ..modes }
    }

    /// Whether critical jobs may preempt others.
    pub(crate) fn preempts(&self) -> bool {
        self.modes.now.borrow().value.preemption.unwrap_or(self.settings.preemption)
    }

    /// Changes the modes, if they are still at `expected` where that is given. Open offers stay open.
    pub async fn put_flags(
        &self,
        who: &Principal,
        mut flags: DispatchModes,
        expected: Option<Revision>,
    ) -> Result<Versioned<DispatchModes>, Error> {
        who.require_admin()?;
        self.check_flags(&flags)?;
        let known = self.modes.now();
        if expected.is_some_and(|expected| expected != known.revision) {
            return Err(Error::Outdated);
        }
        if known.value.preemption.is_none() && flags.preemption == Some(self.settings.preemption) {
            // A client returns what it was shown: the setting still decides.
            flags.preemption = None;
        }
        let shown = |flags: Versioned<DispatchModes>| Versioned { value: self.in_force(flags.value), ..flags };
        if known.value == flags {
            return Ok(shown(known));
        }
        let over = if known.revision == Revision(0) { Expected::Absent } else { Expected::At(known.revision) };
        match self.put_document(Collection::Flags, KEY, over, Some(&flags)).await? {
            PutOutcome::Written(revision) => {
                let written = Versioned { value: flags, revision };
                self.cache_modes(written.clone());
                self.begin_budgets().await;
                info!(by = %who.name, flags = ?written.value, "`{}` changed the dispatch modes", who.name);
                Ok(shown(written))
            }
            PutOutcome::Lost(found) => {
                if let Some(found) = found {
                    self.cache_modes(found);
                }
                Err(if expected.is_some() { Error::Outdated } else { is_conflict() })
            }
        }
    }

    /// Reads the modes at the start.
    pub(crate) async fn load_flags(&self) -> Result<(), Error> {
        if self.settings.shadow {
            // Until an administrator sets the modes.
            let value = DispatchModes { mode: Mode::Shadow, ..DispatchModes::default() };
            self.state.lock().set_modes(value.clone());
            self.modes.now.send_replace(Versioned { value, revision: Revision(0) });
        }
        for (key, flags) in self.documents::<DispatchModes>(Collection::Flags).await? {
            if key == KEY {
                self.cache_modes(flags);
            }
        }
        // Unreadable modes count as the defaults until an administrator sets them.
        for (_, revision) in self.quarantine.of(Collection::Flags).into_iter().filter(|(key, _)| key == KEY) {
            self.cache_modes(Versioned { value: DispatchModes::default(), revision });
        }
        Ok(())
    }

    /// Takes the modes into memory and notifies every subscriber. An older revision than the known one changes nothing.
    fn cache_modes(&self, flags: Versioned<DispatchModes>) {
        let is_news = {
            let mut state = self.state.lock();
            let is_news = flags.revision > self.modes.now.borrow().revision;
            if is_news {
                state.set_modes(flags.value.clone());
                self.modes.now.send_replace(flags);
            }
            is_news
        };
        if is_news {
            self.weigh_money();
            self.live.note();
            // Jobs that waited to be claimed may have to be offered from now on.
            self.work.notify_one();
        }
    }

    fn check_flags(&self, flags: &DispatchModes) -> Result<(), Error> {
        let state = self.state.lock();
        match flags.products.keys().find(|product| !state.has_product(product)) {
            Some(given) => {
                Err(Error::UnknownProduct { given: given.clone(), known: state.product_ids().cloned().collect() })
            }
            None => Ok(()),
        }
    }
}
