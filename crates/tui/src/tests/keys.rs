//! What keys ask for.

use domain::Priority;
use serde_json::json;

use super::fixtures::{
    FINE, Fleet, answer, full_job, go_down, id, job_id, load, load_job, log, model, press, read, screen,
};
use crate::message::Data;
use crate::message::{Act, Acted, Deed, Effect, Msg, Request, StreamMsg, Target};
use crate::model::{Focus, Model, Page};
use crate::update::update;

fn loaded() -> Model {
    let mut model = model(FINE, (80, 24));
    load(&mut model, Fleet::Full);
    press(&mut model, "2");
    model
}

fn deed(effects: &[Effect]) -> Option<&Deed> {
    effects.iter().find_map(|effect| match effect {
        Effect::Act(deed) => Some(deed),
        _ => None,
    })
}

fn target(n: u32, title: &str) -> Target {
    Target::Job { id: job_id(n), title: title.to_owned() }
}

// [U2] [B6]
#[test]
fn a_question_is_answered_after_its_text_is_typed() {
    let mut model = loaded();

    assert_eq!(deed(&press(&mut model, "jjaa\n")), None);
    assert!(screen(&model).contains("fill in: answer"));
    let effects = press(&mut model, "red ones\n");

    let expected =
        Deed { act: Act::Answer, targets: vec![target(7, "Raise the walls")], text: Some("red ones".to_owned()) };
    assert_eq!(deed(&effects), Some(&expected));
}

// [U2] [J10]
#[test]
fn marked_jobs_are_acted_on_together() {
    let mut model = loaded();

    let effects = press(&mut model, " jj ax\n");

    let targets = vec![target(9, "Pave the long road"), target(6, "Lay the foundation")];
    assert_eq!(deed(&effects), Some(&Deed { act: Act::Cancel, targets, text: None }));
}

#[test]
fn a_priority_and_a_pin_are_chosen_from_a_menu() {
    let effects = press(&mut loaded(), "apc\n");
    assert_eq!(deed(&effects).map(|deed| deed.act.clone()), Some(Act::Priority(Priority::Critical)));

    let effects = press(&mut loaded(), "an1\n");
    assert_eq!(deed(&effects).map(|deed| deed.act.clone()), Some(Act::Pin(Some("east".parse().unwrap()))));
}

#[test]
fn esc_leaves_a_dialog_without_doing_anything() {
    let mut model = loaded();

    let effects = press(&mut model, "axreally\u{1b}");

    assert_eq!(deed(&effects), None);
    assert!(model.overlay.is_none());
}

#[test]
fn nothing_can_be_changed_while_the_coordinator_is_down() {
    let mut model = loaded();
    go_down(&mut model);

    press(&mut model, "a");

    assert!(model.overlay.is_none());
    assert!(screen(&model).contains("nothing can be changed now: the coordinator does not answer"));
}

#[test]
fn a_failed_action_shows_its_reason() {
    let mut model = loaded();
    let deed = Deed { act: Act::Ship, targets: vec![target(6, "Lay the foundation"), target(9, "Pave")], text: None };

    update(
        &mut model,
        Msg::Acted(Acted { deed, outcomes: vec![Ok(()), Err("not in testing (illegal_transition)".to_owned())] }),
    );

    let text = screen(&model);
    assert!(text.contains("1 done, 1 failed") && text.contains("Pave: not in testing"), "{text}");
}

// [U2]
#[test]
fn a_filter_narrows_while_it_is_typed_and_is_then_asked_of_the_coordinator() {
    let mut model = loaded();

    press(&mut model, "/roof");
    assert_eq!(model.row_count(), 1);
    let effects = press(&mut model, "\n");

    let query = "?limit=100&text=roof".to_owned();
    assert!(effects.contains(&Effect::Read(Request::Jobs { query: query.clone(), cursor: None })), "{effects:?}");
    let late = json!({"items": []});
    answer(&mut model, Request::Jobs { query: "?limit=100".to_owned(), cursor: None }, Data::Jobs(read(&late)));
    assert_ne!(model.row_count(), 0, "the answer to another filter was shown");
    answer(&mut model, Request::Jobs { query, cursor: None }, Data::Jobs(read(&late)));
    assert!(screen(&model).contains("No job matches `roof`"));
}

#[test]
fn a_command_is_completed_and_opens_a_filtered_page() {
    let mut model = loaded();

    let effects = press(&mut model, "1:jo\ts st\trev\t\n");

    assert_eq!((model.page, model.jobs.filter.text()), (Page::Jobs, "stage=review"));
    let query = "?limit=100&stage=review".to_owned();
    assert!(effects.contains(&Effect::Read(Request::Jobs { query, cursor: None })), "{effects:?}");
}

#[test]
fn a_wrong_command_and_a_wrong_stage_are_told() {
    let mut model = loaded();
    press(&mut model, ":frobnicate\n");
    assert!(screen(&model).contains("`frobnicate` is not a command"));

    press(&mut model, ":jobs stage=bulding\n");
    assert!(screen(&model).contains("`bulding` is not a stage"));
}

// [U2]
#[test]
fn a_new_job_does_not_move_the_rows_under_the_cursor() {
    let mut model = loaded();
    press(&mut model, "j");
    let mut job = full_job(Fleet::Full, 9);
    (job["id"], job["title"]) = (json!(id(50)), json!("A new one"));

    answer(&mut model, Request::Job(job_id(50)), Data::Job(Box::new(read(&job))));
    assert_eq!(model.selected_job(), Some(job_id(8)));
    assert!(screen(&model).contains("1 new (. shows)"));

    press(&mut model, ".");
    assert_eq!(model.selected_job(), Some(job_id(50)));
}

#[test]
fn changed_jobs_are_read_once_after_a_moment() {
    let mut model = loaded();
    let event = json!({
        "jobId": id(5), "productId": "default", "seq": 9, "at": "2026-11-18T12:04:31.000Z", "kind": "granted",
        "stage": "assigned", "epoch": 2, "by": {"who": "coordinator"}, "text": "lease granted to east (run 1)",
    });
    for _ in 0..3 {
        let effects = update(&mut model, Msg::Stream(StreamMsg::Job(Box::new(read(&event)))));
        assert_eq!(effects, []);
    }

    let later = model.now.after(std::time::Duration::from_millis(300));
    let effects = update(&mut model, Msg::Clock(later));

    assert_eq!(effects, [Effect::Read(Request::Job(job_id(5)))]);
}

// [J9]
#[test]
fn a_log_is_opened_with_its_tab_and_closed_with_it() {
    let mut model = loaded();
    let effects = press(&mut model, "l");
    assert!(effects.contains(&Effect::OpenLog { job: job_id(9), opening: 1 }), "{effects:?}");
    load_job(&mut model, Fleet::Full, 9);
    log(&mut model, "hello\n");
    assert!(screen(&model).contains("hello"));

    assert!(press(&mut model, "t").contains(&Effect::CloseLog));
    press(&mut model, "l");
    let effects = press(&mut model, "q");
    assert!(effects.contains(&Effect::CloseLog), "{effects:?}");
    assert_eq!(model.focus, Focus::List);
    assert_eq!(press(&mut model, "q"), [Effect::Quit]);
}

#[test]
fn the_id_of_the_selected_job_is_copied_and_its_page_opened() {
    let mut model = loaded();

    assert_eq!(press(&mut model, "y"), [Effect::Copy(id(9))]);
    assert_eq!(press(&mut model, "o"), [Effect::Browse(format!("http://127.0.0.1:7878/jobs/{}", id(9)))]);
}

#[test]
fn a_lost_stream_that_opens_again_reads_what_has_no_position() {
    let mut model = loaded();
    go_down(&mut model);

    let effects = update(&mut model, Msg::Stream(StreamMsg::Open { api: "http://127.0.0.1:7878".to_owned() }));

    for request in [Request::Factories, Request::Metrics, Request::Needs, Request::Flags] {
        assert!(effects.contains(&Effect::Read(request.clone())), "{request:?}");
    }
    assert!(!screen(&model).contains("down"));
}
