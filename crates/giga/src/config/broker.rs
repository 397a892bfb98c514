//! What delivers offers, and where a factory receives them.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::setting::DisplayedValue;

/// What delivers offers: the coordinator alone, or also a broker on the network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum BrokerChoice {
    /// The coordinator itself.
    #[default]
    Embedded,
    /// A NATS server, by its address. It may hold a password.
    Nats(String),
}

impl FromStr for BrokerChoice {
    type Err = String;

    /// The error does not repeat the value: it may hold a password.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "embedded" => Ok(Self::Embedded),
            text if text.starts_with("nats://") || text.starts_with("tls://") => Ok(Self::Nats(text.to_owned())),
            _ => Err("write `embedded`, or the address of a NATS server: `nats://host:4222`".to_owned()),
        }
    }
}

impl TryFrom<String> for BrokerChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl DisplayedValue for BrokerChoice {
    /// Without what stands before an `@`: it may be a password.
    fn shown(&self) -> String {
        let Self::Nats(address) = self else { return "embedded".to_owned() };
        let shown = address.split(',').map(|part| match (part.split_once("://"), part.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{}://{host}", scheme.trim()),
            _ => part.trim().to_owned(),
        });
        shown.collect::<Vec<_>>().join(",")
    }
}

/// Where a factory receives its offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReceiveFrom {
    /// From the coordinator.
    Inbox,
    /// From the coordinator's broker if it has one on the network, and from the coordinator while that is away.
    Broker,
}

impl Default for ReceiveFrom {
    fn default() -> Self {
        if cfg!(feature = "nats") { Self::Broker } else { Self::Inbox }
    }
}

impl FromStr for ReceiveFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "inbox" => Ok(Self::Inbox),
            "broker" => Ok(Self::Broker),
            _ => Err("write `inbox` or `broker`".to_owned()),
        }
    }
}

impl fmt::Display for ReceiveFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inbox => "inbox",
            Self::Broker => "broker",
        })
    }
}

impl DisplayedValue for ReceiveFrom {
    fn shown(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_shown_without_its_password() {
        let broker: BrokerChoice = "nats://fleet:s@cret@one:4222, tls://two".parse().unwrap();

        assert_eq!(broker.shown(), "nats://one:4222,tls://two");
        assert!("http://secret@host".parse::<BrokerChoice>().is_err_and(|why| !why.contains("secret")));
    }
}
