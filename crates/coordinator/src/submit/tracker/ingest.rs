//! Items become jobs: one job for each, however often an item is delivered.

use domain::{Collection, Expected, JobId, ProductId, TokenId, TokenScope, TrackerItem, TrackerName};
use fail::fail_point;
use protocol::{IngestOutcome, IngestRequest, IngestResponse, SubmitRequest};
use tracing::{info, warn};

use crate::commit::cas_documents::PutOutcome;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::invalid;
use crate::submit::tracker::book::{ItemEntry, ItemRecord, document_key};
use crate::submit::tracker::issues::{IssueDecision, IssueEvent};
use crate::submit::tracker::manifest::{manifest_of, title_of};
use crate::submit::tracker::{SourceHealth, TrackerSource};
use crate::submit::validate::digest;

/// The longest key of an item: with the tracker's name it is an idempotency key.
const KEY_CHARS_MAX: usize = 110;

/// The longest URL that all browsers support.
const URL_LEN_MAX: usize = 2_000;

/// The longest delivery id. Senders use UUIDs.
const DELIVERY_LEN_MAX: usize = 200;

/// A verified webhook of a tracker.
#[derive(Debug, Clone, PartialEq)]
pub enum TrackerEvent {
    /// About an issue.
    Issue(Box<IssueEvent>),
    /// An item.
    Item(Box<IngestRequest>),
    /// About something else.
    Other,
}

/// What became of a webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackerDelivery {
    /// What became of it.
    pub outcome: IngestOutcome,
    /// The job.
    pub job: Option<JobId>,
    /// Why it is ignored.
    pub why: Option<&'static str>,
}

impl TrackerDelivery {
    fn ignored(why: &'static str) -> Self {
        Self { outcome: IngestOutcome::Ignored, job: None, why: Some(why) }
    }
}

impl Coordinator {
    /// Makes a job of an item, once. A later change of the item is noted; the job keeps its text.
    pub async fn ingest(&self, who: &Principal, request: IngestRequest) -> Result<IngestResponse, Error> {
        check(&request)?;
        let digest = digest(&format!("{}\n{}", request.title, request.body));
        let (outcome, id) = match self.known_item(&request.source, &request.key).await? {
            Some(entry) => {
                who.require_operator(&entry.record.product_id)?;
                (self.note_text(&entry, digest).await?, entry.record.job_id)
            }
            None => self.ingest_new(who, &request, digest).await?,
        };
        let job = self.look_up(id).await?;
        Ok(IngestResponse { outcome, job: Some(self.view(who, &job.value, job.revision)) })
    }

    /// Processes a verified webhook of a tracker, known by its ids. A repetition of one that was processed makes nothing.
    pub async fn receive_tracker_event(
        &self,
        source: &TrackerName,
        ids: Vec<String>,
        event: TrackerEvent,
    ) -> Result<TrackerDelivery, Error> {
        if let Some(id) = ids.iter().find(|id| !(1..=DELIVERY_LEN_MAX).contains(&id.len())) {
            return Err(invalid("delivery id", format!("1 to {DELIVERY_LEN_MAX} characters, found {}", id.len())));
        }
        if self.tracker.deliveries.lock().has_seen(source, &ids) {
            return Ok(TrackerDelivery { outcome: IngestOutcome::Repeated, job: None, why: None });
        }
        self.note_delivery(source);
        let delivery = self.process_event(source, event).await?;
        self.tracker.deliveries.lock().record(source, &ids);
        Ok(delivery)
    }

    async fn process_event(&self, source: &TrackerName, event: TrackerEvent) -> Result<TrackerDelivery, Error> {
        let settings = self.tracker.source(source).cloned().unwrap_or_default();
        let request = match event {
            TrackerEvent::Other => return Ok(TrackerDelivery::ignored("it is not about an item")),
            TrackerEvent::Item(request) => *request,
            TrackerEvent::Issue(event) => match settings.issues.as_ref().map(|rules| rules.decide(source, &event)) {
                None => return Ok(TrackerDelivery::ignored("the tracker has no issues")),
                Some(IssueDecision::Ignore(why)) => return Ok(TrackerDelivery::ignored(why)),
                Some(IssueDecision::Ingest(request)) => request,
                Some(IssueDecision::Note(request)) => match self.known_item(source, &request.key).await? {
                    Some(_) => request,
                    None => return Ok(TrackerDelivery::ignored("the item is no job")),
                },
            },
        };
        let key = request.key.clone();
        let ingested = self.ingest_delivery(source, &settings, request).await;
        self.note_ingested(source, &key, ingested.as_ref().err());
        let ingested = ingested?;
        Ok(TrackerDelivery { outcome: ingested.outcome, job: ingested.job.map(|job| job.id), why: None })
    }

    async fn ingest_delivery(
        &self,
        source: &TrackerName,
        settings: &TrackerSource,
        request: IngestRequest,
    ) -> Result<IngestResponse, Error> {
        // The product of the tracker may have changed since: its own items stay its own.
        let known = self.known_item(source, &request.key).await?;
        let who = webhook_principal(settings, &request, known.map(|entry| entry.record.product_id));
        self.ingest(&who, request).await
    }

    async fn ingest_new(
        &self,
        who: &Principal,
        request: &IngestRequest,
        digest: String,
    ) -> Result<(IngestOutcome, JobId), Error> {
        let (source, key) = (&request.source, &request.key);
        let settings = self.tracker.source(source).cloned().unwrap_or_default();
        let repo = settings.repo.as_ref().or(request.repo.as_ref());
        let submit = SubmitRequest {
            body_md: manifest_of(request, repo, settings.profile.as_ref()),
            idempotency_key: Some(format!("tracker:{source}:{key}")),
            product_id: request.product_id.clone().or(settings.product),
            ..SubmitRequest::default()
        };
        let item = TrackerItem { source: source.clone(), key: key.clone(), url: request.url.clone() };
        let mut valid = self.validate_one(who, submit).await?;
        valid.job = valid.job.of_item(item.clone());
        let (id, product) = (valid.job.id(), valid.job.product().clone());
        let outcome = match self.submit_valid(valid).await {
            Ok(submitted) if submitted.created => IngestOutcome::Created,
            // The item was submitted by a concurrent delivery, or by one whose record was lost.
            Ok(_) | Err(Error::IdempotencyConflict { .. }) => IngestOutcome::Known,
            Err(error) => return Err(error),
        };
        fail_point!("tracker::submitted");
        if outcome == IngestOutcome::Created {
            info!(job.id = %id, tracker = %source, item = %key, "Made job {} of item {key} of tracker `{source}`", self.label(id));
        }
        let record = ItemRecord::new(item, title_of(request), digest, (id, product), self.now());
        if let Err(error) = self.keep_record(record).await {
            // The job has the item: the echo writes the record again.
            warn!(job.id = %id, %error, "Could not record the item of job {}, retrying", self.label(id));
        }
        self.tracker.note(id);
        Ok((outcome, id))
    }

    /// Writes the first record of an item, or adopts the one that is there.
    pub(crate) async fn keep_record(&self, record: ItemRecord) -> Result<(), Error> {
        let key = record.key();
        match self.put_document(Collection::TrackerItems, &key, Expected::Absent, Some(&record)).await? {
            PutOutcome::Written(revision) => self.tracker.book.lock().keep(record, revision),
            PutOutcome::Lost(Some(found)) => self.tracker.book.lock().keep(found.value, found.revision),
            PutOutcome::Lost(None) => {}
        }
        Ok(())
    }

    /// Replaces the record of an item. Another writer's version is adopted instead.
    pub(crate) async fn replace_record(&self, entry: &ItemEntry, record: ItemRecord) -> Result<(), Error> {
        let expected = Expected::At(entry.revision);
        match self.put_document(Collection::TrackerItems, &record.key(), expected, Some(&record)).await? {
            PutOutcome::Written(revision) => self.tracker.book.lock().keep(record, revision),
            PutOutcome::Lost(Some(found)) => self.tracker.book.lock().keep(found.value, found.revision),
            PutOutcome::Lost(None) => {}
        }
        Ok(())
    }

    /// Notes that the text of an item changed.
    async fn note_text(&self, entry: &ItemEntry, digest: String) -> Result<IngestOutcome, Error> {
        let before = &entry.record;
        if before.digest == digest {
            return Ok(IngestOutcome::Known);
        }
        // The text of a record that was written again is unknown.
        let is_change = !before.digest.is_empty();
        let changed_at = if is_change { Some(self.now()) } else { before.changed_at };
        self.replace_record(entry, ItemRecord { digest, changed_at, ..before.clone() }).await?;
        self.tracker.note(before.job_id);
        Ok(if is_change { IngestOutcome::Changed } else { IngestOutcome::Known })
    }

    async fn known_item(&self, source: &TrackerName, key: &str) -> Result<Option<ItemEntry>, Error> {
        let document = document_key(source, key);
        if let Some(entry) = self.tracker.book.lock().of_key(&document).cloned() {
            return Ok(Some(entry));
        }
        let Some(found) = self.ports.fleet.document(Collection::TrackerItems, &document).await? else {
            return Ok(None);
        };
        let Ok(record) = serde_json::from_value::<ItemRecord>(found.value) else { return Ok(None) };
        let mut book = self.tracker.book.lock();
        book.keep(record, found.revision);
        Ok(book.of_key(&document).cloned())
    }

    fn note_delivery(&self, source: &TrackerName) {
        let now = self.now();
        let mut health = self.tracker.health.lock();
        let health: &mut SourceHealth = health.entry(source.clone()).or_default();
        health.deliveries += 1;
        health.last_delivery = Some(now);
    }
}

/// A webhook acts for its tracker, in one product.
fn webhook_principal(settings: &TrackerSource, request: &IngestRequest, known: Option<ProductId>) -> Principal {
    let product = match &settings.issues {
        Some(_) => request.product_id.clone().or_else(|| settings.product.clone()),
        // The sender chooses no product.
        None => settings.product.clone(),
    };
    let product = product.unwrap_or_else(ProductId::default_product);
    let products = known.into_iter().chain([product]).collect();
    let author = request.author.as_deref().unwrap_or("webhook");
    let name = format!("{}:{}", request.source, domain::clean_line(author));
    Principal {
        token: TokenId::from_bytes([0; 16]),
        name: name.chars().take(domain::PERSON_CHARS_MAX).collect(),
        owner: None,
        grant: TokenScope::Operator { products },
        session: None,
    }
}

fn check(request: &IngestRequest) -> Result<(), Error> {
    let chars = request.key.chars().count();
    if !(1..=KEY_CHARS_MAX).contains(&chars) || !request.key.chars().all(domain::is_terminal_safe) {
        let why = format!("1 to {KEY_CHARS_MAX} characters without control characters, found {chars}");
        return Err(invalid("key", why));
    }
    if let Some(url) = &request.url {
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        let is_plain = url.chars().all(|c| domain::is_terminal_safe(c) && !c.is_whitespace());
        if !is_web || !is_plain || url.len() > URL_LEN_MAX {
            return Err(invalid("url", format!("an http or https address of at most {URL_LEN_MAX} bytes")));
        }
    }
    Ok(())
}
