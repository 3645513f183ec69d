//! Runs the sandkeeper binary on a terminal of its own, types on it, and looks at the screen as a person would.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, SlavePty, native_pty_system};
use vt100::{Cell, MouseProtocolMode, Parser};

use super::program::Program;

/// A key that has no character. A lone `Esc` is only told from the beginning of another key by the silence after it: wait
/// for what it does before typing on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Esc,
    Enter,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Ctrl(char),
}

impl Key {
    fn bytes(self) -> Vec<u8> {
        let sequence: &[u8] = match self {
            Self::Esc => b"\x1b",
            Self::Enter => b"\r",
            Self::Tab => b"\t",
            Self::BackTab => b"\x1b[Z",
            Self::Backspace => b"\x7f",
            Self::Delete => b"\x1b[3~",
            Self::Up => b"\x1b[A",
            Self::Down => b"\x1b[B",
            Self::Right => b"\x1b[C",
            Self::Left => b"\x1b[D",
            Self::PageUp => b"\x1b[5~",
            Self::PageDown => b"\x1b[6~",
            Self::Home => b"\x1b[H",
            Self::End => b"\x1b[F",
            Self::Ctrl(letter) => return vec![u8::try_from(letter).unwrap().to_ascii_lowercase() & 0x1f],
        };
        sequence.to_vec()
    }
}

/// What the program has written, and the screen that makes.
struct Written {
    parser: Parser,
    bytes: Vec<u8>,
    /// How many of the bytes are on the screen: a frame that is announced shows when it is complete.
    shown: usize,
}

impl Written {
    fn hear(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let new = &self.bytes[self.shown..];
        let last = |sequence: &[u8]| new.windows(sequence.len()).rposition(|window| window == sequence);
        let (begun, ended) = (last(b"\x1b[?2026h"), last(b"\x1b[?2026l"));
        let complete = match begun {
            Some(begun) if ended.is_none_or(|ended| ended < begun) => begun,
            _ => new.len(),
        };
        self.parser.process(&new[..complete]);
        self.shown += complete;
    }
}

/// A terminal on which the program runs. The program is killed when this is dropped.
pub(crate) struct Terminal {
    written: Arc<Mutex<Written>>,
    hung_up: Arc<AtomicBool>,
    reader: RefCell<Option<JoinHandle<()>>>,
    child: RefCell<Box<dyn Child + Send + Sync>>,
    shown: String,
    began: Instant,
    /// How the terminal was set when nobody used it yet.
    unused: String,
    ends: RefCell<Option<Ends>>,
}

/// The two ends of the terminal and the keyboard. The program's end is kept open: closed by everyone it would forget
/// how the program left it.
struct Ends {
    keyboard: Box<dyn Write + Send>,
    ours: Box<dyn MasterPty + Send>,
    _theirs: Box<dyn SlavePty + Send>,
}

impl Terminal {
    /// Starts a program on a terminal of so many rows and columns. It is an `xterm-256color` in UTF-8 unless the
    /// program's environment says otherwise.
    #[track_caller]
    pub(crate) fn start(program: Program<'_>, rows: u16, columns: u16) -> Self {
        let command = program.env_default("TERM", "xterm-256color").into_command();
        Self::run(&command, rows, columns)
    }

    /// Starts any command; its environment is what was set on it and nothing else.
    #[track_caller]
    pub(crate) fn run(command: &Command, rows: u16, columns: u16) -> Self {
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        builder.env_clear();
        for (key, value) in command.get_envs().filter_map(|(key, value)| Some((key, value?))) {
            builder.env(key, value);
        }
        builder.cwd(command.get_current_dir().unwrap());
        let shown: Vec<_> = command.get_args().map(|each| each.to_string_lossy().into_owned()).collect();

        let making = super::one_process_at_a_time();
        let pair = native_pty_system().openpty(size(rows, columns)).unwrap();
        let unused = settings(&*pair.master);
        let mut output = pair.master.try_clone_reader().unwrap();
        let keyboard = pair.master.take_writer().unwrap();
        let child = pair.slave.spawn_command(builder).unwrap();
        drop(making);

        let parser = Parser::new(nonzero(rows), nonzero(columns), 0);
        let written = Arc::new(Mutex::new(Written { parser, bytes: Vec::new(), shown: 0 }));
        let hung_up = Arc::new(AtomicBool::new(false));
        let (heard, over) = (Arc::clone(&written), Arc::clone(&hung_up));
        let reader = thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                heard.lock().unwrap().hear(&buffer[..count]);
            }
        });
        let ends = RefCell::new(Some(Ends { keyboard, ours: pair.master, _theirs: pair.slave }));
        let (reader, child) = (RefCell::new(Some(reader)), RefCell::new(child));
        Self { written, hung_up, reader, child, shown: shown.join(" "), began: Instant::now(), unused, ends }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.borrow().process_id().unwrap()
    }

    /// Types text; `\r` is Enter.
    #[track_caller]
    pub(crate) fn type_keys(&self, text: &str) -> &Self {
        self.send(text.as_bytes())
    }

    #[track_caller]
    pub(crate) fn press(&self, key: Key) -> &Self {
        self.send(&key.bytes())
    }

    /// Presses and releases the left button on a cell, counted from zero.
    #[track_caller]
    pub(crate) fn click(&self, row: u16, column: u16) -> &Self {
        let (x, y) = (column + 1, row + 1);
        self.send(format!("\x1b[<0;{x};{y}M\x1b[<0;{x};{y}m").as_bytes())
    }

    /// Turns the wheel one notch on a cell, counted from zero.
    #[track_caller]
    pub(crate) fn wheel(&self, row: u16, column: u16, down: bool) -> &Self {
        let button = if down { 65 } else { 64 };
        self.send(format!("\x1b[<{button};{};{}M", column + 1, row + 1).as_bytes())
    }

    /// Sends bytes as a keyboard would.
    #[track_caller]
    pub(crate) fn send(&self, bytes: &[u8]) -> &Self {
        let sent = {
            let mut ends = self.ends.borrow_mut();
            let keyboard = &mut ends.as_mut().expect("the terminal has not hung up").keyboard;
            // A program that has ended reads nothing any more, and what it left on the screen says why.
            keyboard.write_all(bytes).and_then(|()| keyboard.flush())
        };
        assert!(sent.is_ok(), "cannot type {bytes:?}: {sent:?}\n{self}");
        self
    }

    /// Waits until the text is on the screen, within one row.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> &Self {
        self.wait_until(&format!("{text:?} is on the screen"), |screen| screen.contains(text))
    }

    /// Waits until the text is no longer on the screen.
    #[track_caller]
    pub(crate) fn wait_gone(&self, text: &str) -> &Self {
        self.wait_until(&format!("{text:?} is gone"), |screen| !screen.contains(text))
    }

    /// Waits until the screen is as described.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut(&str) -> bool) -> &Self {
        self.wait(what, || holds(&self.screen()))
    }

    #[track_caller]
    fn wait(&self, what: &str, mut holds: impl FnMut() -> bool) -> &Self {
        let limit = super::hang_limit();
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < limit, "waited {limit:?} in vain: {what}\n{self}");
            thread::sleep(super::STEP);
        }
        self
    }

    /// The rows of the screen, without the spaces at their ends.
    pub(crate) fn screen(&self) -> String {
        let written = self.written();
        let (_, columns) = written.parser.screen().size();
        let rows: Vec<String> = written.parser.screen().rows(0, columns.get()).collect();
        rows.iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n")
    }

    /// A row of the screen, counted from zero.
    pub(crate) fn row(&self, row: u16) -> String {
        self.screen().lines().nth(row.into()).unwrap_or_default().to_owned()
    }

    /// The row and column where the text begins, counted from zero.
    pub(crate) fn find(&self, text: &str) -> Option<(u16, u16)> {
        let screen = self.screen();
        let (row, line) = screen.lines().enumerate().find(|(_, line)| line.contains(text))?;
        let before = line.split(text).next()?;
        let column = unicode_width::UnicodeWidthStr::width(before);
        Some((u16::try_from(row).unwrap(), u16::try_from(column).unwrap()))
    }

    /// A cell with its colours and attributes.
    #[track_caller]
    pub(crate) fn cell(&self, row: u16, column: u16) -> Cell {
        let cell = self.written().parser.screen().cell(row, column).cloned();
        cell.unwrap_or_else(|| panic!("no cell at {row}:{column}\n{self}"))
    }

    /// The first cell of a text on the screen.
    #[track_caller]
    pub(crate) fn style_of(&self, text: &str) -> Cell {
        let Some((row, column)) = self.find(text) else { panic!("{text:?} is not on the screen\n{self}") };
        self.cell(row, column)
    }

    /// Everything written so far.
    pub(crate) fn raw_bytes(&self) -> Vec<u8> {
        self.written().bytes.clone()
    }

    /// How many bytes were written so far.
    pub(crate) fn bytes_written(&self) -> usize {
        self.written().bytes.len()
    }

    #[track_caller]
    pub(crate) fn resize(&self, rows: u16, columns: u16) -> &Self {
        self.written().parser.set_size(nonzero(rows), nonzero(columns));
        let ends = self.ends.borrow();
        ends.as_ref().expect("the terminal has not hung up").ours.resize(size(rows, columns)).unwrap();
        self
    }

    /// Sends a signal by its short name, such as `TERM`.
    #[track_caller]
    pub(crate) fn signal(&self, name: &str) -> &Self {
        let _making = super::one_process_at_a_time();
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.id())).status().unwrap();
        assert!(sent.success(), "cannot send {name}\n{self}");
        self
    }

    /// Waits until the program has ended.
    #[track_caller]
    pub(crate) fn wait_exit(&self) -> ExitStatus {
        let status = self.exited_within(super::hang_limit());
        status.unwrap_or_else(|| panic!("it did not end\n{self}"))
    }

    /// How the program ended, if it does so within this time.
    pub(crate) fn exited_within(&self, time: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        loop {
            let status = self.child.borrow_mut().try_wait().unwrap();
            if status.is_some() || began.elapsed() >= time {
                return status;
            }
            thread::sleep(super::STEP);
        }
    }

    /// How long ago the program was started.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends a dashboard that has nothing open and nothing in flight, and expects the terminal to be as it was.
    #[track_caller]
    pub(crate) fn quit(&self) {
        self.type_keys("q");
        let status = self.wait_exit();
        assert!(status.success(), "{status:?}\n{self}");
        self.wait_restored();
    }

    /// The window is closed. Just before, the program reads an end of line and of input.
    pub(crate) fn hang_up(&self) {
        let Some(ends) = self.ends.borrow_mut().take() else { return };
        self.hung_up.store(true, Ordering::SeqCst);
        // Whoever reads the screen holds a part of the terminal until something more comes.
        let mut theirs = OpenOptions::new().write(true).open(ends.ours.tty_name().unwrap()).unwrap();
        theirs.write_all(b" ").unwrap();
        if let Some(reader) = self.reader.borrow_mut().take() {
            reader.join().unwrap();
        }
    }

    /// Waits until the terminal is as it was before the program used it: the first screen, a visible cursor, no raw
    /// mode, no mouse, no bracketed paste, lines that wrap.
    #[track_caller]
    pub(crate) fn wait_restored(&self) -> &Self {
        self.wait("the terminal is restored", || self.unrestored().is_empty());
        self
    }

    /// What is not as it was before the program used the terminal.
    pub(crate) fn unrestored(&self) -> Vec<&'static str> {
        let mut left = Vec::new();
        if self.ends.borrow().as_ref().is_some_and(|ends| settings(&*ends.ours) != self.unused) {
            left.push("the line discipline");
        }
        let written = self.written();
        let screen = written.parser.screen();
        let states = [
            ("the alternate screen", screen.alternate_screen()),
            ("a hidden cursor", screen.hide_cursor()),
            ("the mouse", screen.mouse_protocol_mode() != MouseProtocolMode::None),
            ("bracketed paste", screen.bracketed_paste()),
            ("the application's cursor keys", screen.application_cursor()),
            ("reports of the focus", is_set(&written.bytes, "1004", false)),
            ("lines that do not wrap", !is_set(&written.bytes, "7", true)),
            ("a frame that is never shown", is_set(&written.bytes, "2026", false)),
            ("pushed keyboard flags", pushed_keyboard_flags(&written.bytes)),
        ];
        left.extend(states.into_iter().filter(|(_, is_left)| *is_left).map(|(what, _)| what));
        left
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap()
    }
}

impl std::fmt::Display for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rows, columns) = self.written().parser.screen().size();
        writeln!(f, "--- the screen of `{}`, {rows} rows and {columns} columns", self.shown)?;
        for line in self.screen().lines() {
            writeln!(f, "|{line}")?;
        }
        write!(f, "--- {} bytes written; not restored: {:?}", self.bytes_written(), self.unrestored())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.borrow_mut().kill();
        let _ = self.child.borrow_mut().wait();
        // Nobody has the program's end open any more, which ends the reader.
        drop(self.ends.borrow_mut().take());
        if let Some(reader) = self.reader.borrow_mut().take() {
            let _ = reader.join();
        }
    }
}

fn size(rows: u16, columns: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn nonzero(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a terminal has rows and columns")
}

/// How the line discipline is set: echo, line by line and so on.
fn settings(ours: &dyn MasterPty) -> String {
    format!("{:?}", ours.get_termios().expect("a terminal has settings"))
}

/// The last word on a mode that the screen does not keep.
fn is_set(bytes: &[u8], mode: &str, by_default: bool) -> bool {
    let last = |ending: char| {
        let sequence = format!("\x1b[?{mode}{ending}");
        bytes.windows(sequence.len()).rposition(|window| window == sequence.as_bytes())
    };
    match (last('h'), last('l')) {
        (None, None) => by_default,
        (set, reset) => set > reset,
    }
}

/// Whether keyboard flags were pushed (`CSI > … u`) more often than popped (`CSI < … u`).
fn pushed_keyboard_flags(bytes: &[u8]) -> bool {
    let count = |mark: u8| {
        let after = |start: usize| bytes[start + 3..].iter().find(|byte| !byte.is_ascii_digit());
        let starts = bytes.windows(3).enumerate().filter(|(_, window)| *window == [0x1b, b'[', mark]);
        starts.filter(|(start, _)| after(*start) == Some(&b'u')).count()
    };
    count(b'>') > count(b'<')
}
