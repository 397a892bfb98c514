//! What reaches the terminal.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;

use super::fixtures::{FINE, Fleet, NOW, answer, full_job, id, job_id, load, load_job, log, model, press, read};
use crate::io::Screen;
use crate::message::{Data, Msg, Request};
use crate::model::Model;
use crate::update::{next_clock, update};

/// A terminal that keeps what is written to it.
#[derive(Clone, Default)]
struct Wire(Rc<RefCell<Vec<u8>>>);

impl Wire {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets a minute pass as the runtime does: the clock ticks only when the model asks for it.
fn let_a_minute_pass(model: &mut Model, screen: &mut Screen<Wire>) {
    let end = model.now.after(Duration::from_secs(60));
    while let Some(wait) = next_clock(model).filter(|wait| model.now.after(*wait) <= end) {
        let now = model.now.after(wait);
        update(model, Msg::Clock(now));
        screen.draw(model).unwrap();
    }
    update(model, Msg::Clock(end));
    screen.draw(model).unwrap();
}

/// A fleet in which no agent works.
fn idle(size: (u16, u16), keys: &str) -> Model {
    let mut model = model(FINE, size);
    load(&mut model, Fleet::Full);
    for n in [9, 1] {
        let mut job = full_job(Fleet::Full, n);
        job["stage"] = json!("queued");
        job.as_object_mut().unwrap().remove("run");
        job.as_object_mut().unwrap().remove("progress");
        answer(&mut model, Request::Job(job_id(n)), Data::Job(Box::new(read(&job))));
    }
    press(&mut model, keys);
    model
}

// [U2] [P4]
#[test]
fn an_idle_minute_writes_nothing() {
    for keys in ["1", "2", "3", "4", "5", "2j\n"] {
        let wire = Wire::default();
        let (mut model, mut screen) = (idle((80, 24), keys), Screen::new(wire.clone()));
        screen.draw(&model).unwrap();
        assert!(!wire.take().is_empty());

        let_a_minute_pass(&mut model, &mut screen);

        assert_eq!(wire.take(), b"", "page {keys}");
    }
}

#[test]
fn one_changed_row_writes_less_than_500_bytes() {
    for size in [(80, 24), (200, 50)] {
        let wire = Wire::default();
        let (mut model, mut screen) = (idle(size, "2"), Screen::new(wire.clone()));
        screen.draw(&model).unwrap();
        wire.take();

        let mut job = full_job(Fleet::Full, 5);
        job["stage"] = json!("building");
        job["message"] = json!("the engine has started and reads the whole repository");
        job.as_object_mut().unwrap().remove("waiting");
        answer(&mut model, Request::Job(job_id(5)), Data::Job(Box::new(read(&job))));
        screen.draw(&model).unwrap();

        let written = wire.take();
        assert!((1..500).contains(&written.len()), "{} bytes at {size:?}", written.len());
        let text = String::from_utf8(written).unwrap();
        assert!(text.starts_with("\u{1b}[?2026h") && text.ends_with("\u{1b}[?2026l"), "{text:?}");
        assert!(!text.contains("\u{1b}[2J"), "{text:?}");
    }
}

// [attack: terminal escapes]
#[test]
fn no_escape_of_the_data_reaches_the_terminal() {
    for keys in ["1", "2", "3", "4", "5", "2\n", "2\nl", "2\nd", "2\nm", "2jja", "2jjaa"] {
        let wire = Wire::default();
        let mut model = model(FINE, (120, 40));
        let mut screen = Screen::new(wire.clone());
        load(&mut model, Fleet::Hostile);
        press(&mut model, keys);
        load_job(&mut model, Fleet::Hostile, 9);
        log(&mut model, "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31mplain\u{1b}[?1049l\n");
        screen.draw(&model).unwrap();

        let bytes = wire.take();
        let mut terminal = parser(40, 120);
        terminal.process(&bytes);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(terminal.callbacks().0, 0, "a title was set: {text:?}");
        assert!(!text.contains("\u{1b}[2J") && !text.contains("\u{1b}]"), "{text:?}");
        assert!(!text.contains('\u{202e}') && !text.contains('\u{9b}') && !text.contains('\u{7}'), "{text:?}");
        assert_eq!(terminal.screen().contents().lines().next().map(str::trim_end), Some(first_line(&model).as_str()));
    }
}

/// Counts titles and clipboard writes that a terminal was told to set.
#[derive(Default)]
struct Titles(usize);

impl vt100::Callbacks for Titles {
    fn set_window_title(&mut self, _: &mut vt100::Screen, _: &[u8]) {
        self.0 += 1;
    }

    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], _: &[u8]) {
        self.0 += 1;
    }
}

fn parser(rows: u16, columns: u16) -> vt100::Parser<Titles> {
    let [rows, columns] = [rows, columns].map(|size| size.try_into().unwrap());
    vt100::Parser::new_with_callbacks(rows, columns, 0, Titles::default())
}

fn first_line(model: &Model) -> String {
    super::fixtures::screen(model).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn an_id_is_copied_by_osc_52() {
    let wire = Wire::default();
    Screen::new(wire.clone()).copy(&id(1)).unwrap();

    let mut terminal = parser(24, 80);
    terminal.process(&wire.take());
    assert_eq!(terminal.callbacks().0, 1);
}

#[test]
fn a_resized_terminal_is_drawn_again_without_being_cleared() {
    let wire = Wire::default();
    let (mut model, mut screen) = (idle((80, 24), "2"), Screen::new(wire.clone()));
    screen.draw(&model).unwrap();
    wire.take();

    update(&mut model, Msg::Resize(100, 30));
    screen.draw(&model).unwrap();

    let bytes = wire.take();
    let mut terminal = parser(30, 100);
    terminal.process(&bytes);
    assert_eq!(terminal.screen().contents().lines().next().map(str::trim_end), Some(first_line(&model).as_str()));
    assert!(!String::from_utf8(bytes).unwrap().contains("\u{1b}[2J"));
    assert_eq!(model.now, NOW);
}
