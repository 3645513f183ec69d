//! Answers that go on: events, logs and statistics, as long as somebody reads.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;

use super::filters::Filters;
use super::json;
use super::program::Output;
use super::request::Asked;
use super::server::{Answer, Shared};
use super::world::{LogLine, Refusal};

/// Between two samples of a stream of statistics.
const SAMPLE: Duration = Duration::from_secs(1);

/// A body that asks for its next piece again and again, until there is none.
fn body_of<S, F, N>(state: S, next: F) -> Answer
where
    S: Send + 'static,
    F: Fn(S) -> N + Send + 'static,
    N: Future<Output = Option<(Bytes, S)>> + Send + 'static,
{
    let pieces = stream::unfold((state, next), |(state, next)| async move {
        let (piece, state) = next(state).await?;
        Some((Ok::<_, io::Error>(Frame::data(piece)), (state, next)))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// `GET /events`: what has happened since a time, and what happens until one.
pub(super) fn events(shared: &Arc<Shared>, asked: &Asked) -> Result<Answer, Refusal> {
    let filters = Filters::parse(asked.text("filters"))?;
    let (since, until) = (time(asked, "since")?, time(asked, "until")?);
    let number = shared.look(|world, _| if since.is_some() { 0 } else { world.events.next_number() });
    let state = (Arc::clone(shared), filters, number);
    Ok(body_of(state, move |(shared, filters, number)| async move {
        let mut changes = shared.changes();
        let mut number = number;
        loop {
            let mut text = String::new();
            let (next, now) = shared.look(|world, now| {
                for event in world.events.from(number) {
                    let timely = since.is_none_or(|since| event.at >= since)
                        && until.is_none_or(|until| event.at <= until);
                    if timely && filters.hears(event) {
                        text.push_str(&event.json().to_string());
                        text.push('\n');
                    }
                }
                (world.events.next_number(), now)
            });
            number = next;
            if !text.is_empty() {
                return Some((Bytes::from(text), (shared, filters, number)));
            }
            if until.is_some_and(|until| now >= until) {
                return None;
            }
            let end = async {
                match until {
                    Some(until) => shared.clock.sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = end => {}
                told = changes.changed() => if told.is_err() { return None },
            }
        }
    }))
}

/// A time as whole or broken seconds, or written out.
fn time(asked: &Asked, name: &str) -> Result<Option<Timestamp>, Refusal> {
    let Some(text) = asked.text(name).filter(|text| !text.is_empty() && *text != "0") else {
        return Ok(None);
    };
    if let Ok(written) = text.parse::<Timestamp>() {
        return Ok(Some(written));
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let unreadable = || Refusal::new(500, format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"));
    let seconds: i64 = seconds.parse().map_err(|_| unreadable())?;
    let padded: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: i32 = padded.parse().map_err(|_| unreadable())?;
    Timestamp::new(seconds, nanoseconds).map(Some).map_err(|_| unreadable())
}

/// What somebody wants to read of a log.
struct Reader {
    id: String,
    outputs: Vec<Output>,
    follow: bool,
    stamped: bool,
    plain: bool,
    until: Option<Timestamp>,
    /// Lines up to here have been read.
    read: Option<Timestamp>,
    tail: Option<usize>,
}

/// `GET /containers/{id}/logs`.
pub(super) fn logs(shared: &Arc<Shared>, asked: &Asked, reference: &str) -> Result<Answer, Refusal> {
    let (id, plain) = shared.look(|world, _| {
        let container = world.find(reference)?;
        let tty = container.config.get("Tty").and_then(serde_json::Value::as_bool).unwrap_or(false);
        Ok::<_, Refusal>((container.id.clone(), tty))
    })?;
    let outputs = [("stdout", Output::Out), ("stderr", Output::Error)];
    let reader = Reader {
        id,
        plain,
        outputs: outputs
            .into_iter()
            .filter(|(name, _)| asked.is_on(name))
            .map(|(_, output)| output)
            .collect(),
        follow: asked.is_on("follow"),
        stamped: asked.is_on("timestamps"),
        until: time(asked, "until")?,
        read: time(asked, "since")?.and_then(|since| since.checked_sub(Duration::from_nanos(1)).ok()),
        tail: asked.text("tail").and_then(|tail| tail.parse().ok()),
    };
    if reader.outputs.is_empty() {
        return Err(Refusal::new(400, "Bad parameters: you must choose at least one stream"));
    }
    Ok(body_of(Some((Arc::clone(shared), reader)), |state| async move {
        let (shared, mut reader) = state?;
        let mut changes = shared.changes();
        loop {
            let found = shared.look(|world, now| {
                let container = world.find(&reader.id).ok()?;
                let ended = !container.phase.is_up();
                Some((container.log(now), ended, container.next_word(now)))
            });
            let (lines, ended, next_word) = found.unwrap_or((Vec::new(), true, None));
            let piece = reader.take(&lines);
            let last = !reader.follow || ended;
            if !piece.is_empty() {
                return Some((piece, (!last).then_some((shared, reader))));
            }
            if last {
                return None;
            }
            let word = async {
                match next_word {
                    Some(at) => shared.clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = word => {}
                told = changes.changed() => if told.is_err() { return None },
            }
        }
    }))
}

impl Reader {
    /// The lines that were not read yet, as the engine frames them.
    fn take(&mut self, lines: &[LogLine]) -> Bytes {
        let wanted = |line: &&LogLine| {
            self.outputs.contains(&line.output)
                && self.read.is_none_or(|read| line.at > read)
                && self.until.is_none_or(|until| line.at <= until)
        };
        // Only what was there at the beginning is cut short, before anybody asks which output a line belongs to.
        let surplus = self.tail.take().map_or(0, |tail| lines.len().saturating_sub(tail));
        let fitting: Vec<&LogLine> = lines.iter().skip(surplus).filter(wanted).collect();
        self.read = lines.last().map(|line| line.at).max(self.read);
        let mut bytes = Vec::new();
        for line in fitting {
            let stamp = if self.stamped { format!("{} ", line.at) } else { String::new() };
            let text = format!("{stamp}{}\n", line.line);
            if !self.plain {
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
                bytes.extend([if line.output == Output::Out { 1 } else { 2 }, 0, 0, 0]);
                bytes.extend(length);
            }
            bytes.extend(text.as_bytes());
        }
        Bytes::from(bytes)
    }
}

/// `GET /containers/{id}/stats`: one sample, or one after the other.
pub(super) fn stats(shared: &Arc<Shared>, asked: &Asked, reference: &str) -> Result<Answer, Refusal> {
    let id = shared.look(|world, _| world.find(reference).map(|container| container.id.clone()))?;
    let (stream, one_shot) = (asked.is_on_or("stream", true), asked.is_on("one-shot"));
    let state = Some((Arc::clone(shared), id, None::<Timestamp>));
    Ok(body_of(state, move |state| async move {
        let (shared, id, last) = state?;
        if let Some(due) = last.and_then(|last| last.checked_add(SAMPLE).ok()) {
            shared.clock.sleep_until(due).await;
        }
        let (sample, now) = shared.look(|world, now| {
            let before = if one_shot { None } else { last.or(now.checked_sub(SAMPLE).ok()) };
            Some((json::stats(world.find(&id).ok()?, now, before), now))
        })?;
        let next = stream.then_some((shared, id, Some(now)));
        Some((Bytes::from(format!("{sample}\n")), next))
    }))
}
