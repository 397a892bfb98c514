//! Browser sessions: two halves, the scope and the end of their token, and only for pages of the server itself.

use std::sync::Arc;
use std::time::Duration;

use clock::ManualClock;
use domain::TokenScope;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use server::{Limits, Options};

use crate::fleet::{Fleet, soon};
use crate::raw::{Answer, Asking, Connection, ask};

const SESSION: &str = "/api/fleet/session";
const CODES: &str = "/api/fleet/session/codes";
const JOBS: &str = "/api/fleet/jobs";

/// Both halves of a session.
#[derive(Debug, Clone)]
struct Halves {
    cookie: String,
    page: String,
}

impl Halves {
    fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        let set = answer.headers["set-cookie"].to_str().unwrap();
        let cookie = set.split(';').next().unwrap().to_owned();
        Self { cookie, page: answer.json()["session"].as_str().unwrap().to_owned() }
    }

    fn on(&self, asking: Asking) -> Asking {
        asking.header("cookie", &self.cookie).header("x-giga-session", &self.page)
    }
}

async fn sign_in(fleet: &Fleet, token: &str) -> Halves {
    Halves::of(&ask(fleet.address, Asking::post(SESSION).json(&json!({ "token": token }))).await)
}

async fn viewer(fleet: &Fleet) -> (String, String) {
    let made = fleet.token(TokenScope::Viewer { products: Default::default() }).await;
    (made.secret, made.token.id.to_string())
}

async fn revoke(fleet: &Fleet, id: &str) {
    let _: () = fleet.admin.call(Method::DELETE, &format!("/tokens/{id}"), None::<&()>).await.unwrap();
}

fn submit() -> Asking {
    Asking::post(JOBS).json(&json!({ "bodyMd": "# One\n" }))
}

// [T4] [U1]
#[tokio::test]
async fn a_session_has_the_scope_of_its_token() {
    let fleet = Fleet::start().await;
    let (secret, _) = viewer(&fleet).await;
    let halves = sign_in(&fleet, &secret).await;

    let shown = ask(fleet.address, halves.on(Asking::get(SESSION))).await.json();
    let read = ask(fleet.address, halves.on(Asking::get(JOBS))).await;
    let write = ask(fleet.address, halves.on(submit()).header("sec-fetch-site", "same-origin")).await;

    assert_eq!(shown["principal"], json!({ "name": "story", "role": "viewer", "products": [] }));
    assert!(shown["coordinator"]["version"].is_string() && shown["expiresAt"].is_string(), "{shown}");
    assert_eq!(read.status, StatusCode::OK);
    assert_eq!(write.code(), "forbidden");
}

// [T4] [attack: CSRF, DNS rebinding]
#[tokio::test]
async fn one_half_of_a_session_is_worth_nothing() {
    let fleet = Fleet::limited(Limits { wrong_tokens_max: 3, ..Limits::default() }).await;
    let (one, other) = (sign_in(&fleet, &fleet.admin_token).await, sign_in(&fleet, &fleet.admin_token).await);
    let mixed = Halves { cookie: one.cookie.clone(), page: other.page.clone() };

    for _ in 0..10 {
        // A page on another port of the host: the browser sends it the cookie.
        let cross_port = Asking::get(JOBS).header("cookie", &one.cookie).header("origin", "http://localhost:3000");
        assert_eq!(ask(fleet.address, cross_port).await.code(), "unauthenticated");
        let stolen = Asking::get(JOBS).header("x-giga-session", &one.page);
        assert_eq!(ask(fleet.address, stolen).await.code(), "unauthenticated");
    }
    assert_eq!(ask(fleet.address, mixed.on(Asking::get(JOBS))).await.code(), "unauthenticated");
    assert_eq!(ask(fleet.address, one.on(Asking::get(JOBS))).await.status, StatusCode::OK);
}

// [T4] [attack: CSRF, DNS rebinding]
#[tokio::test]
async fn only_the_servers_own_page_writes_with_a_session() {
    let fleet = Fleet::start().await;
    let halves = sign_in(&fleet, &fleet.admin_token).await;

    let foreign = [
        halves.on(submit()),
        halves.on(submit()).header("sec-fetch-site", "same-site"),
        halves.on(submit()).header("sec-fetch-site", "cross-site"),
        halves.on(submit()).header("sec-fetch-site", "none"),
        halves.on(submit()).header("origin", "http://localhost:3000"),
        halves.on(submit()).header("origin", "null"),
        halves.on(Asking::new(Method::DELETE, SESSION)),
    ];
    for asking in foreign {
        let refused = ask(fleet.address, asking).await;
        assert_eq!((refused.status, refused.code().as_str()), (StatusCode::FORBIDDEN, "foreign_origin"));
    }
    assert_eq!(fleet.log().await.len(), 0);
    let own = [("sec-fetch-site", "same-origin".to_owned()), ("origin", fleet.base.clone())];
    for (name, value) in own {
        let written = ask(fleet.address, halves.on(submit()).header(name, &value)).await;
        assert_eq!(written.status, StatusCode::CREATED, "{name}");
    }
}

// [attack: CSRF, DNS rebinding]
#[tokio::test]
async fn a_foreign_page_cannot_sign_a_browser_in() {
    let fleet = Fleet::start().await;
    let body = json!({ "token": fleet.admin_token });

    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")] {
        let refused = ask(fleet.address, Asking::post(SESSION).json(&body).header(name, value)).await;
        assert_eq!(refused.code(), "foreign_origin", "{name}");
        assert!(!refused.headers.contains_key("set-cookie"));
    }
}

// [T4] [attack: stolen factory token]
#[tokio::test]
async fn a_revoked_token_ends_its_sessions_and_their_streams() {
    let fleet = Fleet::start().await;
    let (secret, id) = viewer(&fleet).await;
    let halves = sign_in(&fleet, &secret).await;
    let mut connection = Connection::open(fleet.address).await;
    let stream = connection.head(halves.on(Asking::get("/api/fleet/events/stream"))).await;
    assert_eq!(stream.status(), StatusCode::OK);

    revoke(&fleet, &id).await;

    let ended = tokio::time::timeout(Duration::from_secs(5), stream.into_body().collect()).await;
    assert!(ended.is_ok(), "the stream ends within 5 s");
    assert_eq!(ask(fleet.address, halves.on(Asking::get(SESSION))).await.code(), "unauthenticated");
}

// [T4]
#[tokio::test]
async fn signing_out_ends_the_session_and_its_streams() {
    let fleet = Fleet::start().await;
    let (halves, other) = (sign_in(&fleet, &fleet.admin_token).await, sign_in(&fleet, &fleet.admin_token).await);
    let mut connection = Connection::open(fleet.address).await;
    let stream = connection.head(halves.on(Asking::get("/api/fleet/events/stream"))).await;

    let delete = || Asking::new(Method::DELETE, SESSION);
    let out = ask(fleet.address, halves.on(delete()).header("sec-fetch-site", "same-origin")).await;
    let bearer = ask(fleet.address, delete().token(&fleet.admin_token)).await;

    assert_eq!(out.status, StatusCode::NO_CONTENT);
    assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(bearer.code(), "forbidden");
    assert_eq!(ask(fleet.address, halves.on(Asking::get(SESSION))).await.code(), "unauthenticated");
    assert_eq!(ask(fleet.address, other.on(Asking::get(SESSION))).await.status, StatusCode::OK);
    let ended = tokio::time::timeout(Duration::from_secs(5), stream.into_body().collect()).await;
    assert!(ended.is_ok(), "the stream ends within 5 s");
}

// [T4]
#[tokio::test]
async fn a_session_survives_a_restart_of_the_coordinator() {
    let fleet = Fleet::start().await;
    let halves = sign_in(&fleet, &fleet.admin_token).await;
    let gone = sign_in(&fleet, &fleet.admin_token).await;
    let delete = Asking::new(Method::DELETE, SESSION).header("sec-fetch-site", "same-origin");
    ask(fleet.address, gone.on(delete)).await;

    let again = fleet.restarted().await;
    let port = format!("giga-{}=", again.address.port());
    let moved = |halves: &Halves| {
        let secret = halves.cookie.split_once('=').unwrap().1;
        Halves { cookie: format!("{port}{secret}"), page: halves.page.clone() }
    };

    assert_eq!(ask(again.address, moved(&halves).on(Asking::get(SESSION))).await.status, StatusCode::OK);
    assert_eq!(ask(again.address, moved(&gone).on(Asking::get(SESSION))).await.code(), "unauthenticated");
}

// [T4] [row 28]
#[tokio::test]
async fn a_restore_revives_no_session() {
    let fleet = Fleet::start().await;
    let halves = sign_in(&fleet, &fleet.admin_token).await;

    let restored = crate::backup::restored(&fleet).await;
    let secret = halves.cookie.split_once('=').unwrap().1;
    let halves = Halves { cookie: format!("giga-{}={secret}", restored.address.port()), page: halves.page };

    assert_eq!(ask(restored.address, halves.on(Asking::get(SESSION))).await.code(), "unauthenticated");
}

// [T4]
#[tokio::test]
async fn a_session_ends_after_twelve_hours_of_use() {
    let clock = ManualClock::default();
    let fleet = Fleet::by(Arc::new(clock.clone()), Limits::default()).await;
    let halves = sign_in(&fleet, &fleet.admin_token).await;

    clock.advance(Duration::from_hours(12) - Duration::from_secs(1));
    assert_eq!(ask(fleet.address, halves.on(Asking::get(SESSION))).await.status, StatusCode::OK);
    clock.advance(Duration::from_secs(1));

    assert_eq!(ask(fleet.address, halves.on(Asking::get(SESSION))).await.code(), "unauthenticated");
}

// [T4]
#[tokio::test]
async fn the_oldest_session_of_a_token_makes_room_for_a_new_one() {
    let clock = ManualClock::default();
    let fleet = Fleet::by(Arc::new(clock.clone()), Limits::default()).await;
    let (secret, _) = viewer(&fleet).await;
    let other = sign_in(&fleet, &fleet.admin_token).await;
    let mut all = Vec::new();
    for _ in 0..33 {
        all.push(sign_in(&fleet, &secret).await);
        // Of two sessions of one millisecond, either is the older.
        clock.advance(Duration::from_millis(1));
    }

    let mut ok = Vec::new();
    for halves in all.iter().chain([&other]) {
        ok.push(ask(fleet.address, halves.on(Asking::get(SESSION))).await.status == StatusCode::OK);
    }

    assert_eq!(ok.iter().position(|is_ok| !is_ok), Some(0));
    assert_eq!(ok.iter().filter(|is_ok| !**is_ok).count(), 1);
}

// [T4]
#[tokio::test]
async fn a_code_signs_in_once() {
    let fleet = Fleet::start().await;
    let made = ask(fleet.address, Asking::post(CODES).token(&fleet.admin_token)).await;
    let code = made.json()["code"].as_str().unwrap().to_owned();
    let url = made.json()["url"].as_str().unwrap().to_owned();
    let with_code = || Asking::post(SESSION).json(&json!({ "code": code }));

    let first = ask(fleet.address, with_code()).await;
    let second = ask(fleet.address, with_code()).await;

    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(url, format!("{}/#code={code}", fleet.base));
    assert_eq!(first.json()["principal"]["role"], "admin");
    assert_eq!(ask(fleet.address, Halves::of(&first).on(Asking::get(JOBS))).await.status, StatusCode::OK);
    assert_eq!(second.code(), "unauthenticated");
}

// [T4]
#[tokio::test]
async fn a_code_expires_and_ends_with_its_token() {
    let clock = ManualClock::default();
    let fleet = Fleet::by(Arc::new(clock.clone()), Limits::default()).await;
    let operator = fleet.token(TokenScope::Operator { products: Default::default() }).await;
    let code = async |token: &str| {
        let made = ask(fleet.address, Asking::post(CODES).token(token).json(&json!({ "ttlSeconds": 60 }))).await;
        made.json()["code"].as_str().unwrap().to_owned()
    };
    let (late, orphan) = (code(&fleet.admin_token).await, code(&operator.secret).await);

    revoke(&fleet, &operator.token.id.to_string()).await;
    let orphan = ask(fleet.address, Asking::post(SESSION).json(&json!({ "code": orphan }))).await;
    clock.advance(Duration::from_mins(1));
    let late = ask(fleet.address, Asking::post(SESSION).json(&json!({ "code": late }))).await;

    assert_eq!((orphan.code(), late.code()), ("unauthenticated".to_owned(), "unauthenticated".to_owned()));
}

#[tokio::test]
async fn a_session_makes_no_codes_and_machines_no_sessions() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let halves = sign_in(&fleet, &fleet.admin_token).await;

    let code = ask(fleet.address, halves.on(Asking::post(CODES)).header("sec-fetch-site", "same-origin")).await;
    let machine = ask(fleet.address, Asking::post(SESSION).json(&json!({ "token": factory.token }))).await;
    let both = json!({ "token": fleet.admin_token, "code": "x" });

    assert_eq!((code.code(), machine.code()), ("forbidden".to_owned(), "forbidden".to_owned()));
    for body in [json!({}), both] {
        assert_eq!(ask(fleet.address, Asking::post(SESSION).json(&body)).await.code(), "invalid");
    }
}

// [attack: token guessing]
#[tokio::test]
async fn sign_ins_are_limited_as_tokens_are() {
    let fleet = Fleet::limited(Limits { wrong_tokens_max: 5, ..Limits::default() }).await;

    let mut codes = Vec::new();
    for n in 0..8 {
        let key = if n % 2 == 0 { "token" } else { "code" };
        let guess = json!({ key: format!("giga_adm_guess{n}") });
        codes.push(ask(fleet.address, Asking::post(SESSION).json(&guess)).await.code());
    }

    assert!(codes[..5].iter().all(|code| code == "unauthenticated"), "{codes:?}");
    assert!(codes[5..].iter().all(|code| code == "rate_limited"), "{codes:?}");
    sign_in(&fleet, &fleet.admin_token).await;
}

#[tokio::test]
async fn each_session_has_streams_of_its_own() {
    let fleet = Fleet::limited(Limits { streams_per_token_max: 1, ..Limits::default() }).await;
    let (one, two) = (sign_in(&fleet, &fleet.admin_token).await, sign_in(&fleet, &fleet.admin_token).await);
    let stream = || Asking::get("/api/fleet/events/stream");

    let mut open = Vec::new();
    for asking in [one.on(stream()), two.on(stream()), stream().token(&fleet.admin_token), one.on(stream())] {
        let mut connection = Connection::open(fleet.address).await;
        let answer = connection.head(asking).await;
        open.push((answer.status().as_u16(), connection, answer));
    }

    assert_eq!(open.iter().map(|(status, ..)| *status).collect::<Vec<_>>(), [200, 200, 200, 429]);
}

// [T4]
#[tokio::test]
async fn the_store_and_the_answers_have_no_secret_of_a_session() {
    let fleet = Fleet::start().await;
    let halves = sign_in(&fleet, &fleet.admin_token).await;
    let secret = halves.cookie.split_once('=').unwrap().1;

    let dir = fleet.copy_of_the_database().await;
    let stored = std::fs::read(dir.path().join("copy.db")).unwrap();
    let shown = ask(fleet.address, halves.on(Asking::get(SESSION))).await;

    for half in [secret, halves.page.as_str()] {
        assert!(!stored.windows(half.len()).any(|window| window == half.as_bytes()));
        assert!(!String::from_utf8_lossy(&shown.body).contains(half));
    }
}

/// An idle page costs nothing: a session is written when it begins and when it ends.
// [P4]
#[tokio::test]
async fn using_a_session_writes_nothing() {
    let fleet = Fleet::start().await;
    let halves = sign_in(&fleet, &fleet.admin_token).await;
    let operations = async || {
        let metrics: Value = fleet.admin.get("/metrics").await.unwrap();
        ["document_reads", "document_units", "transactions"].map(|name| metrics["storeOperations"][name].clone())
    };
    let before = operations().await;

    for _ in 0..5 {
        soon(ask(fleet.address, halves.on(Asking::get(SESSION)))).await;
    }

    assert_eq!(operations().await, before);
}

// [T4]
#[tokio::test]
async fn a_link_names_the_address_for_other_machines() {
    let options = Options { behind_proxy: true, allowed_hosts: vec!["giga.example".to_owned()], ..Options::default() };
    let fleet = Fleet::with(options).await;

    let made = ask(fleet.address, Asking::post(CODES).token(&fleet.admin_token)).await.json();
    let body = json!({ "token": fleet.admin_token });
    let set = ask(fleet.address, Asking::post(SESSION).json(&body)).await;

    assert!(made["url"].as_str().unwrap().starts_with("https://giga.example/#code=giga_code_"), "{made}");
    let cookie = set.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-giga=") && cookie.ends_with("; Secure"), "{cookie}");
}

// [T4]
#[tokio::test]
async fn the_last_admin_token_cannot_be_revoked() {
    let fleet = Fleet::start().await;
    let tokens: protocol::TokenList = fleet.admin.get("/tokens").await.unwrap();
    let own = tokens.items.iter().find(|token| token.grant == TokenScope::Admin).unwrap().id;
    let path = format!("/api/fleet/tokens/{own}");
    let revoke = || Asking::new(Method::DELETE, &path).token(&fleet.admin_token);

    let alone = ask(fleet.address, revoke()).await;
    fleet.token(TokenScope::Admin).await;
    let with_another = ask(fleet.address, revoke()).await;

    assert_eq!((alone.status, alone.code()), (StatusCode::CONFLICT, "last_admin_token".to_owned()));
    assert_eq!(with_another.status, StatusCode::NO_CONTENT);
}
