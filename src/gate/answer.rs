//! Answers: documents whole, without their secrets; logs and statistics as they come; events line by line.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use super::document::{self, Documents};
use super::request::{Asked, Question, Reference};
use super::serve::{Body, sentence};
use super::upstream::{Answer, NoAnswer, ask};
use super::{BESIDE, Gate, HEADER};
use crate::domain::ContainerId;
use crate::watch::place::Place;

/// The largest document that passes.
const LARGEST: usize = 64 * 1024 * 1024;
/// The largest word of refusal from the engine.
const LARGEST_REFUSAL: usize = 64 * 1024;
/// The longest event.
const LONGEST_LINE: usize = 1024 * 1024;
/// How long a whole document may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// What clients may know of the engine's headers; the docker command line asks for the first ones.
const HEADERS: [&str; 5] = ["api-version", "docker-experimental", "ostype", "server", "libpod-api-version"];

pub(super) async fn answer(gate: &Arc<Gate>, asked: &Asked) -> Result<Response<Body>, NoAnswer> {
    match &asked.question {
        Question::Inspect(name) | Question::Logs(name) | Question::Stats(name) | Question::Top(name)
            if gate.only.is_some() =>
        {
            // By its full id from here on: a name may soon be another container's.
            let id = visible(gate, asked, name).await?;
            pass(gate, &asked.about(&id)).await
        }
        Question::Exec(_) if gate.only.is_some() => {
            let (parts, held) = whole(gate, ask(&gate.engine, asked).await?, LARGEST).await?;
            let container = document::container_of_command(&held.bytes)
                .and_then(|id| Reference::segment(&id))
                .filter(|_| parts.status.is_success())
                .ok_or_else(|| NoAnswer::new(404, "No such exec instance"))?;
            visible(gate, asked, &container).await?;
            pass(gate, asked).await
        }
        _ => pass(gate, asked).await,
    }
}

/// The id of a container that clients may know of.
async fn visible(gate: &Arc<Gate>, asked: &Asked, name: &Reference) -> Result<ContainerId, NoAnswer> {
    let unknown = || NoAnswer::new(404, format!("No such container: {}", name.as_str()));
    let (parts, held) = whole(gate, ask(&gate.engine, &asked.inspection_of(name)).await?, LARGEST).await?;
    if !parts.status.is_success() {
        return Err(unknown());
    }
    Documents::of(gate).visible_id(&held.bytes).ok_or_else(unknown)
}

/// Asks the engine and passes its answer on.
async fn pass(gate: &Arc<Gate>, asked: &Asked) -> Result<Response<Body>, NoAnswer> {
    let answer = ask(&gate.engine, asked).await?;
    if !answer.response.status().is_success() {
        return refusal_of_the_engine(gate, answer).await;
    }
    match &asked.question {
        _ if asked.method() == Method::HEAD => {
            let empty = Empty::new().map_err(|never| match never {}).boxed_unsync();
            Ok(with_headers(&answer.response.into_parts().0, empty, None))
        }
        Question::Logs(_) | Question::Stats(_) => Ok(streamed(answer)),
        Question::Events => Ok(events(gate, answer)),
        Question::Ping => {
            let mut answer = document(gate, answer, Kind::Word).await?;
            if Place::has_engine(&gate.engine).await {
                answer.headers_mut().insert(HEADER, HeaderValue::from_static(BESIDE));
            }
            Ok(answer)
        }
        Question::List => document(gate, answer, Kind::List).await,
        _ => document(gate, answer, Kind::Object).await,
    }
}

/// What a whole document is.
#[derive(Clone, Copy)]
enum Kind {
    /// `OK`.
    Word,
    List,
    Object,
}

async fn document(gate: &Arc<Gate>, answer: Answer, kind: Kind) -> Result<Response<Body>, NoAnswer> {
    let limit = if matches!(kind, Kind::Word) { LARGEST_REFUSAL } else { LARGEST };
    let (parts, held) = whole(gate, answer, limit).await?;
    if matches!(kind, Kind::Word) {
        // Asked all the time, and nothing to take out: it waits for nobody's lists.
        let body = Full::new(Bytes::from(held.bytes)).map_err(|never| match never {});
        return Ok(with_headers(&parts, body.boxed_unsync(), None));
    }
    let documents = Arc::clone(gate);
    // The bytes take their room along: a client that hangs up gives back none of it before they are gone.
    let work = tokio::task::spawn_blocking(move || {
        let Held { bytes, room } = held;
        let documents = Documents::of(&documents);
        let told = if matches!(kind, Kind::List) { documents.list(&bytes) } else { documents.object(&bytes) };
        told.map(|told| (told, room))
    });
    let told = AbortOnDropHandle::new(work).await.ok().flatten();
    let (told, room) = told.ok_or_else(|| NoAnswer::new(502, "the engine's answer is not intelligible"))?;
    let body = Full::new(Bytes::from(told)).map_err(|never| match never {});
    // The room is given back when the last byte has gone.
    let body = body.map_frame(move |frame| {
        let _held = &room;
        frame
    });
    Ok(with_headers(&parts, body.boxed_unsync(), None))
}

async fn refusal_of_the_engine(gate: &Arc<Gate>, answer: Answer) -> Result<Response<Body>, NoAnswer> {
    let (parts, held) = whole(gate, answer, LARGEST_REFUSAL).await?;
    let words = Documents::of(gate).refusal(&held.bytes);
    Ok(sentence(parts.status.as_u16(), &words))
}

/// Bytes and the room they take.
struct Held {
    bytes: Vec<u8>,
    /// Small answers take none.
    room: Option<OwnedSemaphorePermit>,
}

/// Reads an answer whole.
async fn whole(
    gate: &Gate,
    answer: Answer,
    limit: usize,
) -> Result<(hyper::http::response::Parts, Held), NoAnswer> {
    let Answer { response, connection: _connection } = answer;
    let (parts, mut body) = response.into_parts();
    let read = async {
        let mut held = Held { bytes: Vec::new(), room: None };
        while let Some(frame) = body.frame().await {
            let cut =
                |error: hyper::Error| NoAnswer::new(502, format!("the engine's answer broke off: {error}"));
            let Ok(data) = frame.map_err(cut)?.into_data() else { continue };
            if held.bytes.len() + data.len() > limit {
                return Err(NoAnswer::new(502, "the engine's answer is too large"));
            }
            held.bytes.extend_from_slice(&data);
            let taken = held.room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let missing = (held.bytes.len() / 1024 + 1).saturating_sub(taken);
            if missing > 0 && limit > LARGEST_REFUSAL {
                let more = take_room(&gate.room, missing)?;
                match &mut held.room {
                    Some(room) => room.merge(more),
                    None => held.room = Some(more),
                }
            }
        }
        Ok(held)
    };
    let late = |_| NoAnswer::new(504, "the engine did not finish its answer in time");
    let held = tokio::time::timeout(PATIENCE, read).await.map_err(late)??;
    Ok((parts, held))
}

fn take_room(room: &Arc<Semaphore>, kibibytes: usize) -> Result<OwnedSemaphorePermit, NoAnswer> {
    let full = || NoAnswer::new(503, "too much is asked for at once here; try again later");
    let kibibytes = u32::try_from(kibibytes).map_err(|_| full())?;
    Arc::clone(room).try_acquire_many_owned(kibibytes).map_err(|_| full())
}

/// The answer as it comes, piece by piece.
fn streamed(answer: Answer) -> Response<Body> {
    let Answer { response, connection } = answer;
    let (head, body) = response.into_parts();
    let pieces = stream::unfold((body, connection), |(mut body, connection)| async move {
        let piece = next_piece(&mut body).await?;
        Some((piece.map(Frame::data), (body, connection)))
    });
    let kind = head.headers.get(CONTENT_TYPE).cloned();
    with_headers(&head, StreamBody::new(pieces).boxed_unsync(), kind)
}

async fn next_piece(body: &mut Incoming) -> Option<io::Result<Bytes>> {
    loop {
        match body.frame().await? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(error) => return Some(Err(io::Error::other(error))),
        }
    }
}

/// Events, each on a line of its own, as soon as the line is whole.
fn events(gate: &Arc<Gate>, answer: Answer) -> Response<Body> {
    let Answer { response, connection } = answer;
    let (head, body) = response.into_parts();
    let start = (body, connection, Vec::new(), Arc::clone(gate));
    let pieces = stream::unfold(start, |(mut body, connection, mut rest, gate)| async move {
        loop {
            let piece = match next_piece(&mut body).await? {
                Ok(piece) => piece,
                Err(error) => return Some((Err(error), (body, connection, rest, gate))),
            };
            rest.extend_from_slice(&piece);
            let told = told_of(&gate, &mut rest);
            if rest.len() > LONGEST_LINE {
                let error = io::Error::other("an event is too long");
                return Some((Err(error), (body, connection, Vec::new(), gate)));
            }
            if !told.is_empty() {
                return Some((Ok(Frame::data(Bytes::from(told))), (body, connection, rest, gate)));
            }
        }
    });
    with_headers(&head, StreamBody::new(pieces).boxed_unsync(), None)
}

/// Takes the whole lines out of `rest`, and returns what clients may know of them.
fn told_of(gate: &Gate, rest: &mut Vec<u8>) -> Vec<u8> {
    let mut told = Vec::new();
    let Some(last) = rest.iter().rposition(|byte| *byte == b'\n') else { return told };
    let documents = Documents::of(gate);
    for line in rest[..last].split(|byte| *byte == b'\n') {
        if let Some(event) = documents.event(line) {
            told.extend_from_slice(&event);
            told.push(b'\n');
        }
    }
    rest.drain(..=last);
    told
}

fn with_headers(
    head: &hyper::http::response::Parts,
    body: Body,
    kind: Option<HeaderValue>,
) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    let headers = response.headers_mut();
    for name in HEADERS {
        if let Some(value) = head.headers.get(name) {
            headers.insert(HeaderName::from_static(name), value.clone());
        }
    }
    let usual = head.headers.get(CONTENT_TYPE).cloned();
    let usual = usual.unwrap_or_else(|| HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_TYPE, kind.unwrap_or(usual));
    headers.insert(HEADER, HeaderValue::from_static("1"));
    response
}
