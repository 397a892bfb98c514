//! The outgoing webhooks of a coordinator: their addresses and secrets.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use client::WebhookSender;
use coordinator::WebhookTarget;
use domain::{Clock, WebhookName};

use crate::config::{Config, Webhook};

/// The webhooks. Nothing is sent yet.
pub(super) fn targets(config: &Config, clock: &Arc<dyn Clock>) -> anyhow::Result<BTreeMap<WebhookName, WebhookTarget>> {
    let mut targets = BTreeMap::new();
    for (name, webhook) in &config.webhooks.value {
        let address = address_of(webhook).with_context(|| format!("webhooks.{name}"))?;
        let is_signed = address.secret.is_some();
        let sender =
            WebhookSender::open(address, Arc::clone(clock)).map_err(|why| anyhow!("webhooks.{name}: {why}"))?;
        let target = WebhookTarget {
            receiver: Arc::new(sender),
            format: webhook.format,
            topics: webhook.topics(),
            products: webhook.products.clone(),
            is_signed,
        };
        targets.insert(name.clone(), target);
    }
    Ok(targets)
}

/// Reads the address and the secret of a webhook, and checks the address. Errors contain neither.
pub(crate) fn address_of(webhook: &Webhook) -> anyhow::Result<client::WebhookTarget> {
    let url = match &webhook.url {
        Some(url) => Some(url.clone()),
        None => read(webhook.url_file(), webhook.url_env.as_deref())?,
    };
    let secret = read(webhook.secret_file(), webhook.secret_env.as_deref())?;
    let allow_loopback = webhook.allow_loopback;
    let target = client::WebhookTarget { url: url.unwrap_or_default(), secret, allow_loopback };
    target.check().map_err(|why| anyhow!(why))?;
    Ok(target)
}

/// The text of a file or of a variable.
fn read(file: Option<&Path>, variable: Option<&str>) -> anyhow::Result<Option<String>> {
    let (text, source) = match (file, variable) {
        (Some(file), _) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            (text, file.display().to_string())
        }
        (None, Some(name)) => {
            let text = std::env::var(name).map_err(|_| anyhow!("the variable {name} is not set"))?;
            (text, format!("the variable {name}"))
        }
        (None, None) => return Ok(None),
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(anyhow!("{source} is empty"));
    }
    Ok(Some(text.to_owned()))
}
