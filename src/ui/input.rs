//! What the operator types, read on a thread of its own.
//!
//! crossterm reads a terminal until nothing is left, and what it reads from never says so: in the middle of a sequence it
//! waits for the rest of it, and at the end of a terminal that was hung up it reads for ever. Neither may keep the
//! dashboard from its other news, so it only ever hears from here, and crossterm reads only where there is something. (Its
//! feature `use-dev-tty` is on because its other way of waiting forgets a key that comes together with a change of size.)

use std::io::{self, PipeReader, PipeWriter};
use std::pin::Pin;
use std::sync::mpsc::Receiver;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use crossterm::event::Event;
use futures_util::Stream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

/// How much may be typed ahead before reading waits.
const TYPED_AHEAD: usize = 256;
/// How long the thread may take to let go of the terminal. In the middle of a sequence it does not.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long crossterm is given to find what is there. Given no time at all it does not even look.
const A_MOMENT: Duration = Duration::from_millis(1);
/// A machine that is busy may take that moment away before crossterm has looked at what it read together with an earlier key.
/// Nothing else would ever ask for that, so it is asked for again, so often and so far apart.
const ASKED_AGAIN: u8 = 3;
const APART: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The events of the terminal, as they come. Dropped, it leaves what is typed from then on to others.
#[derive(Debug)]
pub struct Input {
    events: mpsc::Receiver<io::Result<Event>>,
    /// Closed to ask the thread to end.
    stay: Option<PipeWriter>,
    /// Closed by the thread when it has ended.
    ended: Receiver<()>,
}

impl Input {
    /// Begins to read.
    pub fn listen() -> io::Result<Self> {
        let (sender, events) = mpsc::channel(TYPED_AHEAD);
        let (leave, stay) = io::pipe()?;
        let (last_word, ended) = std::sync::mpsc::channel();
        thread::Builder::new().name("input".to_owned()).spawn(move || {
            if let Err(error) = read(&leave, &sender) {
                let _ = sender.blocking_send(Err(error));
            }
            drop(last_word);
        })?;
        Ok(Self { events, stay: Some(stay), ended })
    }
}

/// Reads until the terminal is gone or nobody wants to hear any more.
fn read(leave: &PipeReader, events: &mpsc::Sender<io::Result<Event>>) -> io::Result<()> {
    let terminal = io::stdin();
    let mut asked_again = ASKED_AGAIN;
    loop {
        let mut watched = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(leave, PollFlags::IN)];
        let patience = (asked_again < ASKED_AGAIN).then_some(&APART);
        match poll(&mut watched, patience) {
            Ok(0) => asked_again += 1,
            Ok(_) => asked_again = 0,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if !watched[1].revents().is_empty() {
            return Ok(());
        }
        if watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while crossterm::event::poll(A_MOMENT)? {
            if events.blocking_send(crossterm::event::read()).is_err() {
                return Ok(());
            }
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.events.close();
        self.stay = None;
        // Nothing is ever sent: the end of the thread is the end of the wait.
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

impl Stream for Input {
    type Item = io::Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context)
    }
}
