//! Requests for claims and dispatch modes.

use bytes::Bytes;
use domain::{DispatchModes, Mode, ProductId};
use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use protocol::{ClaimRequest, ClaimResponse, QueueVersion};

use super::{Client, ClientError, REQUEST_TIME_MAX, unusable};
use crate::http::ResponseBody;

/// Attempts to switch a mode when another operator changes it at the same time.
const SWITCH_TRIES_MAX: u32 = 8;

impl Client {
    /// Polls for work.
    pub async fn claim(&self, claim: &ClaimRequest) -> Result<ClaimResponse, ClientError> {
        self.post("/claim", claim).await
    }

    /// Reports what a claim would get, and why not more. Changes nothing.
    pub async fn claim_dry_run(&self, claim: &ClaimRequest) -> Result<ClaimResponse, ClientError> {
        self.post("/claim?dryRun=true", claim).await
    }

    /// Whether the queue of these products (all when empty) changed since `tag`.
    pub async fn queue_state(&self, products: &[ProductId], tag: Option<&str>) -> Result<QueueVersion, ClientError> {
        let products: Vec<&str> = products.iter().map(ProductId::as_str).collect();
        let path = match products.as_slice() {
            [] => "/queue-state".to_owned(),
            products => format!("/queue-state?products={}", products.join(",")),
        };
        let known = tag.map(|tag| (IF_NONE_MATCH, tag));
        let response = self.exchange(Method::GET, &path, known, Bytes::new()).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(QueueVersion::Same);
        }
        let tag = tag_of(&response);
        let products = self.read_json(response).await?;
        Ok(QueueVersion::Moved { tag, products })
    }

    /// The current modes, with the tag for a conditional update.
    pub async fn flags(&self) -> Result<(DispatchModes, String), ClientError> {
        let response = self.exchange(Method::GET, "/flags", None, Bytes::new()).await?;
        let tag = tag_of(&response);
        Ok((self.read_json(response).await?, tag))
    }

    /// Updates the modes, unless they changed since `tag`.
    pub async fn set_flags(&self, flags: &DispatchModes, tag: Option<&str>) -> Result<DispatchModes, ClientError> {
        let body = serde_json::to_vec(flags).map_err(|error| unusable(error.to_string()))?;
        let known = tag.map(|tag| (IF_MATCH, tag));
        let response = self.exchange(Method::PUT, "/flags", known, body.into()).await?;
        self.read_json(response).await
    }

    /// Sets the mode of one product, or the default mode. `None` removes the product's override.
    pub async fn set_mode(
        &self,
        product: Option<&ProductId>,
        mode: Option<Mode>,
    ) -> Result<DispatchModes, ClientError> {
        self.change_flags(|flags| match (product, mode) {
            (Some(product), Some(mode)) => drop(flags.products.insert(product.clone(), mode)),
            (Some(product), None) => drop(flags.products.remove(product)),
            (None, mode) => flags.mode = mode.unwrap_or_default(),
        })
        .await
    }

    /// Lets critical jobs preempt others, or not.
    pub async fn set_preemption(&self, preemption: bool) -> Result<DispatchModes, ClientError> {
        self.change_flags(|flags| flags.preemption = Some(preemption)).await
    }

    /// Reads, changes and writes the flags, again if another operator changed them meanwhile.
    async fn change_flags(&self, change: impl Fn(&mut DispatchModes)) -> Result<DispatchModes, ClientError> {
        let mut tries = 0;
        loop {
            let (mut flags, tag) = self.flags().await?;
            change(&mut flags);
            match self.set_flags(&flags, Some(&tag)).await {
                Err(error) if error.code() == Some("precondition_failed") && tries < SWITCH_TRIES_MAX => tries += 1,
                answer => return answer,
            }
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        condition: Option<(HeaderName, &str)>,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, ClientError> {
        let mut request = self.request(method, path, "application/json", body)?;
        if let Some((name, tag)) = condition
            && let Ok(value) = HeaderValue::from_str(tag)
        {
            request.headers_mut().insert(name, value);
        }
        match tokio::time::timeout(REQUEST_TIME_MAX, self.dial(request)).await {
            Ok(response) => response.map_err(|fault| self.no_answer(&fault)),
            Err(_) => Err(self.silent()),
        }
    }

    async fn read_json<A: serde::de::DeserializeOwned>(
        &self,
        response: Response<ResponseBody>,
    ) -> Result<A, ClientError> {
        let answer = match tokio::time::timeout(REQUEST_TIME_MAX, self.read(response)).await {
            Ok(answer) => answer?,
            Err(_) => return Err(self.silent()),
        };
        serde_json::from_slice(&answer).map_err(|error| self.garbled(&error))
    }

    fn silent(&self) -> ClientError {
        let why = format!("nothing for {} seconds", REQUEST_TIME_MAX.as_secs());
        ClientError::NoAnswer { base: self.base().to_owned(), why }
    }
}

fn tag_of(response: &Response<ResponseBody>) -> String {
    response.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned()
}
