//! Whether the trackers and the outgoing webhooks of a coordinator are configured well. Nothing is sent.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use domain::WebhookName;

use crate::compose::address_of;
use crate::config::{Config, Webhook};

use super::check::Check;

/// A shorter secret can be guessed.
const SECRET_LEN_MIN: usize = 16;

/// Bits of a file's mode by which other users read it.
const READABLE_BY_OTHERS: u32 = 0o004;

/// The trackers and webhooks, if there are any.
pub(super) fn examine(config: &Config) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(github) = &config.tracker.github.value {
        checks.extend(secret_file("tracker", "github", github.webhook_secret_file().as_deref()));
        checks.extend(github.token_file().and_then(|file| secret_file("tracker", "github", Some(&file))));
        if github.token_file().is_none() && github.token_env.is_none() {
            let found = "`github` has no token: issues show no status";
            checks.push(Check::warn("tracker", found, "set token_file of [tracker.github]"));
        }
    }
    for (name, source) in &config.tracker.sources.value {
        checks.extend(secret_file("tracker", name.as_str(), source.webhook_secret_file().as_deref()));
    }
    for (name, webhook) in &config.webhooks.value {
        checks.extend(of_webhook(name, webhook));
    }
    checks
}

fn of_webhook(name: &WebhookName, webhook: &Webhook) -> Vec<Check> {
    let target = match address_of(webhook) {
        Ok(target) => target,
        Err(error) => {
            let remedy = format!("fix [webhooks.{name}], or the file that it names");
            return vec![Check::fail("webhook", format!("`{name}`: {error:#}"), remedy)];
        }
    };
    let mut checks = Vec::new();
    for file in [webhook.url_file(), webhook.secret_file()] {
        checks.extend(file.and_then(|file| open_file("webhook", name.as_str(), file)));
    }
    if target.secret.as_ref().is_some_and(|secret| secret.len() < SECRET_LEN_MIN) {
        let found = format!("`{name}`: the secret is shorter than {SECRET_LEN_MIN} bytes");
        checks.push(Check::warn("webhook", found, "use a long random one, such as from `openssl rand -hex 32`"));
    }
    if checks.is_empty() {
        let events: Vec<String> = webhook.topics().iter().map(ToString::to_string).collect();
        let found = format!("`{name}` sends {} as {}", events.join(", "), webhook.format.name());
        checks.push(Check::ok("webhook", format!("{found}; `giga webhook test {name}` tries it")));
    }
    checks
}

/// Whether a file with a secret can be read, and by this user alone.
fn secret_file(check: &'static str, name: &str, file: Option<&Path>) -> Option<Check> {
    let file = file?;
    match std::fs::read_to_string(file) {
        Err(error) => {
            let found = format!("`{name}`: cannot read {}: {error}", file.display());
            Some(Check::fail(check, found, "create the file, or change its permissions"))
        }
        Ok(text) if text.trim().is_empty() => {
            let found = format!("`{name}`: {} is empty", file.display());
            Some(Check::fail(check, found, "write a secret to it"))
        }
        Ok(_) => Some(
            open_file(check, name, file)
                .unwrap_or_else(|| Check::ok(check, format!("`{name}`: {} is readable", file.display()))),
        ),
    }
}

/// A file with a secret that other users can read.
fn open_file(check: &'static str, name: &str, file: &Path) -> Option<Check> {
    let mode = std::fs::metadata(file).ok()?.mode();
    (mode & READABLE_BY_OTHERS != 0).then(|| {
        let found = format!("`{name}`: every user of this machine can read {}", file.display());
        Check::warn(check, found, format!("`chmod o-r {}`", file.display()))
    })
}
