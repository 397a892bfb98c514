//! The store that the settings name, opened.

use std::sync::Arc;

use clock::SystemEntropy;
use domain::Clock;
use store::{OpenStore, StoreOpenError, StorePlace, StoreUrl};

use crate::failure::Failure;

/// Opens the store. One that lacks something that its record knows of is refused, unless the operator accepted it.
pub(crate) async fn open(url: &StoreUrl, place: StorePlace, clock: Arc<dyn Clock>) -> anyhow::Result<OpenStore> {
    url.open(place, clock, &SystemEntropy).await.map_err(open_error)
}

/// Why a store could not be opened, with what to do where that is not in the words.
pub(crate) fn open_error(error: StoreOpenError) -> anyhow::Error {
    match error {
        StoreOpenError::TokenWithoutStore(_) => {
            let hint = "put the store back, or restore a backup with `giga backup restore FILE`; for a new, empty fleet remove the \
                        token or start with --accept-data-loss";
            Failure::failed(error.to_string()).hint(hint).into()
        }
        StoreOpenError::OneCoordinator => {
            Failure::usage(error.to_string()).hint("set --store to the address of a PostgreSQL database").into()
        }
        StoreOpenError::Adapter(error) => match error.downcast::<store::OpenError>() {
            Ok(error) => anyhow::Error::new(*error),
            Err(error) => anyhow::anyhow!(error),
        },
    }
}
