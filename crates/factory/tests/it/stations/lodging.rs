//! Engines with an operator's login: what of it a job gets, and what comes back.

use std::fs;

use super::LONG;
use super::agents::{playing, stream};
use super::fleet::{Fleet, Line};
use super::plant::Plant;
use crate::stage::Forge;

#[tokio::test]
async fn an_agent_refreshes_the_operators_login_and_leaves_nothing_in_its_settings() {
    let (forge, fleet) = (Forge::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let login = |token: &str| format!(r#"{{"claudeAiOauth":{{"accessToken":"{token}"}}}}"#);
    let operators = forge.path("operators");
    fs::create_dir(&operators).unwrap();
    fs::write(operators.join(".credentials.json"), login("first")).unwrap();
    fs::write(operators.join("settings.json"), r#"{"model":"opus"}"#).unwrap();
    let script = format!(
        "cat \"$CLAUDE_CONFIG_DIR/settings.json\" \"$CLAUDE_CONFIG_DIR/.credentials.json\" > found-$GIGA_JOB_ID.txt\n\
         echo '{{\"hooks\":{{}}}}' > \"$CLAUDE_CONFIG_DIR/settings.json\"; touch \"$CLAUDE_CONFIG_DIR/planted\"\n\
         echo '{}' > \"$CLAUDE_CONFIG_DIR/new\"; mv \"$CLAUDE_CONFIG_DIR/new\" \"$CLAUDE_CONFIG_DIR/.credentials.json\"\n\
         {}",
        login("second"),
        stream("real-ok")
    );
    let mut own = playing("lodger", &forge, &script);
    for engine in own.engines.values_mut() {
        let folder = operators.to_str().unwrap().to_owned();
        engine.environment.set = [("CLAUDE_CONFIG_DIR".to_owned(), folder)].into();
    }
    let _plant = Plant::start(own, fleet.enrol("lodger", &line).await);

    let mut found = Vec::new();
    for _ in 0..2 {
        let job = fleet.submit("").await;
        let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
        let runs = fleet.runs(job).await;
        let sha = view.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}"));
        found.push(forge.file_at(&sha, &format!("found-{job}.txt")).unwrap());
    }

    let settings = r#"{"model":"opus"}"#;
    assert_eq!(found, [format!("{settings}{}", login("first")), format!("{settings}{}\n", login("second"))]);
    let mut names: Vec<_> = fs::read_dir(&operators).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".credentials.json", "settings.json"]);
    assert_eq!(fs::read_to_string(operators.join("settings.json")).unwrap(), settings);
}
