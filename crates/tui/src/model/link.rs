//! The connection to the coordinator, and the age of the data.

use std::time::Duration;

use domain::Timestamp;

/// A shorter interruption shows as a dot only.
const QUIET_MAX: Duration = Duration::from_secs(3);

/// A longer interruption is an outage.
const RECONNECTING_MAX: Duration = Duration::from_secs(10);

/// How the connection is, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// Nothing was ever received.
    Connecting,
    Live,
    /// The stream was lost a moment ago.
    Interrupted,
    Reconnecting,
    /// The stream is refused or cut, reads are answered.
    Polling,
    Down,
    SignedOut,
}

impl LinkState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Live | Self::Interrupted => "live",
            Self::Reconnecting => "reconnecting",
            Self::Polling => "polling",
            Self::Down => "down",
            Self::SignedOut => "signed out",
        }
    }

    /// Whether what is shown is current, so that an empty list means that there is nothing.
    pub(crate) fn is_current(self) -> bool {
        matches!(self, Self::Live | Self::Interrupted | Self::Polling)
    }
}

/// The connection.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// The address.
    pub(crate) api: String,
    /// The coordinator's name.
    pub(crate) name: String,
    /// When the stream was lost, or first tried; `None` while it is open.
    lost_at: Option<Timestamp>,
    /// Whether the stream was ever open.
    was_open: bool,
    /// The last time that the coordinator answered.
    pub(crate) heard_at: Option<Timestamp>,
    pub(crate) retry_at: Option<Timestamp>,
    pub(crate) why: String,
    is_signed_out: bool,
}

impl Link {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            api: String::new(),
            name: String::new(),
            lost_at: Some(now),
            was_open: false,
            heard_at: None,
            retry_at: None,
            why: String::new(),
            is_signed_out: false,
        }
    }

    pub(crate) fn state(&self, now: Timestamp) -> LinkState {
        if self.is_signed_out {
            return LinkState::SignedOut;
        }
        let Some(lost_at) = self.lost_at else { return LinkState::Live };
        let span = now.since(lost_at);
        let answers = self.heard_at.is_some_and(|heard| heard > lost_at && now.since(heard) < RECONNECTING_MAX);
        match (self.was_open || self.heard_at.is_some(), span) {
            (false, span) if span < QUIET_MAX && self.why.is_empty() => LinkState::Connecting,
            (true, span) if span < QUIET_MAX => LinkState::Interrupted,
            _ if answers => LinkState::Polling,
            (_, span) if span < RECONNECTING_MAX => LinkState::Reconnecting,
            _ => LinkState::Down,
        }
    }

    /// The stream is open.
    pub(crate) fn opened(&mut self, api: String, now: Timestamp) {
        (self.api, self.lost_at, self.was_open, self.heard_at) = (api, None, true, Some(now));
        (self.retry_at, self.is_signed_out) = (None, false);
        self.why.clear();
    }

    /// The stream was lost, or cannot be opened.
    pub(crate) fn lost(&mut self, why: String, retry_at: Timestamp, now: Timestamp) {
        if self.is_open() {
            // An open stream had nothing to tell: the data was current until now.
            self.heard_at = Some(now);
        }
        self.lost_at.get_or_insert(now);
        self.retry_at = Some(retry_at);
        self.why = why;
        self.is_signed_out = false;
    }

    pub(crate) fn signed_out(&mut self, why: String, now: Timestamp) {
        self.lost_at.get_or_insert(now);
        self.why = why;
        self.is_signed_out = true;
    }

    /// The coordinator answered a request, or sent a frame.
    pub(crate) fn heard(&mut self, now: Timestamp) {
        self.heard_at = Some(now);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lost_at.is_none()
    }

    /// Why nothing can be changed now.
    pub(crate) fn obstacle(&self, now: Timestamp) -> Option<&'static str> {
        match self.state(now) {
            LinkState::Live | LinkState::Interrupted | LinkState::Polling => None,
            LinkState::Connecting | LinkState::Reconnecting | LinkState::Down => {
                Some("the coordinator does not answer")
            }
            LinkState::SignedOut => Some("the coordinator does not accept the token"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0).after(Duration::from_secs(seconds))
    }

    // [U2]
    #[test]
    fn a_lost_stream_becomes_an_outage_after_ten_seconds() {
        let mut link = Link::new(at(0));
        assert_eq!(link.state(at(0)), LinkState::Connecting);

        link.opened("http://x".to_owned(), at(1));
        assert_eq!(link.state(at(500)), LinkState::Live);

        link.lost("reset".to_owned(), at(502), at(501));
        let states = [501, 504, 510, 511].map(|seconds| link.state(at(seconds)));
        let expected = [LinkState::Interrupted, LinkState::Reconnecting, LinkState::Reconnecting, LinkState::Down];
        assert_eq!(states, expected);

        link.heard(at(520));
        assert_eq!(link.state(at(521)), LinkState::Polling);
        assert_eq!(link.state(at(531)), LinkState::Down);

        link.opened("http://x".to_owned(), at(540));
        assert_eq!(link.state(at(541)), LinkState::Live);
    }

    #[test]
    fn a_coordinator_that_never_answers_is_not_a_connection_in_progress_for_ever() {
        let mut link = Link::new(at(0));
        link.lost("refused".to_owned(), at(1), at(0));

        assert_eq!(link.state(at(1)), LinkState::Reconnecting);
        assert_eq!(link.state(at(10)), LinkState::Down);
        assert!(!link.state(at(10)).is_current());
    }

    #[test]
    fn a_refused_token_is_signed_out_until_the_stream_opens() {
        let mut link = Link::new(at(0));
        link.signed_out("revoked".to_owned(), at(1));
        assert_eq!(link.state(at(100)), LinkState::SignedOut);

        link.opened("http://x".to_owned(), at(101));
        assert_eq!(link.state(at(102)), LinkState::Live);
    }
}
