//! What each path of the API does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::filters::Filters;
use super::json as written;
use super::program::Signal;
use super::request::Asked;
use super::server::{Answer, Shared};
use super::world::{Refusal, Stop};
use super::{processes, streams};

/// How long a stop waits when nobody says.
const DEFAULT_GRACE: i64 = 10;

/// Does what is asked and answers.
pub(super) async fn answer(shared: &Arc<Shared>, asked: &Asked) -> Result<Response<Answer>, Refusal> {
    let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    let nothing = || Ok(empty(204));
    match (asked.method.as_str(), path.as_slice()) {
        ("GET" | "HEAD", ["_ping"]) => Ok(text(if asked.method == "HEAD" { "" } else { "OK" })),
        ("GET", ["version"]) => Ok(document(200, &written::version())),
        ("GET", ["info"]) => Ok(document(200, &shared.look(written::info))),
        ("GET", ["events"]) => Ok(stream(streams::events(shared, asked)?)),
        ("GET", ["containers", "json"]) => list(shared, asked),
        ("POST", ["containers", "create"]) => {
            let body = asked.json()?;
            let id = shared.act(|world, now| world.create(now, asked.text("name"), &body))?;
            Ok(document(201, &json!({ "Id": id, "Warnings": [] })))
        }
        ("GET", ["containers", id, "json"]) => shared.look(|world, _| {
            let inspected = written::inspect(world.find(id)?, asked.is_on("size"));
            Ok(document(200, &inspected))
        }),
        ("GET", ["containers", id, "logs"]) => Ok(stream(streams::logs(shared, asked, id)?)),
        ("GET", ["containers", id, "stats"]) => Ok(stream(streams::stats(shared, asked, id)?)),
        ("GET", ["containers", id, "changes"]) => {
            shared.look(|world, _| Ok(document(200, &written::changes(world.find(id)?))))
        }
        ("GET", ["containers", id, "top"]) => top(shared, asked, id),
        ("POST", ["containers", id, "start"]) => {
            shared.act(|world, now| world.start(now, id))?;
            nothing()
        }
        ("POST", ["containers", id, "stop"]) => stop(shared, asked, id).await,
        ("POST", ["containers", id, "kill"]) => {
            let name = asked.text("signal").filter(|name| !name.is_empty()).unwrap_or("KILL");
            let signal = Signal::parse(name);
            let signal = signal.ok_or_else(|| Refusal::new(400, format!("Invalid signal: {name}")))?;
            shared.act(|world, now| world.signal(now, id, signal))?;
            nothing()
        }
        ("POST", ["containers", id, "pause"]) => {
            shared.act(|world, now| world.pause(now, id))?;
            nothing()
        }
        ("POST", ["containers", id, "unpause"]) => {
            shared.act(|world, now| world.unpause(now, id))?;
            nothing()
        }
        ("POST", ["containers", id, "rename"]) => {
            shared.act(|world, now| world.rename(now, id, asked.text("name").unwrap_or_default()))?;
            nothing()
        }
        ("POST", ["containers", id, "wait"]) => wait(shared, id).await,
        ("DELETE", ["containers", id]) => {
            shared.act(|world, now| world.remove(now, id, asked.is_on("force")))?;
            nothing()
        }
        ("POST", ["containers", id, "exec"]) => {
            let body = asked.json()?;
            let words = body.get("Cmd").and_then(Value::as_array).into_iter().flatten();
            let command = words.filter_map(Value::as_str).map(str::to_owned).collect();
            let exec = shared.act(|world, now| world.create_exec(now, id, command))?;
            Ok(document(201, &json!({ "Id": exec })))
        }
        ("POST", ["exec", id, "start"]) => {
            let body = asked.json()?;
            if body.get("Detach") != Some(&Value::Bool(true)) {
                return Err(Refusal::new(400, "this simulated engine runs commands detached only"));
            }
            shared.act(|world, now| world.start_exec(now, id))?;
            Ok(empty(200))
        }
        ("GET", ["exec", id, "json"]) => {
            shared.look(|world, _| Ok(document(200, &written::exec(world.exec(id)?))))
        }
        ("GET", ["images", "json"]) => {
            let rows: Value = shared
                .look(|world, _| world.images().map(|image| written::image_row(world, image)).collect());
            Ok(document(200, &rows))
        }
        ("GET", ["images", name @ .., "json"]) => image(shared, &name.join("/")),
        _ => Err(Refusal::new(404, "page not found")),
    }
}

fn list(shared: &Shared, asked: &Asked) -> Result<Response<Answer>, Refusal> {
    let filters = Filters::parse(asked.text("filters"))?;
    let limit =
        asked.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    shared.look(|world, now| {
        let found = world.list(asked.is_on("all"), limit, &filters)?;
        let rows: Vec<Value> = found.into_iter().map(|it| written::row(world, it, now)).collect();
        Ok(document(200, &Value::Array(rows)))
    })
}

fn image(shared: &Shared, name: &str) -> Result<Response<Answer>, Refusal> {
    shared.look(|world, _| match world.image(name) {
        Some(image) => Ok(document(200, &written::image(world, image))),
        None => Err(Refusal::new(404, format!("no such image: {name}: No such image: {name}"))),
    })
}

fn top(shared: &Shared, asked: &Asked, reference: &str) -> Result<Response<Answer>, Refusal> {
    shared.act(|world, now| {
        let container = world.find(reference)?;
        let id = container.id.clone();
        let problem = match container.phase.word() {
            "running" | "paused" => None,
            "restarting" => Some("is restarting, wait until the container is running"),
            _ => Some("is not running"),
        };
        if let Some(problem) = problem {
            return Err(Refusal::new(409, format!("Container {id} {problem}")));
        }
        let processes = processes::top(world, container, asked.text("ps_args"), now)?;
        world.looked_at_processes(now, &id);
        Ok(document(200, &processes))
    })
}

/// Answers when the container is down, however long that takes.
async fn stop(shared: &Shared, asked: &Asked, reference: &str) -> Result<Response<Answer>, Refusal> {
    let seconds = asked.number("t")?.unwrap_or(DEFAULT_GRACE);
    // A negative grace means no limit.
    let grace = u64::try_from(seconds).ok().map(Duration::from_secs);
    let (id, stop) = shared.act(|world, now| {
        let id = world.find(reference)?.id.clone();
        let stop = world.stop(now, &id, grace)?;
        Ok::<_, Refusal>((id, stop))
    })?;
    if stop == Stop::NothingRuns {
        return Err(Refusal::not_modified());
    }
    until_down(shared, &id).await;
    Ok(empty(204))
}

async fn wait(shared: &Shared, reference: &str) -> Result<Response<Answer>, Refusal> {
    let id = shared.look(|world, _| world.find(reference).map(|container| container.id.clone()))?;
    let code = until_down(shared, &id).await;
    Ok(document(200, &json!({ "Error": null, "StatusCode": code })))
}

/// Waits until a container is down or gone; says its exit code.
async fn until_down(shared: &Shared, id: &str) -> i32 {
    let mut changes = shared.changes();
    loop {
        let down = shared.look(|world, _| match world.find(id) {
            Ok(container) if container.phase.is_up() => None,
            Ok(container) => Some(container.exit_code),
            Err(_) => Some(0),
        });
        if let Some(code) = down {
            return code;
        }
        if changes.changed().await.is_err() {
            return 0;
        }
    }
}

fn response(status: u16, content_type: &str, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(value) = hyper::header::HeaderValue::from_str(content_type)
        && !content_type.is_empty()
    {
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, value);
    }
    response
}

fn whole(bytes: impl Into<Bytes>) -> Answer {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

fn text(words: &'static str) -> Response<Answer> {
    response(200, "text/plain; charset=utf-8", whole(words))
}

fn empty(status: u16) -> Response<Answer> {
    response(status, "", whole(Bytes::new()))
}

fn stream(body: Answer) -> Response<Answer> {
    response(200, "application/json", body)
}

pub(super) fn document(status: u16, json: &Value) -> Response<Answer> {
    response(status, "application/json", whole(format!("{json}\n")))
}

/// A body that is not what it claims to be.
pub(super) fn instead(words: String) -> Response<Answer> {
    response(200, "application/json", whole(words))
}

pub(super) fn refusal(refusal: &Refusal) -> Response<Answer> {
    if refusal.status == 304 {
        return empty(304);
    }
    document(refusal.status, &json!({ "message": refusal.message }))
}
