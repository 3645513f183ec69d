//! One line for every request that was refused. A reader of the log that has stopped reading stops nobody else: lines that
//! do not fit are counted instead.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};

use crate::text::{clean, shorten};

/// Lines that may wait to be written.
const WAITING: usize = 1_000;
/// The longest line.
const LONGEST: usize = 400;

/// The way to the log.
#[derive(Clone, Debug)]
pub(super) struct Diary {
    lines: SyncSender<String>,
    missed: Arc<AtomicU64>,
}

impl Diary {
    /// Begins to write to standard error.
    pub(super) fn begin() -> Self {
        let (lines, inbox) = mpsc::sync_channel::<String>(WAITING);
        let missed = Arc::new(AtomicU64::new(0));
        let uncounted = Arc::clone(&missed);
        std::thread::spawn(move || {
            for line in inbox {
                let mut out = std::io::stderr().lock();
                let missed = uncounted.swap(0, Ordering::Relaxed);
                if missed > 0 {
                    let _ = writeln!(out, "({missed} lines were left out)");
                }
                let _ = writeln!(out, "{line}");
            }
        });
        Self { lines, missed }
    }

    /// Writes a line, made harmless and short.
    pub(super) fn note(&self, line: &str) {
        if self.lines.try_send(shorten(&clean(line), LONGEST)).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
