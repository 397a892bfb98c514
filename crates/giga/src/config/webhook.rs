//! `[webhooks]`: who is told about jobs and alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use domain::{ProductId, WebhookFormat, WebhookName, WebhookTopic};
use serde::Deserialize;
use toml::Spanned;

use crate::failure::Failure;

use super::resolver::Resolver;
use super::setting::Setting;

/// Webhooks of one coordinator.
const WEBHOOKS_MAX: usize = 32;

/// `[webhooks.NAME]`: a receiver of outgoing webhooks. `Debug` does not show its address, which may be a secret.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Webhook {
    /// The address.
    pub(crate) url: Option<String>,
    /// A file with the address, where it is a secret.
    url_file: Option<Spanned<PathBuf>>,
    /// A variable of the coordinator's environment with the address.
    pub(crate) url_env: Option<String>,
    /// A file with what deliveries are signed with.
    secret_file: Option<Spanned<PathBuf>>,
    /// A variable of the coordinator's environment with it.
    pub(crate) secret_env: Option<String>,
    /// The format of the body; `json` when absent.
    pub(crate) format: WebhookFormat,
    /// What is sent; alerts when absent.
    pub(crate) events: Option<BTreeSet<WebhookTopic>>,
    /// The products whose jobs and alerts are sent; everything when absent.
    pub(crate) products: BTreeSet<ProductId>,
    /// Whether loopback addresses are allowed, also with http.
    pub(crate) allow_loopback: bool,
}

impl Webhook {
    pub(crate) fn url_file(&self) -> Option<&Path> {
        self.url_file.as_ref().map(|path| path.get_ref().as_path())
    }

    pub(crate) fn secret_file(&self) -> Option<&Path> {
        self.secret_file.as_ref().map(|path| path.get_ref().as_path())
    }

    pub(crate) fn topics(&self) -> BTreeSet<WebhookTopic> {
        self.events.clone().unwrap_or_else(|| BTreeSet::from([WebhookTopic::Alerts]))
    }

    fn check(&self, name: &WebhookName) -> Result<(), Failure> {
        let usage = |why: &str| Failure::usage(format!("webhooks.{name}: {why}"));
        let addresses =
            [self.url.is_some(), self.url_file.is_some(), self.url_env.is_some()].into_iter().filter(|is| *is).count();
        if addresses != 1 {
            return Err(usage("give one of `url`, `url_file` and `url_env`"));
        }
        if self.secret_file.is_some() && self.secret_env.is_some() {
            return Err(usage("give either `secret_file` or `secret_env`, not both"));
        }
        let is_signed = self.secret_file.is_some() || self.secret_env.is_some();
        if self.format == WebhookFormat::Json && !is_signed {
            return Err(usage("`secret_file` is missing: the format `json` is signed")
                .hint("write a long random secret to a file and name the file, or use format = \"slack\""));
        }
        if self.events.as_ref().is_some_and(BTreeSet::is_empty) {
            return Err(usage("`events` is empty").hint("remove it for alerts, or remove the webhook"));
        }
        if let Some(url) = &self.url {
            let target = client::WebhookTarget { url: url.clone(), secret: None, allow_loopback: self.allow_loopback };
            target.check().map_err(|why| {
                usage(&why).hint(
                    "webhooks go to https addresses of public hosts; allow_loopback = true also allows this machine",
                )
            })?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("format", &self.format).field("events", &self.events).finish_non_exhaustive()
    }
}

/// Reads the table, and checks what can be checked without reading secrets.
pub(super) fn resolve(
    resolver: &mut Resolver,
    mut file: Option<BTreeMap<WebhookName, Webhook>>,
) -> Result<Setting<BTreeMap<WebhookName, Webhook>>, Failure> {
    if file.as_ref().is_some_and(|webhooks| webhooks.len() > WEBHOOKS_MAX) {
        return Err(Failure::usage(format!("webhooks: at most {WEBHOOKS_MAX}")));
    }
    for (name, webhook) in file.iter_mut().flatten() {
        webhook.url_file = resolver.placed(webhook.url_file.take());
        webhook.secret_file = resolver.placed(webhook.secret_file.take());
        webhook.check(name)?;
    }
    Ok(resolver.table("webhooks", file, |webhooks| {
        let named = |(name, webhook): (&WebhookName, &Webhook)| format!("{name} ({})", webhook.format.name());
        let names: Vec<String> = webhooks.iter().map(named).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(", ") }
    }))
}

#[cfg(test)]
mod tests {
    use super::super::of_file;

    // [T6]
    #[test]
    fn a_webhook_needs_one_public_address_and_a_secret() {
        let failure = |text: &str| of_file(&format!("[webhooks.ops]\n{text}")).unwrap_err().message().to_owned();

        assert!(failure("").contains("give one of `url`"));
        assert!(failure("url = \"https://a.example/\"\nurl_env = \"X\"\nformat = \"slack\"\n").contains("give one of"));
        assert!(failure("url = \"https://a.example/\"\n").contains("`secret_file` is missing"));
        assert!(
            failure("url = \"https://a.example/\"\nsecret_env = \"X\"\nevents = []\n").contains("`events` is empty")
        );
        assert!(failure("url_env = \"X\"\nformat = \"slack\"\nevents = [\"job.lost\"]\n").contains("job.lost"));
        for url in ["http://a.example/canary", "https://127.0.0.1/canary", "https://10.0.0.1/canary", "canary"] {
            let failure = failure(&format!("url = \"{url}\"\nformat = \"slack\"\n"));
            assert!(failure.starts_with("webhooks.ops: the address ") && !failure.contains("canary"), "{failure}");
        }
    }

    // [T6] [attack: secrets in logs, events, artifacts]
    #[test]
    fn the_settings_do_not_show_the_path_of_an_address() {
        let config = of_file(
            "[webhooks.ops]\nurl = \"https://hooks.example/T0/canary\"\nformat = \"slack\"\n\
             [webhooks.local]\nurl = \"http://127.0.0.1:1/canary\"\nsecret_env = \"X\"\nallow_loopback = true\n",
        )
        .unwrap();

        let row = config.listing.iter().find(|row| row.key == "webhooks").unwrap();
        assert_eq!(row.value, "local (json), ops (slack)");
        assert!(!format!("{config:?}").contains("canary"));
    }
}
