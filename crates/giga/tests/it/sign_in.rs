//! Links that sign a browser in.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::fleet::Fleet;

/// The status of a request without a token, and the JSON in its answer.
fn post(base: &str, path: &str, body: &str) -> (String, Value) {
    let host = base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = "content-type: application/json\r\nsec-fetch-site: same-origin\r\nconnection: close";
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: {host}\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().to_owned();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Follows a sign-in link, as the page does.
fn follow(link: &str) -> (String, Value) {
    let (base, code) = link.split_once("/#code=").unwrap();
    post(base, "/api/fleet/session", &serde_json::json!({ "code": code }).to_string())
}

// [U1] [U3] [T4]
#[test]
fn giga_up_prints_a_link_that_signs_in_once() {
    let mut fleet = Fleet::new();
    std::fs::create_dir(fleet.machine.path().join("dist")).unwrap();
    let dist = fleet.machine.path().join("dist").display().to_string();
    fleet.start(&["up"], &[("GIGA_WEB_DIR", &dist)]);
    fleet.until_connected();

    let told = fleet.machine.read("long-lived.log");
    let link = told.lines().find_map(|line| line.strip_prefix("web UI: ")).unwrap_or_else(|| panic!("{told}"));
    let (first, session) = follow(link);
    let (second, problem) = follow(link);

    assert_eq!((first.as_str(), &session["principal"]["role"]), ("201", &Value::from("admin")));
    assert_eq!((second.as_str(), &problem["code"]), ("401", &Value::from("unauthenticated")));
}

// [U1] [U3] [T4]
#[test]
fn giga_sign_in_prints_another_link() {
    let fleet = Fleet::serve();

    let shown = fleet.machine.giga(&["sign-in"]);
    let made = fleet.json(&["sign-in"]);

    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stderr.contains("works once, for"), "{}", shown.stderr);
    assert_eq!(follow(shown.stdout.trim()).0, "201");
    let (url, code) = (made[0]["url"].as_str().unwrap(), made[0]["code"].as_str().unwrap());
    assert!(url.ends_with(&format!("/#code={code}")) && made[0]["expiresAt"].is_string(), "{made:?}");
    assert_eq!(follow(url).0, "201");
}

#[test]
fn a_web_directory_that_is_missing_is_named() {
    let fleet = Fleet::new();

    let ran = fleet.machine.giga_with(&["serve"], &[("GIGA_WEB_DIR", "no/such/dist")], "");

    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("GIGA_WEB_DIR: no/such/dist is not a directory"), "{}", ran.stderr);
    assert!(ran.stderr.contains("make web"), "{}", ran.stderr);
}
