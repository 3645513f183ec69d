//! The checks of a profile's HTTP section: an application that is asked for its sessions.

use toml::Spanned;

use super::check::{Checker, time_format};
use super::raw::{OneOrMany, RawHttp, RawRequest};
use crate::document::DocumentError;
use crate::domain::profile::record::{Mapping, Value};
use crate::domain::profile::{HttpKey, HttpRequest, HttpRows, HttpRule, StoreKind, StoreRule};

/// `must_tell_life`: nothing but the answers could say which sessions are live.
pub(super) fn rule(
    checker: &Checker<'_>,
    raw: &RawHttp,
    must_tell_life: bool,
) -> Result<StoreRule, DocumentError> {
    let document = checker.document;
    let url = raw.url.get_ref();
    if !url.starts_with("http://") {
        let what = format!("`{url}` is not an address that can be asked");
        let fix = "write one of this machine, such as \"http://127.0.0.1:3333\"";
        return Err(document.error(raw.url.span(), "sessions.http.url", what, fix));
    }
    checker.not_empty("sessions.http.requests", &raw.requests, "what is to be asked")?;
    let requests: Vec<HttpRequest> =
        raw.requests.get_ref().iter().map(|raw| request(checker, raw)).collect::<Result<_, _>>()?;
    let tells_life = requests.iter().any(|request| match &request.yields {
        HttpRows::Live(_) => true,
        HttpRows::Sessions(mapping) => mapping.live.is_some(),
    });
    if must_tell_life && !tells_life {
        let fix = "add `live` or `live_ids` to a request, or `live_within` to `[sessions]`";
        let what = "does not say which sessions are live";
        return Err(document.error(raw.requests.span(), "sessions.http.requests", what, fix));
    }
    let serves = raw.serves.iter().map(|name| checker.pattern("sessions.http.serves", name));
    let key = raw.key.as_ref().map(|key| HttpKey {
        header: key.header.clone(),
        prefix: key.prefix.clone(),
        variable: key.variable.clone(),
    });
    Ok(StoreRule {
        serves: serves.collect::<Result<_, _>>()?,
        kind: StoreKind::Http(HttpRule { url: url.clone(), key, times: time_format(raw.times), requests }),
    })
}

fn request(checker: &Checker<'_>, raw: &RawRequest) -> Result<HttpRequest, DocumentError> {
    let path = raw.path.get_ref();
    if !path.starts_with('/') {
        let what = format!("`{path}` does not begin with a slash");
        return Err(checker.document.error(
            raw.path.span(),
            "path",
            what,
            "write one, such as \"/api/sessions\"",
        ));
    }
    let yields = match &raw.live_ids {
        Some(ids) => HttpRows::Live(value(checker, "live_ids", ids)?),
        None => HttpRows::Sessions(Box::new(mapping(checker, raw)?)),
    };
    Ok(HttpRequest { path: path.clone(), rows: raw.rows.clone(), most: raw.most, yields })
}

fn mapping(checker: &Checker<'_>, raw: &RawRequest) -> Result<Mapping, DocumentError> {
    let column =
        |key: &str, raw: Option<&Spanned<OneOrMany>>| raw.map(|raw| value(checker, key, raw)).transpose();
    if raw.id.is_none() {
        let fix = "add `id = \"{…}\"`, the session's own id, or `live_ids`";
        return Err(checker.document.error(raw.path.span(), "id", "is missing", fix));
    }
    Ok(Mapping {
        id: column("id", raw.id.as_ref())?,
        workspace: column("workspace", raw.workspace.as_ref())?,
        container: column("container", raw.container.as_ref())?,
        title: column("title", raw.title.as_ref())?,
        started_at: column("started_at", raw.started_at.as_ref())?,
        last_activity_at: column("last_activity_at", raw.last_activity_at.as_ref())?,
        ended_at: column("ended_at", raw.ended_at.as_ref())?,
        live: column("live", raw.live.as_ref())?,
    })
}

fn value(checker: &Checker<'_>, key: &str, raw: &Spanned<OneOrMany>) -> Result<Value, DocumentError> {
    let parsed = match raw.get_ref() {
        OneOrMany::One(text) => Value::parse([text.as_str()]),
        OneOrMany::Many(texts) => Value::parse(texts.iter().map(String::as_str)),
    };
    let fix = "write a text with fields of the answer, such as \"box-{boxId}\"";
    parsed.map_err(|what| checker.document.error(raw.span(), key, what, fix))
}
