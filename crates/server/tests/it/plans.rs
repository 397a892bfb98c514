//! Plans over HTTP: one Markdown file becomes a tree of jobs [J4].

use domain::{JobId, Kind, ProductId, StageName, TokenScope};
use protocol::{JobList, PlanRequest, PlanResponse, ProductSettings};

use crate::fleet::{Fleet, code};

const PLAN: &str = "\
---
verify: [make test]
---
# Release 2

## Write the docs

Describe the search.

## Change the code

### Change the parser

Accept quoted words.

### Change the printer

```job
after: Change the parser
capabilities: [\"has:printer\"]
```

Print them with quotes.
";

fn plan(body_md: &str) -> PlanRequest {
    PlanRequest { body_md: body_md.to_owned(), ..PlanRequest::default() }
}

async fn count(fleet: &Fleet) -> usize {
    fleet.admin.get::<JobList>("/jobs").await.unwrap().items.len()
}

// [J4] [B2] [§10]
#[tokio::test]
async fn a_plan_is_checked_without_a_write_and_submitted_once() {
    let fleet = Fleet::start().await;
    let _factory = fleet.factory("mac-1").await;

    let dry: PlanResponse = fleet.admin.post("/plans?dryRun=true", &plan(PLAN)).await.unwrap();
    let written = count(&fleet).await;
    let first: PlanResponse = fleet.admin.post("/plans", &plan(PLAN)).await.unwrap();
    let again: PlanResponse = fleet.admin.post("/plans", &plan(PLAN)).await.unwrap();

    let shape: Vec<_> = dry.jobs.iter().map(|job| (job.title.as_str(), job.line, job.parent, job.kind)).collect();
    let (task, composite) = (Kind::Task, Kind::Composite);
    assert_eq!(
        shape,
        [
            ("Release 2", 1, None, composite),
            ("Write the docs", 6, Some(0), task),
            ("Change the code", 10, Some(0), composite),
            ("Change the parser", 12, Some(2), task),
            ("Change the printer", 16, Some(2), task),
        ]
    );
    assert_eq!((dry.created, written, dry.jobs[4].after.as_slice()), (false, 0, [3].as_slice()));
    let placed: Vec<_> = dry.jobs.iter().map(|job| job.placement.as_ref().map(|place| place.unplaceable)).collect();
    assert_eq!(placed, [None, Some(false), None, Some(false), Some(true)], "{dry:?}");
    assert!(dry.jobs[4].placement.as_ref().unwrap().text.contains("has:printer"), "{dry:?}");
    assert_eq!((first.created, again.created, count(&fleet).await), (true, false, 5));
    let ids = |answer: &PlanResponse| answer.jobs.iter().map(|job| job.id).collect::<Vec<Option<JobId>>>();
    assert_eq!(ids(&first), ids(&again));
    let root = fleet.job(first.jobs[0].id.unwrap()).await;
    assert_eq!((root.job.stage, root.tree.unwrap().jobs), (StageName::Blocked, 4));
}

// [J1] [J4]
#[tokio::test]
async fn a_plan_with_an_error_is_rejected_as_a_whole_with_the_line_of_its_heading() {
    let fleet = Fleet::start().await;
    let bad = PLAN.replace("after: Change the parser", "after: Change the parser\nverify: 7");
    let unknown = PLAN.replace("capabilities:", "profile: poet\ncapabilities:");

    let mut found = Vec::new();
    for text in [&bad, &unknown] {
        for path in ["/plans?dryRun=true", "/plans"] {
            let answer: Result<PlanResponse, _> = fleet.admin.post(path, &plan(text)).await;
            let client::ClientError::Refused(problem) = answer.unwrap_err() else { panic!("no problem") };
            let finding = problem.more["findings"][0].clone();
            found.push((
                problem.code.clone(),
                finding["line"].as_u64(),
                finding["message"].as_str().unwrap().to_owned(),
            ));
        }
    }

    let number =
        "Change the printer: expected a command or a list of commands, found the number 7: quote it if it is a command";
    assert_eq!(found[0], ("bad_manifest".to_owned(), Some(16), number.to_owned()));
    assert_eq!(found[1], found[0]);
    assert!(found[2].1 == Some(16) && found[2].2.contains("poet"), "{found:?}");
    assert_eq!((&found[3], count(&fleet).await), (&found[2], 0));
}

// [T3]
#[tokio::test]
async fn a_plan_belongs_to_a_product_of_its_caller() {
    let fleet = Fleet::start().await;
    fleet.product("other", ProductSettings::default()).await;
    let products = ["other".parse::<ProductId>().unwrap()].into();
    let stranger = fleet.client(&fleet.token(TokenScope::Operator { products }).await.secret);
    let foreign = PLAN.replace("verify:", "product: default\nverify:");

    let dry: Result<PlanResponse, _> = stranger.post("/plans?dryRun=true", &plan(&foreign)).await;
    let real: Result<PlanResponse, _> = stranger.post("/plans", &plan(&foreign)).await;
    let own: PlanResponse = stranger.post("/plans", &plan(PLAN)).await.unwrap();

    assert_eq!((code(dry), code(real)), ("forbidden".to_owned(), "forbidden".to_owned()));
    let root = fleet.job(own.jobs[0].id.unwrap()).await;
    assert_eq!((root.job.product_id.as_str(), count(&fleet).await), ("other", 5));
}
