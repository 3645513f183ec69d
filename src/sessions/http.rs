//! Asking the application itself for its sessions, over HTTP. Everything a profile asks for must be answered, in time and
//! in full; anything less is a fault.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::fault::StoreFault;
use super::record::{live_ids, sessions};
use super::sqlite::{Answer, Limits};
use crate::domain::Session;
use crate::domain::profile::{HttpKey, HttpRequest, HttpRows, HttpRule};

/// No list of sessions is larger.
const LARGEST_ANSWER: usize = 32 * 1024 * 1024;
/// How often the lists are asked for before they count as never the same.
const ROUNDS: usize = 3;
/// How long an answer serves whoever does not insist on a new one: the application has other things to do.
const KEPT: Duration = Duration::from_secs(2);

/// A reader of one application.
#[derive(Debug)]
pub(super) struct HttpReader {
    rule: HttpRule,
    /// Where it listens.
    url: String,
    /// Whether the operator named that place.
    named: bool,
    key: Option<String>,
    limits: Limits,
    last: Option<(Instant, Result<Answer, StoreFault>)>,
}

/// What one round of questions brought.
#[derive(Debug, Default)]
struct Round {
    all: Vec<Session>,
    live: BTreeSet<String>,
    /// Which session stood in which list.
    listed: BTreeSet<(usize, String)>,
}

impl HttpReader {
    pub(super) fn new(rule: HttpRule, named: Option<String>, key: Option<String>, limits: Limits) -> Self {
        let (named, url) = (named.is_some(), named.unwrap_or_else(|| rule.url.clone()));
        Self { rule, url, named, key, limits, last: None }
    }

    /// Where it listens, for messages.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Whether the operator named the place.
    pub(super) fn is_named(&self) -> bool {
        self.named
    }

    /// Gives up the last answer.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// The last answer if it is new enough, else a new one.
    pub(super) fn read_within(&mut self, time: Duration) -> Result<Answer, StoreFault> {
        if let Some((at, answer)) = &self.last
            && at.elapsed() < KEPT
        {
            return answer.clone();
        }
        let answer = self.ask(time);
        self.last = Some((Instant::now(), answer.clone()));
        answer
    }

    /// Whether the last read asked anew.
    pub(super) fn answered_since(&self, began: Instant) -> bool {
        self.last.as_ref().is_some_and(|(at, _)| *at >= began)
    }

    fn ask(&self, time: Duration) -> Result<Answer, StoreFault> {
        let failed = |error: std::io::Error| StoreFault::Failed(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let asked = runtime.block_on(async { tokio::time::timeout(time, self.ask_all()).await });
        // A name that takes its time to resolve must not hold this up.
        runtime.shutdown_background();
        asked.map_err(|_| StoreFault::TimedOut)?
    }

    async fn ask_all(&self) -> Result<Answer, StoreFault> {
        let place = place(&self.url, self.named)?;
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let mut round = self.round(&client, &place).await?;
        if self.rule.requests.len() > 1 {
            // Several lists are not one moment: a session that moves from one to another between two questions stands in
            // neither. What two rounds in a row say alike was so at one time between them.
            let mut agreed = false;
            for _ in 1..ROUNDS {
                let next = self.round(&client, &place).await?;
                agreed = next.listed == round.listed && next.live == round.live;
                round = next;
                if agreed {
                    break;
                }
            }
            if !agreed {
                let why = "its lists of sessions changed between any two of three looks; look again";
                return Err(StoreFault::Failed(why.to_owned()));
            }
        }
        let Round { mut all, live, .. } = round;
        if all.len() > self.limits.rows {
            return Err(StoreFault::TooManyRows(self.limits.rows));
        }
        for id in live {
            let mut known = all.iter_mut().filter(|session| session.id == id).peekable();
            if known.peek().is_none() {
                // Nobody could say which container it is in.
                return Err(StoreFault::Unlisted(id));
            }
            known.for_each(|session| session.declared_live = Some(true));
        }
        let sessions = Arc::new(all.into_iter().map(Arc::new).collect());
        Ok(Answer { sessions, variant: self.url.clone() })
    }

    /// Every list, once.
    async fn round(
        &self,
        client: &Client<HttpConnector, Empty<Bytes>>,
        place: &str,
    ) -> Result<Round, StoreFault> {
        let mut round = Round::default();
        for (number, request) in self.rule.requests.iter().enumerate() {
            let rows = self.rows(client, place, request).await?;
            match &request.yields {
                HttpRows::Sessions(mapping) => {
                    let sessions = sessions(&rows, mapping, self.rule.times)?;
                    round.listed.extend(sessions.iter().map(|session| (number, session.id.clone())));
                    round.all.extend(sessions);
                }
                HttpRows::Live(id) => round.live.extend(live_ids(&rows, id)?),
            }
        }
        Ok(round)
    }

    async fn rows(
        &self,
        client: &Client<HttpConnector, Empty<Bytes>>,
        place: &str,
        request: &HttpRequest,
    ) -> Result<Vec<Value>, StoreFault> {
        let url = format!("{place}{}", request.path);
        let uri: Uri =
            url.parse().map_err(|_| StoreFault::Unintelligible(format!("{url} is not an address")))?;
        let mut get = Request::get(uri).header(ACCEPT, "application/json");
        if let (Some(HttpKey { header, prefix, .. }), Some(key)) = (&self.rule.key, &self.key) {
            let unusable = || StoreFault::Failed("the key cannot be sent in a header".to_owned());
            let name = HeaderName::from_bytes(header.as_bytes()).map_err(|_| unusable())?;
            let mut value = HeaderValue::from_str(&format!("{prefix}{key}")).map_err(|_| unusable())?;
            value.set_sensitive(true);
            get = get.header(name, value);
        }
        let get = get.body(Empty::new()).map_err(|error| StoreFault::Failed(error.to_string()))?;
        let response =
            client.request(get).await.map_err(|error| StoreFault::Unreachable(innermost(&error)))?;
        let status = response.status();
        if !status.is_success() {
            return Err(StoreFault::Status { path: request.path.clone(), status: status.as_u16() });
        }
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => StoreFault::Unintelligible(format!("{} is too large", request.path)),
            None => StoreFault::Unreachable(format!("the answer broke off: {}", innermost(error.as_ref()))),
        })?;
        let answer: Value = serde_json::from_slice(&body.to_bytes())
            .map_err(|error| StoreFault::Unintelligible(format!("{} is no JSON: {error}", request.path)))?;
        let list = if request.rows.is_empty() { Some(answer) } else { answer.get(&request.rows).cloned() };
        let Some(Value::Array(rows)) = list else {
            let what = format!("{} has no list `{}`", request.path, request.rows);
            return Err(StoreFault::Unintelligible(what));
        };
        match request.most {
            Some(most) if rows.len() >= most => Err(StoreFault::TooManyRows(most)),
            _ => Ok(rows),
        }
    }
}

/// The address to ask: plain HTTP on this machine, unless the operator named another one himself.
fn place(url: &str, named: bool) -> Result<String, StoreFault> {
    let address = url.trim_end_matches('/');
    let uri = address.parse::<Uri>().ok().filter(|uri| uri.scheme_str() == Some("http"));
    // Whatever stands in front of an `@` only looks like the place that is asked.
    let plain = uri.filter(|uri| uri.authority().is_some_and(|authority| !authority.as_str().contains('@')));
    let Some(host) = plain.as_ref().and_then(Uri::host) else {
        return Err(StoreFault::NotSpoken(url.to_owned()));
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_here || named { Ok(address.to_owned()) } else { Err(StoreFault::NotHere(url.to_owned())) }
}

/// The last cause of an error, which says what happened.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked_unless_the_operator_says_otherwise() {
        for here in ["http://127.0.0.1:3333", "http://localhost:1/", "http://[::1]:3333", "http://127.9.9.9"]
        {
            assert!(place(here, false).is_ok(), "{here}");
        }
        for elsewhere in ["http://10.0.0.1:3333", "http://example.org", "http://127.0.0.1.example.org"] {
            assert_eq!(place(elsewhere, false), Err(StoreFault::NotHere(elsewhere.to_owned())));
            assert!(place(elsewhere, true).is_ok(), "{elsewhere}");
        }
        for strange in [
            "https://127.0.0.1:3333",
            "http://127.0.0.1:3333@example.org",
            "http://localhost@10.0.0.1",
            "http://",
        ] {
            assert_eq!(place(strange, true), Err(StoreFault::NotSpoken(strange.to_owned())));
            assert!(place(strange, false).is_err(), "{strange}");
        }
    }
}
