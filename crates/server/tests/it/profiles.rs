//! Profiles over HTTP: created in versions, read, and used by jobs [J2].

use domain::TokenScope;
use http::Method;
use protocol::{CreateProfileResponse, JobDetail, ProfileDetail, ProfileList, SubmitRequest, SubmitResponse};
use serde_json::{Value, json};

use crate::fleet::{Fleet, code};

const DESIGNER: &str = "---\ndescription: Designs interfaces\nengine: command\nverify: make test\n---\nYou design.\n";

async fn create(fleet: &Fleet, text: &str) -> CreateProfileResponse {
    fleet.admin.post("/profiles", &json!({ "name": "ux-designer", "bodyMd": text })).await.unwrap()
}

// [J2] [§10]
#[tokio::test]
async fn a_profile_is_created_read_and_used_over_http() {
    profile_story(Fleet::start().await).await;
}

pub(crate) async fn profile_story(fleet: Fleet) {
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;

    let first = create(&fleet, DESIGNER).await;
    let again = create(&fleet, DESIGNER).await;
    let id = fleet.submit("---\nprofile: ux-designer\n---\n# Design it\n").await;
    let next = create(&fleet, "You design better.\n").await;
    let accepted = factory.take_next(&mut inbox).await;
    let newest: ProfileDetail = fleet.admin.get("/profiles/ux-designer").await.unwrap();
    let former: ProfileDetail = fleet.admin.get("/profiles/ux-designer?version=1&productId=_fleet").await.unwrap();
    let listed: ProfileList = fleet.admin.get("/profiles").await.unwrap();
    let events: Value = fleet.admin.get(&format!("/jobs/{id}/events")).await.unwrap();

    assert_eq!([first.created, again.created, next.created], [true, false, true]);
    assert_eq!(again.profile, first.profile);
    assert_eq!((former.body_md.as_str(), former.persona.as_str()), (DESIGNER, "You design."));
    assert_eq!((newest.profile.version, newest.versions.len(), listed.items.len()), (2, 2, 1));
    let job: JobDetail = fleet.job(id).await;
    let profile = job.job.profile.unwrap();
    assert_eq!(profile.text(), "ux-designer@1 (fleet-wide), sets engines, verify");
    assert_eq!(job.persona.as_deref(), Some("You design."));
    assert_eq!(accepted.assignment.persona.as_deref(), Some("You design."));
    assert_eq!(events["items"][0]["text"], "submitted with profile ux-designer@1");
}

// [J2] [§10]
#[tokio::test]
async fn wrong_requests_about_profiles_have_stable_codes() {
    let fleet = Fleet::start().await;
    create(&fleet, DESIGNER).await;
    let viewer = fleet.client(&fleet.token(TokenScope::Viewer { products: Default::default() }).await.secret);
    let post = async |body: Value| code(fleet.admin.post::<_, Value>("/profiles", &body).await);
    let get = async |path: &str| code(fleet.admin.get::<Value>(path).await);

    assert_eq!(post(json!({ "name": "../x", "bodyMd": "x" })).await, "invalid");
    assert_eq!(post(json!({ "name": "x", "bodyMd": "---\nrepo: y\n---\n" })).await, "bad_manifest");
    assert_eq!(post(json!({ "name": "x", "bodyMd": "x", "persona": "y" })).await, "unknown_key");
    assert_eq!(post(json!({ "name": "x", "bodyMd": "x", "productId": "nowhere" })).await, "unknown_product");
    assert_eq!(get("/profiles/poet").await, "no_such_profile");
    assert_eq!(get("/profiles/ux-designer?version=2").await, "no_such_profile");
    assert_eq!(get("/profiles/ux-designer?version=0").await, "invalid");
    assert_eq!(get("/profiles/ux-designer?productId=default").await, "no_such_profile");
    assert_eq!(code(viewer.post::<_, Value>("/profiles", &json!({ "name": "x", "bodyMd": "x" })).await), "forbidden");
    assert_eq!(viewer.get::<ProfileList>("/profiles").await.unwrap().items.len(), 1);
    for method in [Method::PUT, Method::DELETE] {
        let changed = fleet.admin.call::<_, Value>(method, "/profiles/ux-designer", Some(&json!({}))).await;
        assert_eq!(code(changed), "method_not_allowed", "a version cannot be changed or removed");
    }
}

// [J2] [B2]
#[tokio::test]
async fn a_dry_run_shows_what_the_profile_sets() {
    let fleet = Fleet::start().await;
    create(&fleet, DESIGNER).await;
    let dry = async |front: &str| {
        let body_md = format!("---\n{front}\n---\n# Design it\n");
        let request = SubmitRequest { body_md, ..SubmitRequest::default() };
        fleet.admin.post::<_, SubmitResponse>("/jobs?dryRun=true", &request).await
    };

    let known = dry("profile: ux-designer").await.unwrap();
    let unknown = dry("profile: ux-desinger").await;

    assert_eq!(known.job.profile.unwrap().applied, ["engines", "verify"]);
    assert_eq!(known.job.engines, ["command".parse().unwrap()]);
    let client::ClientError::Refused(problem) = unknown.unwrap_err() else { panic!("it should have been refused") };
    assert_eq!(problem.code, "bad_manifest");
    assert_eq!(problem.more["findings"][0]["line"], 2);
    assert!(problem.detail.contains("did you mean `ux-designer`?"), "{}", problem.detail);
}
