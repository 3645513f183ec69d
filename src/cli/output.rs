//! Writing to the terminal or a pipe. A reader that went away is no error.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::domain::Status;
use crate::text::{clean, escape_json};

/// Whether something could not be written although somebody reads: a full disk, say.
static CUT_SHORT: AtomicBool = AtomicBool::new(false);

/// Writes all of it; `false` when nobody reads any more, or nothing more can be written.
pub(super) fn write(text: &str) -> bool {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::BrokenPipe
        && !CUT_SHORT.swap(true, Ordering::Relaxed)
    {
        complain(&format!("error: the answer cannot be written: {error}"));
    }
    written.is_ok()
}

/// Whether an answer could not be written.
pub(super) fn was_cut_short() -> bool {
    CUT_SHORT.load(Ordering::Relaxed)
}

/// Writes a line to standard error. Unlike `eprintln!` it does not panic in a program whose terminal has gone.
pub(super) fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", clean(line));
}

/// Each on a line of its own.
pub(super) fn in_lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Writes a value as JSON, indented for one answer, on one line for a stream of them.
pub(super) fn write_json(value: &impl Serialize, indented: bool) -> bool {
    let json = if indented { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    match json {
        Ok(json) => write(&format!("{}\n", escape_json(&json))),
        Err(error) => {
            complain(&format!("error: the answer cannot be written as JSON: {error}"));
            false
        }
    }
}

/// How to write: whether colours may be used, and how wide a line may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) colour: bool,
    /// `None` when the output is not a terminal: then nothing is cut.
    pub(super) width: Option<usize>,
}

impl Manner {
    pub(super) fn of_stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        let wished = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let width = if terminal {
            crossterm::terminal::size().ok().map(|(width, _)| usize::from(width))
        } else {
            None
        };
        Self { colour: terminal && wished, width }
    }

    /// A status in its colour. The word alone says everything.
    pub(super) fn paint(self, status: Status, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match status {
            Status::Active => "32",
            Status::Idle => "36",
            Status::Stale => "33",
            Status::Orphaned => "35",
            Status::Draining => "34",
            Status::Lost => "1;31",
            Status::Unknown => "31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    pub(super) fn bold(self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}
