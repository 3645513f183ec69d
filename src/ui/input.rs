//! What the operator types, read on a thread of its own.
//!
//! crossterm reads a terminal until nothing is left, and what it reads from never says so: in the middle of a sequence it
//! waits for the rest of it, and at the end of a terminal that was hung up it reads for ever. Neither may keep the
//! dashboard from its other news, so it only ever hears from here.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use crossterm::event::Event;
use futures_util::Stream;
use tokio::sync::mpsc;

/// How much may be typed ahead before reading waits.
const TYPED_AHEAD: usize = 256;

/// The events of the terminal, as they come. The thread behind it ends with the program.
#[derive(Debug)]
pub struct Input(mpsc::Receiver<io::Result<Event>>);

impl Input {
    /// Begins to read.
    pub fn listen() -> io::Result<Self> {
        let (events, input) = mpsc::channel(TYPED_AHEAD);
        thread::Builder::new().name("input".to_owned()).spawn(move || {
            loop {
                let event = crossterm::event::read();
                let failed = event.is_err();
                if events.blocking_send(event).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self(input))
    }
}

impl Stream for Input {
    type Item = io::Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
