//! The files that a run leaves for people: found by the manifest's globs, attached before the run ends [J8].

use factory::WorkerSettings;
use protocol::ArtifactList;
use sandbox::Secrets;
use testkit::host::TestRemote;

use super::LONG;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings};

const SECRET: &str = "canary-of-an-artifact-3c8d";

async fn attached(fleet: &Fleet, job: domain::JobId) -> Vec<(String, Vec<u8>)> {
    let list: ArtifactList = fleet.admin.get(&format!("/jobs/{job}/artifacts")).await.unwrap();
    let mut found = Vec::new();
    for artifact in list.items {
        let mut bytes = Vec::new();
        let mut pieces = fleet.admin.bytes(&format!("/artifacts/{}", artifact.id)).await.unwrap();
        while let Some(piece) = pieces.next().await.unwrap() {
            bytes.extend_from_slice(&piece);
        }
        found.push((artifact.name.to_string(), bytes));
    }
    found
}

// [J8] [attack: artifact path traversal, bombs] [attack: secrets in logs, events, artifacts]
#[tokio::test]
async fn matching_files_are_attached_without_links_and_secrets() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    // Ignored files are no part of the commit, and attached all the same.
    let engine = format!(
        "mkdir -p out/deep; echo out > .gitignore; echo done > done.md; echo {SECRET} > out/a.txt; echo b > out/deep/b.txt\n\
         echo c > out/c.log; ln -s /etc/passwd out/link.txt; ln -s /etc out/etc"
    );
    let own = settings("here", &forge, &engine);
    let own = WorkerSettings { secrets: Secrets::new([SECRET.to_owned()]), ..own };
    let _plant = Plant::start(own, fleet.enrol("here", &line).await);

    let job = fleet.submit("artifacts: ['out/**/*.txt', 'no/*']\n").await;
    let view = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    let files = attached(&fleet, job).await;
    let log = fleet.log(job).await;

    let expected = [("out/a.txt", "[secret]\n"), ("out/deep/b.txt", "b\n")];
    assert_eq!(files, expected.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())), "{log}");
    assert_eq!(view.artifacts, 2);
    assert!(log.contains("artifact out/deep/b.txt attached (2 B)"), "{log}");
    assert!(log.contains("! out/link.txt not attached"), "{log}");
}

// [J8] [B4]
#[tokio::test]
async fn a_failed_run_leaves_its_files_too() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let own = settings("here", &forge, "echo done > done.md");
    let _plant = Plant::start(own, fleet.enrol("here", &line).await);

    let front = "verify:\n  - echo 3 failed > report.txt; exit 1\nretry: {max: 1}\nartifacts: [report.txt]\n";
    let job = fleet.submit(front).await;
    fleet.until(job, "an end", |view| view.stage.is_terminal()).await;

    assert_eq!(attached(&fleet, job).await, [("report.txt".to_owned(), b"3 failed\n".to_vec())]);
}
