//! What the dashboard draws on: a backend that can also copy, be left for a while, and be found gone.

use std::io;

use ratatui::backend::{Backend, TestBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::view::Cursor;

/// A terminal, or something that stands for one in a test.
pub trait Surface: Backend {
    /// Puts text on the clipboard of whoever looks.
    fn copy(&mut self, text: &str) -> io::Result<()>;
    /// Goes back to the shell until the operator returns.
    fn suspend(&mut self) -> io::Result<()>;
    /// Takes the terminal again after somebody else had it.
    fn resume(&mut self) -> io::Result<()>;
    /// Listens to the mouse, or does not.
    fn mouse(&mut self, on: bool) -> io::Result<()>;
    /// Whether something was typed that nobody has read yet.
    fn has_unread(&self) -> bool;
    /// Whether nobody can look any more.
    fn is_gone(&self) -> bool;
}

impl Surface for TestBackend {
    fn copy(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn suspend(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn resume(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn mouse(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn has_unread(&self) -> bool {
        false
    }

    fn is_gone(&self) -> bool {
        false
    }
}

/// Draws only what differs from what is there. Where nothing differs nothing is written at all, not even a cursor.
#[derive(Debug)]
pub struct Screen<S> {
    surface: S,
    shown: Buffer,
    /// What was shown before that: the cells of the next picture, which need not be made anew.
    spare: Buffer,
    cursor: Cursor,
    stale: bool,
}

impl<S: Surface> Screen<S> {
    /// A screen of which nothing is known yet.
    pub fn new(surface: S) -> Self {
        Self { surface, shown: Buffer::default(), spare: Buffer::default(), cursor: None, stale: true }
    }

    /// What is drawn on.
    pub fn surface(&mut self) -> &mut S {
        &mut self.surface
    }

    /// Whatever is there was drawn by somebody else: everything is drawn anew next time.
    pub fn forget(&mut self) {
        self.stale = true;
    }

    /// Draws; says whether anything had to be written.
    pub fn draw(
        &mut self,
        size: (u16, u16),
        paint: impl FnOnce(Rect, &mut Buffer) -> Cursor,
    ) -> Result<bool, S::Error> {
        let area = Rect { x: 0, y: 0, width: size.0, height: size.1 };
        let mut next = std::mem::take(&mut self.spare);
        next.resize(area);
        next.reset();
        let cursor = paint(area, &mut next);
        if self.stale || self.shown.area != area {
            self.surface.hide_cursor()?;
            self.surface.clear()?;
            self.shown = Buffer::empty(area);
            self.cursor = None;
            self.stale = false;
        }
        let changed = self.shown.diff(&next);
        let any = !changed.is_empty();
        if any {
            self.surface.draw(changed.into_iter())?;
        }
        if self.cursor != cursor || (any && cursor.is_some()) {
            match cursor {
                Some((x, y)) => {
                    self.surface.set_cursor_position(Position { x, y })?;
                    self.surface.show_cursor()?;
                }
                None => self.surface.hide_cursor()?,
            }
        }
        if any || self.cursor != cursor {
            self.surface.flush()?;
        }
        let written = any || self.cursor != cursor;
        self.cursor = cursor;
        self.spare = std::mem::replace(&mut self.shown, next);
        Ok(written)
    }
}
