//! The real terminal: taken, given back on every way out, and written to in whole frames.

use std::io::{self, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::clipboard::CopyToClipboard;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::style::ResetColor;
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;
use rustix::process::{Signal, getpid, kill_process};

use super::surface::Surface;

/// Whether the terminal is ours right now, so that a panic knows whether to give it back.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal, for as long as it is held.
#[derive(Debug)]
pub struct Terminal {
    backend: CrosstermBackend<Stdout>,
    mouse: bool,
}

impl Terminal {
    /// Takes the terminal.
    pub fn take(mouse: bool) -> io::Result<Self> {
        let mut terminal = Self { backend: CrosstermBackend::new(io::stdout()), mouse };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)?;
        if self.mouse {
            execute!(io::stdout(), EnableMouseCapture)?;
        }
        Ok(())
    }
}

/// Gives the terminal back, if it is held. Safe to call from anywhere, any number of times.
pub fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    // Each on its own: what the terminal does not understand must not keep the rest from it.
    let _ = execute!(out, EndSynchronizedUpdate);
    let _ = execute!(out, DisableMouseCapture);
    let _ = execute!(out, DisableBracketedPaste);
    let _ = execute!(out, ResetColor, LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
    let _ = out.flush();
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

impl Surface for Terminal {
    fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text))
    }

    fn suspend(&mut self) -> io::Result<()> {
        restore();
        // The default action stops the process here; it goes on with the next line when the shell says so.
        let _ = kill_process(getpid(), Signal::TSTP);
        self.enter()
    }

    fn resume(&mut self) -> io::Result<()> {
        self.enter()
    }

    fn mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        if on {
            execute!(io::stdout(), EnableMouseCapture)
        } else {
            execute!(io::stdout(), DisableMouseCapture)
        }
    }

    fn has_unread(&self) -> bool {
        ioctl_fionread(io::stdin()).is_ok_and(|bytes| bytes > 0)
    }

    fn is_gone(&self) -> bool {
        if !TAKEN.load(Ordering::SeqCst) {
            return true;
        }
        let input = io::stdin();
        let mut watched = [PollFd::new(&input, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut watched, Some(&at_once)) {
            Ok(_) => watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
            Err(_) => false,
        }
    }
}

impl Backend for Terminal {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        if !TAKEN.load(Ordering::SeqCst) {
            // Something panicked and gave the terminal back. It is not ours to draw on any more.
            return Err(io::ErrorKind::NotConnected.into());
        }
        // A terminal that knows this shows whole frames only; the others ignore it.
        queue!(self.backend, BeginSynchronizedUpdate)?;
        self.backend.draw(content)?;
        queue!(self.backend, EndSynchronizedUpdate)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.backend.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.backend.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.backend.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.backend.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.backend.clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.backend.clear_region(clear_type)
    }

    fn size(&self) -> io::Result<Size> {
        self.backend.size()
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.backend.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Write::flush(&mut self.backend)
    }
}
