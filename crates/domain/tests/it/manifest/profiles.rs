//! The text of a profile, and its defaults in a manifest [J2].

use domain::{Manifest, Profile, ProfileOrigin, ProfileOwner, ProfileText, Spec, Strictness, Timestamp};

use crate::manifest::texts;

const DESIGNER: &str = "---
description: Designs interfaces
capabilities: [has:browser]
engines: [claude, codex]
models: { claude: opus, codex: gpt-5 }
budget: { usd: 5, wall: 1h }
verify: npm test
---

You are a designer.
";

fn profile(text: &str) -> Profile {
    let origin = ProfileOrigin {
        owner: ProfileOwner::Fleet,
        name: "designer".parse().unwrap(),
        version: 3,
        by: "ada".to_owned(),
        at: Timestamp::from_millis(0),
    };
    let parsed = ProfileText::parse(text).map_err(|findings| texts(&findings)).unwrap();
    Profile::new(origin, parsed, text.into())
}

/// The spec of a job with this front matter and a profile, the keys that the profile set, and its persona.
fn job(front: &str, profile: &Profile) -> Result<(Spec, Vec<String>, String), Vec<String>> {
    let text = format!("---\n{front}\n---\nprose");
    let mut manifest = Manifest::parse(&text, Strictness::Strict).map_err(|findings| texts(&findings))?;
    let snapshot = manifest.with_profile(profile).map_err(|findings| texts(&findings))?;
    assert_eq!(manifest.spec.profile, Some(snapshot.profile));
    Ok((manifest.spec, snapshot.applied, snapshot.persona.to_string()))
}

// [J2]
#[test]
fn a_job_gets_what_it_leaves_to_its_profile() {
    let (spec, applied, persona) = job("profile: designer", &profile(DESIGNER)).unwrap();

    assert_eq!(spec.profile.map(|profile| profile.to_string()).as_deref(), Some("designer@3"));
    assert_eq!(persona, "You are a designer.");
    assert_eq!(spec.capabilities, ["has:browser".parse().unwrap()]);
    assert_eq!(spec.engines, ["claude".parse().unwrap(), "codex".parse().unwrap()]);
    assert_eq!(spec.models.len(), 2);
    assert_eq!((spec.budget.usd, spec.budget.wall_ms, spec.budget.tokens), (Some(5.0), Some(3_600_000), None));
    assert_eq!(spec.verify, ["npm test"]);
    assert_eq!(applied, ["capabilities", "engines", "models", "budget.usd", "budget.wall", "verify"]);
}

// [J2]
#[test]
fn a_key_of_the_manifest_wins_even_if_it_is_empty() {
    let front = "profile: designer\ncapabilities: []\nengine: codex\nbudget: { usd: 1, tokens: 9 }\nverify: []";

    let (spec, applied, _) = job(front, &profile(DESIGNER)).unwrap();

    assert_eq!((spec.capabilities.len(), spec.verify.len()), (0, 0));
    assert_eq!(spec.models, [("codex".parse().unwrap(), "gpt-5".to_owned())].into(), "only for the job's engine");
    assert_eq!((spec.budget.usd, spec.budget.wall_ms, spec.budget.tokens), (Some(1.0), Some(3_600_000), Some(9)));
    assert_eq!(applied, ["models", "budget.wall"]);
}

// [J2]
#[test]
fn a_model_of_the_manifest_fits_the_engines_of_the_profile() {
    let one = profile("---\nengine: claude\nmodel: opus\n---\n");
    let model =
        |front: &str| job(front, &one).map(|(spec, ..)| spec.model_for(&"claude".parse().unwrap()).map(str::to_owned));

    assert_eq!(model("profile: designer"), Ok(Some("opus".to_owned())));
    assert_eq!(model("profile: designer\nmodel: sonnet"), Ok(Some("sonnet".to_owned())));
    assert_eq!(model("profile: designer\nengine: codex"), Ok(None));
    let refused = job("profile: designer\nmodel: sonnet", &profile(DESIGNER)).unwrap_err();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].starts_with("error: line 3, model: the job does not name exactly one engine"), "{refused:?}");
    let foreign = job("profile: designer\nmodels: { devin: x }", &profile(DESIGNER)).unwrap_err();
    assert!(foreign[0].starts_with("error: line 3, models: `devin` is not one of the job's engines"), "{foreign:?}");
}

// [J2]
#[test]
fn a_profile_with_an_error_is_rejected_with_its_line() {
    let errors = |text: &str| ProfileText::parse(text).map_err(|findings| texts(&findings)).unwrap_err();
    let persona = "x".repeat(16 * 1024 + 1);

    assert_eq!(
        errors("---\nrepo: notes\ncapabilites: []\nengine: [a]\n---\nx"),
        [
            "error: line 2, repo: a profile cannot set it: it belongs in the job",
            "error: line 3, capabilites: unknown key; did you mean `capabilities`?",
            "error: line 4, engine: expected a text, found a list: `engines` takes a list",
        ]
    );
    assert_eq!(errors("---\nmodel: opus\n---\nx").len(), 1);
    assert_eq!(errors("---\nopen").len(), 1);
    assert_eq!(errors(&persona), ["error: line 1: the persona has 16385 bytes; at most 16384 are allowed"]);
    assert!(errors("---\ndescription: empty\n---\n")[0].contains("has no text and sets nothing"));
    assert!(ProfileText::parse("You review.").is_ok());
    assert!(ProfileText::parse("---\nengine: claude\n---\n").is_ok());
}
