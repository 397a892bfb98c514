//! Artifacts: fenced, within limits, collected [J8].

use std::time::Duration;

use coordinator::{ArtifactContent, Error, NewArtifact, UploadStart};
use domain::{
    ArtifactLimits, BlobAttributes, BlobKey, BlobStore as _, ContentType, Epoch, EventKind, JobId, Refusal, Sha256,
    UploadId,
};
use protocol::ArtifactView;
use sha2::Digest;

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Grip, Machine};

fn digest(bytes: &[u8]) -> Sha256 {
    Sha256::of(sha2::Sha256::digest(bytes).into())
}

fn new(epoch: Epoch, name: &str, bytes: &[u8]) -> NewArtifact {
    let (name, content_type) = (name.parse().unwrap(), ContentType::unknown());
    NewArtifact { epoch, name, content_type, sha256: digest(bytes), bytes_min: 0 }
}

async fn attach(fleet: &Fleet, mac: &Machine, grip: Grip, name: &str, bytes: &[u8]) -> Result<ArtifactView, Error> {
    match fleet.coordinator.begin_artifact(&mac.who, grip.job, new(grip.epoch, name, bytes)).await? {
        UploadStart::Known(view) => Ok(view),
        UploadStart::Ready(mut upload) => {
            for chunk in bytes.chunks(3) {
                upload.write(chunk).await?;
            }
            upload.finish().await
        }
    }
}

async fn content(fleet: &Fleet, view: &ArtifactView) -> Result<Vec<u8>, Error> {
    let (_, ArtifactContent::Bytes(mut reader)) = fleet.coordinator.artifact(&fleet.admin, view.id, false).await?
    else {
        panic!("the bytes were asked for");
    };
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await.unwrap() {
        bytes.extend(piece);
    }
    Ok(bytes)
}

async fn blobs(fleet: &Fleet, job: JobId) -> usize {
    fleet.builder.blobs.list(job).await.unwrap().len()
}

async fn building(fleet: &Fleet) -> (Machine, Grip) {
    let mac = Machine::join(fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(fleet, job).await;
    (mac, grip)
}

// [J8] [I2]
#[tokio::test]
async fn a_run_leaves_files_that_people_download() {
    let fleet = Fleet::warm(lasting()).await;
    let (mac, grip) = building(&fleet).await;

    let report = attach(&fleet, &mac, grip, "out/report.html", b"<b>12 passed</b>").await.unwrap();
    let again = attach(&fleet, &mac, grip, "out/report.html", b"<b>12 passed</b>").await.unwrap();
    let empty = attach(&fleet, &mac, grip, "empty", b"").await.unwrap();
    mac.complete(&fleet, grip, None).await.unwrap();

    assert_eq!((&again, report.id.n(), empty.id.n()), (&report, 1, 2));
    assert_eq!(content(&fleet, &report).await.unwrap(), b"<b>12 passed</b>");
    assert_eq!(content(&fleet, &empty).await.unwrap(), b"");
    let listed = fleet.coordinator.artifacts(&fleet.admin, grip.job).await.unwrap();
    assert_eq!((listed.items, listed.bytes), (vec![report, empty], 16));
    assert_eq!(fleet.count(grip.job, EventKind::ArtifactAttached).await, 2);
    assert_eq!(blobs(&fleet, grip.job).await, 2, "a repetition leaves no second blob");
    let fleet = fleet.restarted().await;
    assert_eq!(fleet.coordinator.artifacts(&fleet.admin, grip.job).await.unwrap().items.len(), 2);
}

// [J8] [I12]
#[tokio::test]
async fn a_browser_gets_a_signed_url_only_where_that_is_configured() {
    let without = Fleet::warm(quick()).await;
    let with = Fleet::warm(quick().with(|settings| settings.artifact_url_ttl = Some(Duration::from_mins(5)))).await;
    let mut links = Vec::new();
    for fleet in [&without, &with] {
        let (mac, grip) = building(fleet).await;
        let report = attach(fleet, &mac, grip, "report.html", b"12 passed").await.unwrap();
        let link = fleet.coordinator.artifact_link(&fleet.admin, report.id).await.unwrap().url;
        let (_, download) = fleet.coordinator.artifact(&fleet.admin, report.id, true).await.unwrap();
        let redirect = match download {
            ArtifactContent::Url(url) => Some(url),
            ArtifactContent::Bytes(_) => None,
        };
        assert_eq!(redirect, link);
        links.push(link);
        assert_eq!(content(fleet, &report).await.unwrap(), b"12 passed", "the bytes are passed on all the same");
        fleet.coordinator.remove_artifact(&fleet.admin, report.id).await.unwrap();
        let gone = fleet.coordinator.artifact_link(&fleet.admin, report.id).await;
        assert!(matches!(gone, Err(Error::NoSuchArtifact(_))), "{gone:?}");
    }
    assert_eq!(links, [None, Some("https://objects.example/blob?seconds=300".to_owned())]);
}

// [J8] [I1] [row 31]
#[tokio::test]
async fn only_the_holder_of_a_run_attaches_files() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, old) = building(&fleet).await;
    let UploadStart::Ready(mut upload) =
        fleet.coordinator.begin_artifact(&mac.who, old.job, new(old.epoch, "late", b"late")).await.unwrap()
    else {
        panic!("nothing was attached yet")
    };
    upload.write(b"late").await.unwrap();
    mac.release(&fleet, old).await.unwrap();
    let grip = mac.build(&fleet, old.job).await;
    let linux = Machine::join(&fleet, "linux").await;

    let fenced_midway = upload.finish().await;
    let stale = attach(&fleet, &mac, old, "stale", b"stale").await;
    let foreign = attach(&fleet, &linux, grip, "foreign", b"foreign").await;
    let person = fleet.coordinator.begin_artifact(&fleet.admin, grip.job, new(grip.epoch, "x", b"x")).await;
    mac.complete(&fleet, grip, None).await.unwrap();
    let after_completion = attach(&fleet, &mac, grip, "more", b"more").await;

    for refused in [fenced_midway, stale, foreign, after_completion] {
        let is_fenced = matches!(refused, Err(Error::Refused(Refusal::StaleEpoch { .. } | Refusal::NotHolder { .. })));
        assert!(is_fenced, "{refused:?}");
    }
    assert!(matches!(person, Err(Error::Forbidden(_))));
    assert_eq!(fleet.job(grip.job).await.artifacts, 0);
    assert_eq!(blobs(&fleet, grip.job).await, 0, "a refused upload leaves no blob");
}

// [J8] [attack: artifact path traversal, bombs]
#[tokio::test]
async fn limits_hold_while_the_bytes_arrive() {
    let limits = ArtifactLimits { file_bytes_max: 10, job_bytes_max: 15 };
    let fleet = Fleet::warm(quick().with(|settings| settings.artifacts = limits)).await;
    let (mac, grip) = building(&fleet).await;
    let begin = |name: &'static str, bytes: &'static [u8], bytes_min: u64| {
        let new = NewArtifact { bytes_min, ..new(grip.epoch, name, bytes) };
        fleet.coordinator.begin_artifact(&mac.who, grip.job, new)
    };
    let is_limit = |refused: Result<(), Error>| matches!(refused, Err(Error::Refused(Refusal::ArtifactLimit(_))));

    assert!(is_limit(begin("announced", b"", 11).await.map(drop)), "its length alone refuses it");
    let UploadStart::Ready(mut bomb) = begin("bomb", b"never sent", 0).await.unwrap() else { panic!() };
    bomb.write(&[0; 10]).await.unwrap();
    assert!(is_limit(bomb.write(&[0]).await));
    bomb.abort().await;
    attach(&fleet, &mac, grip, "first", &[1; 10]).await.unwrap();
    // Each fits alone, and both do not.
    let UploadStart::Ready(mut one) = begin("one", b"11111", 0).await.unwrap() else { panic!() };
    let UploadStart::Ready(mut two) = begin("two", b"22222", 0).await.unwrap() else { panic!() };
    one.write(b"11111").await.unwrap();
    two.write(b"22222").await.unwrap();
    one.finish().await.unwrap();
    assert!(is_limit(two.finish().await.map(drop)));
    let UploadStart::Ready(other) = begin("other", b"announced", 0).await.unwrap() else { panic!() };
    assert!(matches!(other.finish().await, Err(Error::Refused(_) | Error::Invalid { what: "sha256", .. })));

    assert_eq!(fleet.job(grip.job).await.artifacts, 2);
    assert_eq!(blobs(&fleet, grip.job).await, 2, "nothing refused is left");
}

// [J8] [T3]
#[tokio::test]
async fn an_operator_removes_an_artifact_and_its_number_is_not_used_again() {
    let fleet = Fleet::warm(lasting()).await;
    let (mac, grip) = building(&fleet).await;
    let first = attach(&fleet, &mac, grip, "a", b"a").await.unwrap();

    let by_factory = fleet.coordinator.remove_artifact(&mac.who, first.id).await;
    fleet.coordinator.remove_artifact(&fleet.admin, first.id).await.unwrap();
    let twice = fleet.coordinator.remove_artifact(&fleet.admin, first.id).await;
    let second = attach(&fleet, &mac, grip, "a", b"a").await.unwrap();

    assert!(matches!(by_factory, Err(Error::Forbidden(_))));
    assert!(matches!(twice, Err(Error::NoSuchArtifact(_))));
    assert!(matches!(content(&fleet, &first).await, Err(Error::NoSuchArtifact(_))));
    assert_eq!((second.id.n(), blobs(&fleet, grip.job).await), (2, 1));
    assert_eq!(fleet.count(grip.job, EventKind::ArtifactsRemoved).await, 1);
}

// [J8] [I14]
#[tokio::test]
async fn artifacts_of_a_finished_job_are_removed_after_the_retention_time() {
    let retention = Duration::from_hours(48);
    let fleet = Fleet::warm(lasting().with(|settings| {
        settings.artifact_retention = retention;
        settings.artifact_upload_max = Duration::ZERO;
    }))
    .await;
    fleet.ship_everything().await;
    let (mac, grip) = building(&fleet).await;
    let view = attach(&fleet, &mac, grip, "a", b"a").await.unwrap();
    let orphan = BlobKey { job: grip.job, sha256: digest(b"x"), upload: UploadId::of([7; 8]) };
    let about = BlobAttributes { name: "x".parse().unwrap() };
    fleet.builder.blobs.create(&orphan, &about).await.unwrap().finish().await.unwrap();

    fleet.builder.clock.advance(Duration::from_hours(24));
    fleet.coordinator.collect_artifacts().await;
    assert_eq!(blobs(&fleet, grip.job).await, 1, "what a crash left is removed while the job is open");
    mac.renew(&fleet).await;
    mac.complete(&fleet, grip, None).await.unwrap();
    fleet.builder.clock.advance(retention - Duration::from_secs(60));
    fleet.coordinator.collect_artifacts().await;
    assert_eq!(fleet.job(grip.job).await.artifacts, 1, "it is not due yet");
    // The record outlives the coordinator.
    let fleet = fleet.restarted().await;
    fleet.builder.clock.advance(Duration::from_hours(1));
    fleet.coordinator.collect_artifacts().await;
    fleet.coordinator.collect_artifacts().await;

    assert_eq!((fleet.job(grip.job).await.artifacts, blobs(&fleet, grip.job).await), (0, 0));
    assert!(matches!(content(&fleet, &view).await, Err(Error::NoSuchArtifact(_))));
    assert_eq!(fleet.count(grip.job, EventKind::ArtifactsRemoved).await, 1);
}

// [J8]
#[tokio::test]
async fn lost_bytes_are_reported_and_not_an_empty_file() {
    let fleet = Fleet::warm(quick()).await;
    let (mac, grip) = building(&fleet).await;
    let view = attach(&fleet, &mac, grip, "a", b"a").await.unwrap();

    for (key, _) in fleet.builder.blobs.list(grip.job).await.unwrap() {
        fleet.builder.blobs.remove(&key).await.unwrap();
    }

    assert!(matches!(content(&fleet, &view).await, Err(Error::ArtifactGone(_))));
}
