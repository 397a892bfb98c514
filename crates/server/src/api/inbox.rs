//! A factory's inbox stream [D6].

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use coordinator::Inbox;
use domain::{FactoryId, InstanceId};
use protocol::InboxEvent;
use serde::Deserialize;
use tracing::warn;
use utoipa::IntoParams;

use super::events::{ALIVE, EVENT_STREAM, frame};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Id, QueryParams};
use crate::problem::Problem;
use crate::streaming::{self, Source};

/// The reading process and its credit.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct InboxQuery {
    /// The process that reads the inbox.
    #[param(value_type = String, format = "uuid", min_length = 36, max_length = 36)]
    instance: InstanceId,
    /// Maximum number of unanswered offers: the process's free seats.
    #[serde(default = "one")]
    #[param(required = false, minimum = 1, maximum = 20_000)]
    credit: u32,
}

fn one() -> u32 {
    1
}

/// Streams offers and directives to a factory.
///
/// Events: `hello` with the current modes, then `dispatch` with a message, `announcement` with a job to claim, `directive`
/// with an instruction, and `modes` when the modes change.
#[utoipa::path(
    get, path = "/factories/{id}/inbox", tag = "work",
    params(("id" = FactoryId, Path, description = "The factory"), InboxQuery),
    responses((status = 200, description = "Held open", body = InboxEvent, content_type = "text/event-stream")),
)]
pub(crate) async fn inbox(
    State(app): State<App>,
    Caller(who): Caller,
    Id(id): Id<FactoryId>,
    QueryParams(asked): QueryParams<InboxQuery>,
) -> Result<Response, Problem> {
    let permit = app.streams.open(&who)?;
    let inbox = app.coordinator.inbox(&who, &id, asked.instance, asked.credit).await?;
    Ok(streaming::hold(&app, permit, Offers { inbox }, EVENT_STREAM))
}

struct Offers {
    inbox: Inbox,
}

impl Source for Offers {
    async fn next(&mut self) -> Option<Bytes> {
        let (name, data) = match self.inbox.next().await? {
            InboxEvent::Hello { modes } => ("hello", serde_json::to_string(&serde_json::json!({ "modes": modes }))),
            InboxEvent::Modes(modes) => ("modes", serde_json::to_string(&modes)),
            InboxEvent::Dispatch(message) => ("dispatch", serde_json::to_string(&message)),
            InboxEvent::Announcement(announcement) => ("announcement", serde_json::to_string(&announcement)),
            InboxEvent::Directive(directive) => ("directive", serde_json::to_string(&directive)),
        };
        match data {
            Ok(data) => Some(frame(None, name, &data)),
            Err(error) => {
                warn!(%error, "An inbox stream ended: an event cannot be written as JSON");
                None
            }
        }
    }

    fn keep_alive(&self) -> Option<Bytes> {
        Some(ALIVE)
    }

    /// A slow factory is not cut off: unanswered offers use up its credit.
    fn too_slow(&self) -> Option<Bytes> {
        None
    }
}
