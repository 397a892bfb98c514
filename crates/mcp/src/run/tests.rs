use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use super::*;

/// A factory that gives these answers, one for each connection.
fn factory(path: &Path, answers: Vec<RunAnswer>) -> tokio::task::JoinHandle<Vec<RunRequest>> {
    let listener = UnixListener::bind(path).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test awaits it")]
    tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut line = Vec::new();
            stream.read_to_end(&mut line).await.unwrap();
            requests.push(serde_json::from_slice(&line).unwrap());
            stream.write_all(&serde_json::to_vec(&answer).unwrap()).await.unwrap();
        }
        requests
    })
}

fn text(result: &CallToolResult) -> &str {
    &result.content.first().and_then(|content| content.as_text()).unwrap().text
}

// [B11]
#[tokio::test]
async fn a_run_has_only_the_tools_that_its_factory_offers() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.sock");
    let tools = vec![RunTool::GetContext, RunTool::ReportProgress];
    let served = factory(&path, vec![RunAnswer::Offer { tools }]);

    let tools = RunTools::connect(path).await.unwrap();

    let names: Vec<String> = tools.tools().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["get_context", "report_progress"]);
    assert_eq!(served.await.unwrap(), [RunRequest::Offer {}]);
}

// [B11]
#[tokio::test]
async fn a_question_is_sent_without_a_job_and_answered_with_stop() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.sock");
    let served = factory(&path, vec![RunAnswer::Offer { tools: ALL.to_vec() }, RunAnswer::Parked { saved: None }]);
    let tools = RunTools::connect(path).await.unwrap();

    let empty = tools.ask_human(Parameters(Question { question: " ".to_owned() })).await.unwrap_err();
    let parked = tools.ask_human(Parameters(Question { question: " Which gate?\n".to_owned() })).await.unwrap();

    assert!(text(&parked).starts_with("parked, stop now."), "{parked:?}");
    assert_eq!(empty, ToolFailure::new("invalid_question", "a question has 1 to 8000 bytes; shorten it"));
    let asked = RunRequest::Ask { question: "Which gate?".to_owned() };
    assert_eq!(served.await.unwrap(), [RunRequest::Offer {}, asked]);
}

// [B11]
#[tokio::test]
async fn tools_of_a_run_that_has_ended_tell_the_agent_to_stop() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.sock");
    let served = factory(&path, vec![RunAnswer::Offer { tools: ALL.to_vec() }]);
    let tools = RunTools::connect(path).await.unwrap();
    served.await.unwrap();

    let ended = tools.save_checkpoint(Parameters(Nothing {})).await.unwrap_err();

    let expected = ToolFailure::new("run_ended", "this run has ended, its work is no longer yours; stop now");
    assert_eq!(ended, expected);
}

// [B11]
#[test]
fn no_limit_and_nothing_left_read_differently() {
    let mut context = RunContext {
        job_id: "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap(),
        title: "x".to_owned(),
        product_id: domain::ProductId::default_product(),
        factory_id: "east".parse().unwrap(),
        attempt: 1,
        repo: None,
        base: None,
        deps: Vec::new(),
        usd_left: None,
        tokens_left: Some(0),
        seconds_left: 5,
        checkpoint: None,
    };

    let shown = context_text(&context);
    assert!(shown.contains("money: no limit\ntokens: 0 left"), "{shown}");
    context.usd_left = Some(0.0);
    assert!(context_text(&context).contains("money: $0.00 left"), "{}", context_text(&context));
}

// [B11]
#[tokio::test]
async fn a_subtask_is_created_awaited_and_listed_in_words() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.sock");
    let id: domain::JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap();
    let left = SubtaskBudget { usd: Some(0.0), tokens: None, subtasks: 31 };
    let created = SubtaskResponse {
        id,
        stage: domain::StageName::Queued,
        created: true,
        usd: Some(2.0),
        tokens: None,
        left: left.clone(),
    };
    let view = protocol::SubtaskView {
        id,
        title: "Part\none".to_owned(),
        stage: domain::StageName::Failed,
        settled: true,
        commit: None,
        summary: Some("no gate".to_owned()),
        spent: domain::TotalSpend::default(),
    };
    let list = SubtaskList { items: vec![view], left };
    let answers = vec![
        RunAnswer::Offer { tools: ALL.to_vec() },
        RunAnswer::Subtask(Box::new(created)),
        RunAnswer::Parked { saved: None },
        RunAnswer::Subtasks(Box::new(list)),
    ];
    let served = factory(&path, answers);
    let tools = RunTools::connect(path).await.unwrap();

    let wanted = Subtask {
        title: "Part one".to_owned(),
        instructions: "Do it.".to_owned(),
        budget_usd: Some(2.0),
        budget_tokens: None,
        allow_empty: false,
        key: None,
    };
    let created = tools.create_subtask(Parameters(wanted)).await.unwrap();
    let parked = tools.wait_for_subtasks(Parameters(Nothing {})).await.unwrap();
    let listed = tools.list_subtasks(Parameters(Nothing {})).await.unwrap();

    let left = "left for your job: money $0.00, tokens no limit, subtasks 31";
    assert_eq!(text(&created), format!("created subtask {id}, queued\nreserved: $2.00\n{left}"));
    assert!(text(&parked).starts_with("parked, stop now. The job goes on when its subtasks have ended"));
    assert_eq!(text(&listed), format!("{id} Part one (failed): no gate\n{left}"));
    let subtask = NewSubtask {
        title: "Part one".to_owned(),
        instructions: "Do it.".to_owned(),
        usd: Some(2.0),
        ..NewSubtask::default()
    };
    assert_eq!(served.await.unwrap()[1], RunRequest::CreateSubtask { subtask });
}
