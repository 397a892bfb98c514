//! Golden screens.

use std::path::Path;

use testkit::assert_golden;

use super::fixtures::{
    FINE, Fleet, NOW, answer, dag, explanation, folder_listing, go_down, job_id, load, load_job, log, model, press,
    read, screen, styles,
};
use crate::look::Look;
use crate::message::{Data, Msg, Request};
use crate::model::{Model, Setup};
use crate::update::update;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (60, 20)];

fn golden(name: &str, text: &str) {
    assert_golden(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/tests/golden/{name}.txt")), text);
}

/// A page in all sizes and states, one file each.
fn pages(name: &str, key: &str) {
    for (width, height) in SIZES {
        for (state, fleet, is_down) in [
            ("full", Fleet::Full, false),
            ("empty", Fleet::Empty, false),
            ("down", Fleet::Full, true),
            ("empty-down", Fleet::Empty, true),
            ("hostile", Fleet::Hostile, false),
        ] {
            let mut model = model(FINE, (width, height));
            load(&mut model, fleet);
            press(&mut model, key);
            if fleet != Fleet::Empty {
                load_job(&mut model, fleet, if name == "needs" { 7 } else { 9 });
            }
            if is_down {
                go_down(&mut model);
            }
            golden(&format!("{name}-{width}x{height}-{state}"), &screen(&model));
        }
    }
}

// [U2]
#[test]
fn the_page_of_what_needs_me_in_all_sizes_and_states() {
    pages("needs", "1");
}

// [U2]
#[test]
fn the_page_of_jobs_in_all_sizes_and_states() {
    pages("jobs", "2");
}

// [U2]
#[test]
fn the_page_of_factories_in_all_sizes_and_states() {
    pages("factories", "3");
}

// [U2] [T2]
#[test]
fn the_page_of_money_in_all_sizes_and_states() {
    pages("money", "4");
}

// [U2]
#[test]
fn the_page_of_the_dispatcher_in_all_sizes_and_states() {
    pages("dispatch", "5");
}

/// A job that was opened, with one of its parts.
fn opened(size: (u16, u16), fleet: Fleet, key: char) -> Model {
    let mut model = model(FINE, size);
    load(&mut model, fleet);
    press(&mut model, "2\n");
    load_job(&mut model, fleet, 9);
    press(&mut model, &key.to_string());
    model
}

// [U2] [J9]
#[test]
fn a_job_in_all_its_parts() {
    for size in SIZES {
        for (name, key) in [("timeline", 't'), ("log", 'l'), ("explain", 'e'), ("dependencies", 'd'), ("manifest", 'm')]
        {
            for (state, fleet) in [("full", Fleet::Full), ("hostile", Fleet::Hostile)] {
                let mut model = opened(size, fleet, key);
                log(
                    &mut model,
                    "compiling house v0.1.0\n\u{1b}[32mtest walls::stand … ok\u{1b}[0m\nrunning 12 tests of the whole house, which take a while because it is a large house\n",
                );
                answer(&mut model, Request::Dag(job_id(9)), Data::Dag(read(&dag(fleet))));
                golden(&format!("job-{name}-{}x{}-{state}", size.0, size.1), &screen(&model));
            }
        }
    }
}

#[test]
fn an_explanation_shows_the_sentence_first() {
    let mut model = model(FINE, (80, 24));
    load(&mut model, Fleet::Full);
    press(&mut model, "2jjjje");
    load_job(&mut model, Fleet::Full, 5);
    answer(&mut model, Request::Explain(job_id(5)), Data::Explain(Box::new(read(&explanation(Fleet::Full)))));

    golden("explain-80x24", &screen(&model));
}

#[test]
fn boxes_lie_over_the_page() {
    for (name, keys) in [
        ("help", "2?"),
        ("menu", "2jjja"),
        ("dialog-cancel", "2axold plan"),
        ("dialog-answer", "2jjaared ones"),
        ("dialog-bulk", "2 jjj a"),
        ("menu-pin", "2an"),
        ("command", "2:jobs st"),
        ("filter", "2/roof"),
        ("menu-dispatch", "5a"),
        ("menu-money", "4a"),
        ("dialog-pause", "4aptoo fast"),
        ("menu-factory", "3a"),
    ] {
        let mut model = model(FINE, (80, 24));
        load(&mut model, Fleet::Full);
        press(&mut model, keys);
        golden(&format!("box-{name}"), &screen(&model));
    }
}

#[test]
fn without_colours_and_in_ascii_nothing_is_lost_but_the_looks() {
    let mut model = model(Look { color: false, ascii: true }, (80, 24));
    load(&mut model, Fleet::Full);
    press(&mut model, "2");
    let text = screen(&model);

    assert!(text.is_ascii(), "{text}");
    golden("jobs-ascii", &text);
    golden("jobs-ascii-styles", &styles(&model));
}

#[test]
fn colours_only_repeat_what_words_say() {
    for (name, key) in [("needs", "1"), ("jobs", "2 j"), ("factories", "3")] {
        let mut model = model(FINE, (80, 24));
        load(&mut model, Fleet::Full);
        press(&mut model, key);
        golden(&format!("{name}-styles"), &styles(&model));
    }
}

#[test]
fn a_small_terminal_shows_the_state_and_the_counts() {
    let mut model = model(FINE, (50, 10));
    load(&mut model, Fleet::Full);
    golden("too-small", &screen(&model));

    go_down(&mut model);
    golden("too-small-down", &screen(&model));
}

#[test]
fn before_the_first_answer_nothing_is_called_empty() {
    let mut model = model(FINE, (80, 24));
    assert!(screen(&model).contains("connecting"), "{}", screen(&model));

    go_down(&mut model);
    let text = screen(&model);
    assert!(text.contains("nothing was read yet: the coordinator does not answer"), "{text}");
    assert!(!text.contains("No jobs yet"), "{text}");
}

// [F8]
#[test]
fn a_folder_queue_shows_its_files_even_without_a_coordinator() {
    for (state, is_running) in [("running", true), ("stopped", false)] {
        let mut model =
            Model::new(Setup { look: FINE, size: (80, 24), now: NOW, folder: Some("work/queue".to_owned()) });
        if is_running {
            load(&mut model, Fleet::Full);
        } else {
            go_down(&mut model);
        }
        update(&mut model, Msg::Folder(Ok(folder_listing())));
        golden(&format!("folder-{state}"), &screen(&model));
    }
}
