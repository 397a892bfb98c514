//! Profiles: versions that never change, and the one that a job was submitted with [J2].

use std::collections::BTreeSet;

use coordinator::{Error, Principal};
use domain::{ProfileOwner, ProfileRef, TokenScope};
use protocol::{CreateProfileRequest, CreateProfileResponse, CreateTokenRequest, JobDetail, ProductSettings};

use super::{lasting, quick};
use crate::fleet::{Fleet, submit};
use crate::machine::Machine;

const PERSONA: &str =
    "---\ndescription: Designs\nengine: command\nbudget: { usd: 5 }\nverify: make test\n---\nYou design.\n";
const NEXT: &str = "You design well.\n";

fn request(name: &str, owner: Option<&str>, text: &str) -> CreateProfileRequest {
    let product_id = owner.map(|owner| owner.parse().unwrap());
    CreateProfileRequest { name: name.parse().unwrap(), product_id, body_md: text.to_owned() }
}

async fn create(fleet: &Fleet, name: &str, owner: Option<&str>, text: &str) -> (String, bool) {
    let made = fleet.coordinator.create_profile(&fleet.admin, request(name, owner, text), None).await.unwrap();
    shown(&made)
}

fn shown(made: &CreateProfileResponse) -> (String, bool) {
    let profile = &made.profile.profile;
    (format!("{}/{}", profile.product_id, profile.reference()), made.created)
}

async fn submitted(fleet: &Fleet, front: &str) -> JobDetail {
    let id = fleet.submit(&format!("---\ntitle: Mend\n{front}\n---\nIt squeaks.\n")).await;
    fleet.coordinator.job(&fleet.admin, id).await.unwrap()
}

async fn operator(fleet: &Fleet, product: &str) -> Principal {
    let grant = TokenScope::Operator { products: BTreeSet::from([product.parse().unwrap()]) };
    let request = CreateTokenRequest { name: product.to_owned(), grant, ttl_seconds: None };
    let secret = fleet.coordinator.create_token(&fleet.admin, request).await.unwrap().secret;
    fleet.coordinator.authenticate(&secret).unwrap()
}

async fn with_products(fleet: &Fleet) {
    for id in ["alpha", "beta"] {
        let id = id.parse().unwrap();
        fleet.coordinator.put_product(&fleet.admin, &id, ProductSettings::default()).await.unwrap();
    }
}

// [J2]
#[tokio::test]
async fn the_same_text_is_one_version_and_versions_stay() {
    let fleet = Fleet::warm(lasting()).await;

    assert_eq!(create(&fleet, "ux", None, PERSONA).await, ("_fleet/ux@1".to_owned(), true));
    assert_eq!(create(&fleet, "ux", None, PERSONA).await, ("_fleet/ux@1".to_owned(), false));
    assert_eq!(create(&fleet, "ux", None, NEXT).await, ("_fleet/ux@2".to_owned(), true));
    assert_eq!(create(&fleet, "ux", None, PERSONA).await, ("_fleet/ux@3".to_owned(), true), "it is the newest again");
    let imported = fleet.coordinator.import_profile("ux".parse().unwrap(), NEXT, "file ux.md").await.unwrap();
    assert_eq!(shown(&imported), ("_fleet/ux@3".to_owned(), false), "a file undoes nothing");

    let fleet = fleet.restarted().await;
    let read = |text: &str| {
        let wanted: ProfileRef = text.parse().unwrap();
        fleet.coordinator.profile(&fleet.admin, &wanted, None, None)
    };
    let newest = read("ux").unwrap();
    assert_eq!((newest.profile.version, newest.persona.as_str()), (3, "You design."));
    assert_eq!(newest.versions.iter().map(|one| one.version).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(read("ux@2").unwrap().body_md, NEXT);
    assert!(matches!(read("ux@4"), Err(Error::NoSuchProfileVersion(_))));
    assert!(matches!(read("xu"), Err(Error::NoSuchProfile { .. })));
}

// [J2]
#[tokio::test]
async fn concurrent_writers_leave_no_gap_and_no_repeated_text() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.store().set(|faults| {
        faults.yields_max = 3;
        faults.answers_lost = 0.2;
    });

    let writers = (0..12).map(|n| {
        let wanted = request("ux", None, if n % 2 == 0 { PERSONA } else { NEXT });
        fleet.coordinator.create_profile(&fleet.admin, wanted, None)
    });
    let outcomes = futures_util::future::join_all(writers).await;
    fleet.store().heal();

    let made: Vec<_> = outcomes.into_iter().map(Result::ok).enumerate().collect();
    assert!(made.iter().any(|(_, made)| made.is_some()));
    for (n, made) in made {
        let Some(made) = made else { continue };
        assert_eq!(made.profile.body_md, if n % 2 == 0 { PERSONA } else { NEXT }, "each writer gets its own text");
    }
    let read = |text: &str| fleet.coordinator.profile(&fleet.admin, &text.parse().unwrap(), None, None).unwrap();
    let detail = read("ux");
    let versions: Vec<u32> = detail.versions.iter().rev().map(|one| one.version).collect();
    assert_eq!(versions, (1..=versions.len() as u32).collect::<Vec<_>>(), "without gaps");
    for pair in versions.windows(2) {
        let [former, next] = [pair[0], pair[1]].map(|version| read(&format!("ux@{version}")).body_md);
        assert_ne!(former, next, "no text is two versions in a row");
    }
    let fleet = fleet.restarted().await;
    let stored = fleet.coordinator.profile(&fleet.admin, &"ux".parse().unwrap(), None, None).unwrap();
    assert_eq!(stored.versions, detail.versions);
}

// [J2]
#[tokio::test]
async fn a_job_keeps_the_version_it_was_submitted_with() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    create(&fleet, "ux", None, PERSONA).await;
    let first = submitted(&fleet, "profile: ux").await;
    create(&fleet, "ux", None, NEXT).await;
    let second = submitted(&fleet, "profile: ux").await;
    let pinned = submitted(&fleet, "profile: ux@1\nverify: make check").await;

    let facts = |job: &JobDetail| {
        let profile = job.job.profile.as_ref().unwrap();
        (profile.reference.to_string(), profile.applied.join(" "), job.persona.clone().unwrap())
    };
    let designed = "You design.".to_owned();
    assert_eq!(facts(&first), ("ux@1".to_owned(), "engines budget.usd verify".to_owned(), designed.clone()));
    assert_eq!(facts(&second), ("ux@2".to_owned(), String::new(), "You design well.".to_owned()));
    assert_eq!(facts(&pinned), ("ux@1".to_owned(), "engines budget.usd".to_owned(), designed.clone()));
    assert_eq!(pinned.manifest_snapshot.verify, ["make check"]);
    assert_eq!(first.body_md, "---\ntitle: Mend\nprofile: ux\n---\nIt squeaks.\n", "byte for byte");

    let fleet = fleet.restarted().await;
    assert_eq!(facts(&fleet.coordinator.job(&fleet.admin, first.job.id).await.unwrap()).2, designed);
    fleet.warm_up();
    mac.beat(&fleet).await;
    fleet.dispatch().await;
    let seq = fleet.job(first.job.id).await.dispatch_seq;
    let accepted = mac.accept(&fleet, &mac.claim(&fleet, first.job.id, seq)).await.unwrap();
    assert_eq!(accepted.assignment.persona.as_deref(), Some("You design."));
    assert_eq!(accepted.assignment.spec.verify, ["make test"]);
}

// [J2]
#[tokio::test]
async fn an_unknown_profile_is_an_error_at_its_line() {
    let fleet = Fleet::warm(quick()).await;
    let error = async |front: &str| {
        let body = format!("---\ntitle: Mend\n{front}\n---\nIt squeaks.\n");
        match fleet.try_submit(&body, None).await {
            Err(Error::Manifest(findings)) => findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            other => panic!("{other:?}"),
        }
    };

    let none = error("profile: ux-designer").await;
    create(&fleet, "ux-designer", None, PERSONA).await;
    let near = error("profile: ux-desinger").await;
    let far = error("profile: poet").await;
    let version = error("profile: ux-designer@2").await;

    assert!(none.contains("there is none yet"), "{none}");
    assert_eq!(near, "line 3, profile: unknown profile `ux-desinger`; did you mean `ux-designer`?");
    assert_eq!(far, "line 3, profile: unknown profile `poet`: the known ones are `ux-designer`");
    assert_eq!(version, "line 3, profile: unknown version `ux-designer@2`: the newest one is `ux-designer@1`");
}

// [J2] [T3]
#[tokio::test]
async fn a_profile_is_seen_and_used_within_its_product() {
    let fleet = Fleet::warm(quick()).await;
    with_products(&fleet).await;
    let (alpha, beta) = (operator(&fleet, "alpha").await, operator(&fleet, "beta").await);
    create(&fleet, "ux", None, "Everyone's.\n").await;
    let coordinator = &fleet.coordinator;
    let own = coordinator.create_profile(&alpha, request("ux", None, "Alpha's.\n"), None).await.unwrap();
    coordinator.create_profile(&alpha, request("secret", None, "Alpha's own.\n"), None).await.unwrap();

    assert_eq!(shown(&own), ("alpha/ux@1".to_owned(), true), "a scoped token creates for its product");
    for owner in ["_fleet", "beta"] {
        let refused = coordinator.create_profile(&alpha, request("ux", Some(owner), NEXT), None).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))), "{owner}");
    }
    let names = |who: &Principal| {
        let items = coordinator.profiles(who).unwrap().items;
        items.iter().map(|one| format!("{}/{}", one.product_id, one.name)).collect::<Vec<_>>()
    };
    assert_eq!(names(&alpha), ["alpha/secret", "alpha/ux", "_fleet/ux"]);
    assert_eq!(names(&beta), ["_fleet/ux"]);
    let secret = "secret".parse().unwrap();
    assert!(matches!(coordinator.profile(&beta, &secret, None, None), Err(Error::NoSuchProfile { .. })));
    let foreign: ProfileOwner = "alpha".parse().unwrap();
    assert!(coordinator.profile(&beta, &"ux".parse().unwrap(), Some(&foreign), None).is_err());
    let persona = async |who: &Principal, profile: &str| {
        let body = format!("---\ntitle: x\nprofile: {profile}\n---\nprose");
        let job = coordinator.submit(who, submit(&body, None)).await?.job;
        Ok::<_, Error>(coordinator.job(who, job.id).await?.persona.unwrap())
    };
    assert_eq!(persona(&alpha, "ux").await.unwrap(), "Alpha's.");
    assert_eq!(persona(&beta, "ux").await.unwrap(), "Everyone's.");
    let refused = persona(&beta, "secret").await.unwrap_err().to_string();
    assert!(!refused.contains("alpha"), "{refused}");
}
