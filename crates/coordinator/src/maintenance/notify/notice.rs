//! The messages of webhooks, and their two formats.

use domain::{WebhookDelivery, WebhookFormat, WebhookName, clean_line};
use protocol::WebhookNotice;
use serde_json::json;

use crate::coordinator::Coordinator;
use crate::maintenance::notify::record::RaisedAlert;

/// The version of the messages.
const VERSION: u16 = 1;

/// Words behind an `@` that chats turn into a notification of everyone.
const MENTIONS: [&str; 4] = ["here", "channel", "all", "everyone"];

impl Coordinator {
    pub(super) fn test_notice(&self, name: &WebhookName) -> WebhookNotice {
        WebhookNotice {
            v: VERSION,
            id: self.random_id(),
            event: "test".to_owned(),
            at: self.now(),
            text: format!("test of webhook `{name}`: it works"),
            job: None,
            alert: None,
        }
    }

    pub(super) fn notice_of_alert(&self, raised: &RaisedAlert, is_over: bool) -> WebhookNotice {
        let RaisedAlert { id, alert, .. } = raised;
        let (event, word, id) = match is_over {
            true => ("alert.cleared", "resolved", format!("{id}-cleared")),
            false => ("alert.raised", "alert", id.clone()),
        };
        WebhookNotice {
            v: VERSION,
            id,
            event: event.to_owned(),
            at: if is_over { self.now() } else { alert.since },
            text: format!("{word} {}: {}", alert.code, alert.message),
            job: None,
            alert: Some(alert.clone()),
        }
    }
}

/// A message as it is sent.
pub(super) fn rendered(notice: &WebhookNotice, format: WebhookFormat) -> WebhookDelivery {
    let body = match format {
        WebhookFormat::Json => serde_json::to_string(notice).unwrap_or_default(),
        WebhookFormat::Slack => json!({ "text": slack_text(notice) }).to_string(),
    };
    WebhookDelivery { id: notice.id.clone(), event: notice.event.clone(), body }
}

/// `*Alert* disk_full: …`, with the addresses that belong to it.
fn slack_text(notice: &WebhookNotice) -> String {
    let (head, rest) = match notice.event.as_str() {
        "alert.raised" => ("*Alert* ", notice.text.strip_prefix("alert ")),
        "alert.cleared" => ("*Resolved* ", notice.text.strip_prefix("resolved ")),
        _ => ("", None),
    };
    let mut text = format!("{head}{}", plain(rest.unwrap_or(&notice.text)));
    let job = notice.job.as_ref();
    let request = job.and_then(|job| job.pull_request.as_ref()).map(|request| request.url.as_str());
    let item = job.and_then(|job| job.item.as_ref()).and_then(|item| item.url.as_deref());
    for url in [request, item].into_iter().flatten() {
        text.push('\n');
        text.push_str(&plain(url));
    }
    text
}

/// A text in which nothing is a mention, a link or a tag: titles and questions come from outside.
fn plain(text: &str) -> String {
    let mut text = clean_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for word in MENTIONS {
        text = text.replace(&format!("@{word}"), &format!("@\u{200b}{word}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use domain::Timestamp;

    use super::*;

    // [T6] [attack: prompt-injected agent steals secrets]
    #[test]
    fn a_title_notifies_nobody_and_makes_no_link() {
        let text = "job 1 \"<!channel> @here <https://evil.example|click> a & b\u{1b}[31m\" is failed".to_owned();
        let notice = WebhookNotice {
            v: VERSION,
            id: "1".to_owned(),
            event: "job.failed".to_owned(),
            at: Timestamp::from_millis(0),
            text,
            job: None,
            alert: None,
        };

        let sent = rendered(&notice, WebhookFormat::Slack).body;

        let sent: serde_json::Value = serde_json::from_str(&sent).unwrap();
        let text = sent["text"].as_str().unwrap();
        assert!(!text.contains('<') && !text.contains("@here") && !text.contains('\u{1b}'), "{text}");
        assert!(text.contains("&lt;!channel&gt;") && text.contains("a &amp; b"), "{text}");
    }
}
