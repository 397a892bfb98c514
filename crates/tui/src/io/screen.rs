//! The terminal's screen: only what changed is written, and nothing if nothing did.

use std::io::{self, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::queue;
use ratatui::crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use ratatui::layout::Rect;

use crate::model::Model;
use crate::view::view;

/// What a terminal shows, to compare with.
pub(crate) struct Screen<W: Write> {
    backend: CrosstermBackend<W>,
    shown: Buffer,
    next: Buffer,
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self {
            backend: CrosstermBackend::new(writer),
            shown: Buffer::empty(Rect::ZERO),
            next: Buffer::empty(Rect::ZERO),
        }
    }

    /// Draws the model. Cells are written over; the screen is never cleared.
    pub(crate) fn draw(&mut self, model: &Model) -> io::Result<()> {
        let area = Rect::new(0, 0, model.size.0, model.size.1);
        if *self.shown.area() != area {
            self.forget(area);
        }
        self.next.resize(area);
        view(model, &mut self.next);
        let changes = self.shown.diff(&self.next);
        if changes.is_empty() {
            return Ok(());
        }
        queue!(self.backend, BeginSynchronizedUpdate)?;
        self.backend.draw(changes.into_iter())?;
        queue!(self.backend, EndSynchronizedUpdate)?;
        Backend::flush(&mut self.backend)?;
        std::mem::swap(&mut self.shown, &mut self.next);
        Ok(())
    }

    /// Forgets what the terminal shows, so that every cell is written again.
    pub(crate) fn forget(&mut self, area: Rect) {
        // No cell that is drawn has this symbol.
        self.shown = Buffer::filled(area, Cell::new("\u{fffc}"));
    }

    /// Copies a text to the clipboard of the terminal.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        write!(self.backend, "\u{1b}]52;c;{}\u{7}", BASE64_STANDARD.encode(text))?;
        Write::flush(&mut self.backend)
    }
}
