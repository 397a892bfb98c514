//! Webhook bodies, which arrive unauthenticated: read within a shared memory budget, and kept only if their signature
//! is valid.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::problem::Problem;
use crate::webhook_secret::Signature;

/// GitHub's limit.
const MESSAGE_LEN_MAX: u64 = 25 * 1024 * 1024;

/// The budget of all bodies in progress: one of the longest, and many of the usual length, which is a few kilobytes.
const BUFFERED_LEN_MAX: u32 = 32 * 1024 * 1024;

/// Concurrent bodies of one network.
const PER_NETWORK_MAX: usize = 4;

/// The budget of all bodies in progress.
pub(crate) struct WebhookBodies {
    bytes: Arc<Semaphore>,
    by_network: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A body in progress; its part of the budget is released when it is dropped.
pub(crate) struct SignedBody {
    pub(crate) bytes: Vec<u8>,
    budget: Option<OwnedSemaphorePermit>,
    _turn: NetworkSlot,
}

/// One of a network's concurrent bodies.
struct NetworkSlot {
    by_network: Arc<Mutex<HashMap<IpAddr, usize>>>,
    network: IpAddr,
}

impl Default for WebhookBodies {
    fn default() -> Self {
        Self { bytes: Arc::new(Semaphore::new(BUFFERED_LEN_MAX as usize)), by_network: Arc::default() }
    }
}

impl WebhookBodies {
    /// Reads a body, and returns it if `signature` is valid. `Ok(None)` is a wrong signature.
    pub(crate) async fn read(
        &self,
        app: &App,
        network: IpAddr,
        request: Request,
        mut signature: Signature,
    ) -> Result<Option<SignedBody>, Problem> {
        let len = declared_len(request.headers())?;
        if len > MESSAGE_LEN_MAX {
            return Err(Problem::too_large(MESSAGE_LEN_MAX as usize));
        }
        let turn = self.slot(network)?;
        let mut signed = SignedBody { bytes: Vec::new(), budget: None, _turn: turn };
        let reading = self.read_all(request.into_body(), &mut signed, &mut signature);
        let time_max = app.limits.body_time_max;
        tokio::time::timeout(time_max, reading).await.map_err(|_| {
            let seconds = time_max.as_secs_f32();
            Problem::unfinished_body(format!("the body did not arrive within {seconds} seconds"))
        })??;
        Ok(signature.verify().then_some(signed))
    }

    async fn read_all(
        &self,
        mut body: Body,
        signed: &mut SignedBody,
        signature: &mut Signature,
    ) -> Result<(), Problem> {
        // The connection ends the body at the declared length; it is checked here too.
        let mut left = body.size_hint().upper().unwrap_or(MESSAGE_LEN_MAX).min(MESSAGE_LEN_MAX);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Problem::unfinished_body(format!("the connection was lost while receiving the body: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let len = data.len() as u64;
            left = left.checked_sub(len).ok_or_else(|| Problem::too_large(MESSAGE_LEN_MAX as usize))?;
            self.keep(&data, signed)?;
            signature.update(&data);
        }
        Ok(())
    }

    fn keep(&self, data: &Bytes, signed: &mut SignedBody) -> Result<(), Problem> {
        let len = u32::try_from(data.len()).map_err(|_| Problem::too_large(MESSAGE_LEN_MAX as usize))?;
        let budget = Arc::clone(&self.bytes).try_acquire_many_owned(len).map_err(|_| Problem::too_many_bodies())?;
        match &mut signed.budget {
            Some(taken) => taken.merge(budget),
            none => *none = Some(budget),
        }
        signed.bytes.extend_from_slice(data);
        Ok(())
    }

    fn slot(&self, network: IpAddr) -> Result<NetworkSlot, Problem> {
        let mut by_network = self.by_network.lock();
        let count = by_network.entry(network).or_default();
        if *count >= PER_NETWORK_MAX {
            return Err(Problem::too_many_bodies());
        }
        *count += 1;
        Ok(NetworkSlot { by_network: Arc::clone(&self.by_network), network })
    }
}

impl Drop for NetworkSlot {
    fn drop(&mut self) {
        let mut by_network = self.by_network.lock();
        if let Some(count) = by_network.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                by_network.remove(&self.network);
            }
        }
    }
}

fn declared_len(headers: &HeaderMap) -> Result<u64, Problem> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    declared.ok_or_else(Problem::length_required)
}
