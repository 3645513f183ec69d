//! A container's log: the engine's framing taken off, cut into lines that are never too long to hold.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Buf;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use jiff::Timestamp;
use tokio::time::Instant;

use super::EngineView;
use crate::domain::container::ContainerId;
use crate::engine::fault::{EngineFault, chain};

/// What is kept of a line; the rest is dropped as it arrives.
const LONGEST_LINE: usize = 4 * 1024;

/// More than any timestamp takes, which stands before the line's own text.
const LONGEST_TIMESTAMP: usize = 40;

/// One line that a container wrote. Its text is the container's own, escape sequences included: it is for
/// `text::ansi` or `text::clean`, never for a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Whether it went to standard error. A container with a terminal has standard output only.
    pub stderr: bool,
    /// When the engine received it.
    pub at: Option<Timestamp>,
    /// The line without its end; `…` stands for what was too long to keep.
    pub text: String,
}

impl EngineView {
    /// The last `tail` lines of a container's log, oldest first, and with `follow` whatever it writes from then on,
    /// until the engine ends the stream. Without `follow` it ends in time; a fault is the last item.
    pub fn logs(
        &self,
        id: &ContainerId,
        tail: usize,
        follow: bool,
    ) -> BoxStream<'static, Result<LogLine, EngineFault>> {
        let (view, id) = (self.clone(), id.clone());
        let timeout = view.timeout;
        let lines = stream::once(async move { view.open_log(&id, tail, follow).await });
        lines.map_ok(move |body| Reading::new(body, timeout, follow).into_stream()).try_flatten().boxed()
    }

    async fn open_log(&self, id: &ContainerId, tail: usize, follow: bool) -> Result<Incoming, EngineFault> {
        let open = async {
            // An id that the engine no longer knows may be somebody's name.
            self.raw_inspection(id).await?;
            let path = format!(
                "/containers/{id}/logs?stdout=true&stderr=true&timestamps=true&follow={follow}&tail={tail}"
            );
            self.transport.open(&path).await
        };
        tokio::time::timeout(self.timeout, open).await.map_err(|_| EngineFault::TimedOut(self.timeout))?
    }
}

/// A log that is being read.
struct Reading {
    body: Incoming,
    lines: Lines,
    ready: VecDeque<LogLine>,
    /// When it must be over, and how long that was; a log that is followed may be silent for ever.
    deadline: Option<(Instant, Duration)>,
    ended: bool,
}

impl Reading {
    fn new(body: Incoming, timeout: Duration, follow: bool) -> Self {
        let deadline = (!follow).then(|| (Instant::now() + timeout, timeout));
        Self { body, lines: Lines::default(), ready: VecDeque::new(), deadline, ended: false }
    }

    fn into_stream(self) -> impl stream::Stream<Item = Result<LogLine, EngineFault>> {
        stream::try_unfold(self, |mut reading| async move {
            let line = reading.next().await?;
            Ok(line.map(|line| (line, reading)))
        })
    }

    async fn next(&mut self) -> Result<Option<LogLine>, EngineFault> {
        while self.ready.is_empty() && !self.ended {
            let frame = match self.deadline {
                None => self.body.frame().await,
                Some((deadline, timeout)) => tokio::time::timeout_at(deadline, self.body.frame())
                    .await
                    .map_err(|_| EngineFault::TimedOut(timeout))?,
            };
            match frame {
                None => {
                    self.ended = true;
                    self.lines.finish(&mut self.ready);
                }
                Some(Err(error)) => return Err(EngineFault::Connection(chain(&error))),
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.lines.push(bytes, &mut self.ready)?;
                    }
                }
            }
        }
        Ok(self.ready.pop_front())
    }
}

/// Turns the engine's bytes, in whatever pieces they come, into lines.
#[derive(Debug, Default)]
struct Lines {
    framing: Framing,
    output: Line,
    errors: Line,
}

/// How standard output and standard error are told apart.
#[derive(Debug, Default)]
enum Framing {
    /// Nothing was received yet.
    #[default]
    Unknown,
    /// They are not: a container with a terminal writes one stream.
    Raw,
    /// Pieces, each behind a header of eight bytes: the stream, three zeroes and the length.
    Headers { header: Vec<u8>, left: u32, stderr: bool },
}

impl Lines {
    fn push(&mut self, mut bytes: &[u8], ready: &mut VecDeque<LogLine>) -> Result<(), EngineFault> {
        while let Some(first) = bytes.first() {
            match &mut self.framing {
                // Every line begins with a year, so a byte that is no digit belongs to a header.
                Framing::Unknown if *first > 3 => self.framing = Framing::Raw,
                Framing::Unknown => {
                    self.framing = Framing::Headers { header: Vec::with_capacity(8), left: 0, stderr: false };
                }
                Framing::Raw => {
                    self.output.push(bytes, false, ready);
                    return Ok(());
                }
                Framing::Headers { header, left: left @ 0, stderr } => {
                    let missing = bytes.len().min(8 - header.len());
                    header.extend_from_slice(&bytes[..missing]);
                    bytes = &bytes[missing..];
                    if let [stream, rest @ ..] = header.as_slice()
                        && header.len() == 8
                    {
                        if *stream > 3 || rest[..3] != [0; 3] {
                            return Err(EngineFault::Unintelligible(
                                "the log's framing is broken".to_owned(),
                            ));
                        }
                        *stderr = *stream >= 2;
                        *left = (&rest[3..]).get_u32();
                        header.clear();
                    }
                }
                Framing::Headers { left, stderr, .. } => {
                    let whole = usize::try_from(*left).unwrap_or(usize::MAX);
                    let (piece, rest) = bytes.split_at(bytes.len().min(whole));
                    bytes = rest;
                    // A piece is not longer than what was left, so the difference fits.
                    *left -= u32::try_from(piece.len()).unwrap_or(*left);
                    let line = if *stderr { &mut self.errors } else { &mut self.output };
                    line.push(piece, *stderr, ready);
                }
            }
        }
        Ok(())
    }

    /// A last line without an end is a line.
    fn finish(&mut self, ready: &mut VecDeque<LogLine>) {
        for (line, stderr) in [(&mut self.output, false), (&mut self.errors, true)] {
            if !line.bytes.is_empty() {
                ready.push_back(line.take(stderr));
            }
        }
    }
}

/// The line that is being received.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    cut: bool,
}

impl Line {
    fn push(&mut self, bytes: &[u8], stderr: bool, ready: &mut VecDeque<LogLine>) {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let room = (LONGEST_TIMESTAMP + LONGEST_LINE).saturating_sub(self.bytes.len());
            self.cut |= piece.len() > room;
            self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            // What follows the last line end is the beginning of the next line.
            if pieces.peek().is_some() {
                ready.push_back(self.take(stderr));
            }
        }
    }

    fn take(&mut self, stderr: bool) -> LogLine {
        let line = std::mem::take(self);
        let text = line.bytes.strip_suffix(b"\r").unwrap_or(&line.bytes);
        let end = text.iter().take(LONGEST_TIMESTAMP).position(|byte| *byte == b' ').unwrap_or(text.len());
        let timestamp = std::str::from_utf8(&text[..end]).ok().and_then(|word| word.parse().ok());
        let text = if timestamp.is_some() { text.get(end + 1..).unwrap_or_default() } else { text };
        let kept = &text[..text.len().min(LONGEST_LINE)];
        let cut = line.cut || kept.len() < text.len();
        let mut text = String::from_utf8_lossy(kept).into_owned();
        if cut {
            // The cut may have gone through a character.
            text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
            text.push('…');
        }
        LogLine { stderr, at: timestamp, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(stream: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![stream, 0, 0, 0];
        frame.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    fn lines_of(bytes: &[u8], piece: usize) -> Vec<LogLine> {
        let (mut lines, mut ready) = (Lines::default(), VecDeque::new());
        for piece in bytes.chunks(piece) {
            lines.push(piece, &mut ready).unwrap();
        }
        lines.finish(&mut ready);
        ready.into()
    }

    fn line(stderr: bool, text: &str) -> LogLine {
        let at = Some("2024-05-06T07:08:09.123456789Z".parse().unwrap());
        LogLine { stderr, at, text: text.to_owned() }
    }

    const AT: &str = "2024-05-06T07:08:09.123456789Z ";

    #[test]
    fn both_streams_come_apart_whatever_the_pieces() {
        let mut bytes = framed(1, format!("{AT}one\n{AT}tw").as_bytes());
        bytes.extend(framed(2, format!("{AT}oh\n").as_bytes()));
        bytes.extend(framed(1, b""));
        bytes.extend(framed(1, format!("o\r\n{AT}\n{AT}no end").as_bytes()));
        let expected = [
            line(false, "one"),
            line(true, "oh"),
            line(false, "two"),
            line(false, ""),
            line(false, "no end"),
        ];
        for piece in [1, 2, 3, 7, 8, 9, 64, 4096] {
            assert_eq!(lines_of(&bytes, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_terminals_stream_has_no_headers() {
        let bytes = format!("{AT}one\r\n{AT}two\r\n");
        assert_eq!(lines_of(bytes.as_bytes(), 5), [line(false, "one"), line(false, "two")]);
    }

    #[test]
    fn a_line_is_kept_up_to_a_length_and_says_that_it_was_cut() {
        for (length, expected) in [(LONGEST_LINE, "x"), (LONGEST_LINE + 1, "…"), (9_000_000, "…")] {
            let bytes = framed(1, format!("{AT}{}\n{AT}next\n", "x".repeat(length)).as_bytes());
            let lines = lines_of(&bytes, 100_000);
            assert!(lines[0].text.len() <= LONGEST_LINE + "…".len());
            assert!(lines[0].text.ends_with(expected), "{length}");
            assert_eq!(lines[1], line(false, "next"));
        }
        let bytes = framed(1, format!("{AT}{}\n", "ä".repeat(LONGEST_LINE)).as_bytes());
        assert!(lines_of(&bytes, 100)[0].text.ends_with("ä…"));
    }

    #[test]
    fn bytes_that_are_no_text_and_lines_without_a_time_are_lines() {
        let lines = lines_of(&framed(1, b"no time\n\xff\xfe ok\n"), 3);
        assert_eq!(lines[0], LogLine { stderr: false, at: None, text: "no time".to_owned() });
        assert_eq!(lines[1].text, "\u{fffd}\u{fffd} ok");
    }

    #[test]
    fn broken_framing_is_a_fault() {
        let mut bytes = framed(1, b"fine\n");
        bytes.extend(b"garbage of some length");
        let fault = Lines::default().push(&bytes, &mut VecDeque::new()).unwrap_err();
        assert!(matches!(fault, EngineFault::Unintelligible(_)));
    }
}
