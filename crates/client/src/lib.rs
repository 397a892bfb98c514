//! The HTTP client: of a coordinator, and of the forges that a factory talks to.

mod client;
mod http;
mod public_resolver;
mod query;
mod transfer;
mod webhook;

pub use client::{Client, ClientError, Endpoint, EventFeed, EventStream, FeedFrame, FeedItem, LogStream, Trust};
pub use http::{HttpTransport, IDLE_TIME_MAX, RequestBody, ResponseBody, TransportError, public_network, real_network};
pub use query::Query;
pub use transfer::Download;
pub use webhook::{WebhookSender, WebhookTarget};
