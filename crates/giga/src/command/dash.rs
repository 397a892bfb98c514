//! `giga dash`

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use client::Client;
use clock::SystemEntropy;
use tui::{Connect, ConnectError, Dashboard, FolderSource, Look};

use crate::api::connect;
use crate::cli::{DashArgs, queue_data};
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::local::QueueListing;
use crate::output::{Palette, clean};

use super::Context;

/// Over a network each draw costs more than it shows.
const DRAWS_PER_SECOND: u32 = 30;
const DRAWS_PER_SECOND_REMOTE: u32 = 10;

/// Shows the fleet, or a folder queue, until the user leaves.
pub(super) async fn dash(context: &Context<'_>, args: &DashArgs) -> Result<(), Failure> {
    if context.out.is_json() {
        return Err(Failure::usage("`giga dash` has no JSON output")
            .hint("`giga jobs --json`, `giga factory list --json` and `giga events -f --json` have the same data"));
    }
    if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
        return Err(Failure::usage("`giga dash` needs a terminal")
            .hint("`giga jobs`, `giga alerts` and `giga events -f` print the same data"));
    }
    // The settings are the queue's, unless the command line names a coordinator.
    let dir = args.folder().filter(|dir| queue_data(dir) == context.config.data.path());
    let folder = dir.map(|dir| queue(context, &dir)).transpose()?;
    let config = context.config.reload()?;
    if folder.is_none() {
        // A missing token is an answer now; a coordinator that is down may come back.
        match connect(&config) {
            Err(failure) if failure.exit() == Exit::Unauthorized => return Err(failure),
            _ => {}
        }
    }
    let is_remote = std::env::var_os("SSH_CONNECTION").is_some();
    let dashboard = Dashboard {
        look: Look { color: context.out.palette() == Palette::Coloured, ascii: args.ascii || !is_utf8() },
        draws_per_second: if is_remote { DRAWS_PER_SECOND_REMOTE } else { DRAWS_PER_SECOND },
        product: context.config.client.product.value.as_ref().map(ToString::to_string),
        connect: Arc::new(Reconnect { config }),
        folder,
        clock: Arc::clone(&context.clock),
        entropy: Arc::new(SystemEntropy),
    };
    Ok(tui::run(dashboard).await?)
}

fn queue(context: &Context<'_>, dir: &Path) -> Result<(String, Arc<dyn FolderSource>), Failure> {
    if !dir.join("inbox").is_dir() {
        return Err(Failure::usage(format!("{} is not a folder queue: it has no inbox", dir.display()))
            .hint("`giga local DIR` makes one; `AQ_FLEET_DASH=1 giga dash` shows the coordinator"));
    }
    let listing = QueueListing::new(dir, context.config.data.path());
    Ok((clean(&dir.display().to_string()), Arc::new(listing)))
}

/// Makes clients from the settings as they are at that time.
struct Reconnect {
    config: Config,
}

impl Connect for Reconnect {
    fn connect(&self) -> Result<Client, ConnectError> {
        let connected = self.config.reload().and_then(|config| connect(&config));
        connected.map_err(|failure| {
            let hint = failure.hint_text().map_or_else(String::new, |hint| format!(": {hint}"));
            let text = clean(&format!("{}{hint}", failure.message()));
            match failure.exit() {
                Exit::Unauthorized => ConnectError::NoToken(text),
                _ => ConnectError::NoCoordinator(text),
            }
        })
    }
}

/// Whether the locale's encoding is UTF-8. Without any locale it is not.
fn is_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
    let locale = locale.to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
