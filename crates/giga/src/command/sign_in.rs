//! `giga sign-in`

use std::time::Duration;

use protocol::{CreateCodeRequest, SignInCode};

use crate::failure::Failure;
use crate::output::span;

use super::Context;

/// Prints a link that signs a browser in, once.
pub(super) async fn sign_in(context: &Context<'_>) -> Result<(), Failure> {
    let made: SignInCode = context.client()?.post("/session/codes", &CreateCodeRequest::default()).await?;
    if context.out.is_json() {
        return context.out.document(&made);
    }
    context.out.line(&made.url)?;
    // The answer took a moment, and a span is rounded down.
    let left = span(made.expires_at.since(context.now()) + Duration::from_secs(1));
    context.out.note(&format!("open the link in a browser: it works once, for {left}"));
    Ok(())
}
