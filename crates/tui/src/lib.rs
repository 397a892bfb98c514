//! The terminal client, `giga dash`.
//!
//! The model holds what is shown; [`update`] changes it by messages and asks for effects; [`view`] draws it. None of them
//! does I/O. The runtime in `io` connects them with the terminal and the coordinator.

mod boundary;
mod io;
mod layout;
mod look;
mod message;
mod model;
#[cfg(test)]
mod tests;
mod text;
mod times;
mod update;
mod view;

pub use io::{Connect, ConnectError, Dashboard, FolderSource, run};
pub use look::Look;
pub use model::{FolderFile, FolderListing};
