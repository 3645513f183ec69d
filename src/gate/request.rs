//! What may be asked through the gate. A request is taken apart and put together anew, so that nothing reaches the
//! engine but what these types can say.

use std::fmt;

use thiserror::Error;

use super::parameters::{encoded, parameters_of};

/// The longest request target that is looked at.
pub(super) const LONGEST_TARGET: usize = 8 * 1024;
/// The longest name, id or image reference.
const LONGEST_REFERENCE: usize = 512;
/// The newest minor version of the API there may ever be.
const LARGEST_MINOR: u8 = 99;

/// A question that may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whether only the head of the answer is wanted.
    head_only: bool,
    /// The minor number of the API version, if one was named; the major one is 1.
    version: Option<u8>,
    /// What is asked.
    pub question: Question,
    /// Its parameters, checked, by their values before any encoding.
    parameters: Vec<(&'static str, String)>,
}

/// Everything that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// `/_ping`.
    Ping,
    /// `/version`.
    Version,
    /// `/info`.
    Info,
    /// `/containers/json`.
    List,
    /// `/containers/{name}/json`.
    Inspect(Reference),
    /// `/containers/{name}/logs`.
    Logs(Reference),
    /// `/containers/{name}/stats`.
    Stats(Reference),
    /// `/containers/{name}/top`.
    Top(Reference),
    /// `/exec/{id}/json`: whether a command still runs, which is a sign of life.
    Exec(Reference),
    /// `/images/{name}/json`.
    Image(Reference),
    /// `/events`.
    Events,
}

/// The name or id of a container, a command or an image, of harmless characters only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference(String);

impl Reference {
    /// A container or a command: one segment.
    pub(super) fn segment(text: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        let well_formed = text.len() <= LONGEST_REFERENCE
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.bytes().all(plain)
            && !text.contains("..");
        well_formed.then(|| Self(text.to_owned()))
    }

    /// An image: several segments, a tag, a digest.
    fn image(text: &str) -> Option<Self> {
        let plain = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'+' | b':' | b'@')
        };
        let segment = |segment: &str| {
            segment.starts_with(|first: char| first.is_ascii_alphanumeric())
                && segment.bytes().all(plain)
                && !segment.contains("..")
        };
        (text.len() <= LONGEST_REFERENCE && text.split('/').all(segment)).then(|| Self(text.to_owned()))
    }

    /// As it was asked.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a request does not pass.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Not a question.
    #[error("this socket is read-only: {0} requests are refused, only GET passes, and HEAD for /_ping")]
    Method(String),
    /// The target is not a plain path.
    #[error("the path is not plain: {0}")]
    Target(&'static str),
    /// The version is not one of the Engine API.
    #[error("`{0}` is not a version of the engine's API")]
    Version(String),
    /// Not on the list.
    #[error(
        "this socket is read-only and answers only ping, version, info, the list of containers, their inspection, \
         logs, stats, top and commands, image inspection and events"
    )]
    NotListed,
    /// Logs were switched off.
    #[error("this socket keeps the logs of containers to itself")]
    NoLogs,
    /// A parameter that this question does not have here.
    #[error("the parameter `{0}` does not pass this socket")]
    Parameter(String),
    /// A parameter whose value is not one.
    #[error("the parameter `{0}` has a value that does not pass this socket")]
    Value(&'static str),
    /// A question has no body.
    #[error("a request with a body does not pass this socket")]
    Body,
    /// The connection would become something else.
    #[error("a connection cannot be upgraded or taken over on this socket")]
    Upgrade,
    /// Not HTTP/1.1.
    #[error("only HTTP/1.1 is spoken on this socket")]
    HttpVersion,
}

impl Asked {
    /// Reads a request line: the method and the target as they came.
    pub fn parse(method: &str, target: &str) -> Result<Self, Refusal> {
        let head_only = match method {
            "GET" => false,
            "HEAD" => true,
            other => return Err(Refusal::Method(other.chars().take(20).collect())),
        };
        if target.len() > LONGEST_TARGET {
            return Err(Refusal::Target("it is too long"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (version, segments) = segments_of(path)?;
        let question = question_of(&segments)?;
        if head_only && question != Question::Ping {
            return Err(Refusal::Method("HEAD".to_owned()));
        }
        let parameters = parameters_of(&question, query)?;
        Ok(Self { head_only, version, question, parameters })
    }

    /// `GET` or `HEAD`; there is nothing else.
    pub fn method(&self) -> hyper::Method {
        if self.head_only { hyper::Method::HEAD } else { hyper::Method::GET }
    }

    /// Whether the answer may begin only when something happens.
    pub(super) fn may_wait_for_news(&self) -> bool {
        let says = |name: &str, value: &str| self.parameters.iter().any(|it| it.0 == name && it.1 == value);
        match self.question {
            Question::Logs(_) => says("follow", "1"),
            Question::Stats(_) => !says("stream", "0"),
            Question::Events => true,
            _ => false,
        }
    }

    /// The same question about a container by its full id.
    #[must_use]
    pub(super) fn about(&self, id: &crate::domain::ContainerId) -> Self {
        let reference = Reference(id.as_str().to_owned());
        let question = match &self.question {
            Question::Inspect(_) => Question::Inspect(reference),
            Question::Logs(_) => Question::Logs(reference),
            Question::Stats(_) => Question::Stats(reference),
            Question::Top(_) => Question::Top(reference),
            other => other.clone(),
        };
        Self { question, ..self.clone() }
    }

    /// The inspection of a container, in the same version.
    #[must_use]
    pub(super) fn inspection_of(&self, container: &Reference) -> Self {
        Self {
            head_only: false,
            version: self.version,
            question: Question::Inspect(container.clone()),
            parameters: Vec::new(),
        }
    }

    /// The path and query that are sent to the engine.
    pub fn target(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(minor) = self.version {
            write!(f, "/v1.{minor}")?;
        }
        match &self.question {
            Question::Ping => f.write_str("/_ping"),
            Question::Version => f.write_str("/version"),
            Question::Info => f.write_str("/info"),
            Question::List => f.write_str("/containers/json"),
            Question::Inspect(Reference(name)) => write!(f, "/containers/{name}/json"),
            Question::Logs(Reference(name)) => write!(f, "/containers/{name}/logs"),
            Question::Stats(Reference(name)) => write!(f, "/containers/{name}/stats"),
            Question::Top(Reference(name)) => write!(f, "/containers/{name}/top"),
            Question::Exec(Reference(id)) => write!(f, "/exec/{id}/json"),
            Question::Image(Reference(name)) => write!(f, "/images/{name}/json"),
            Question::Events => f.write_str("/events"),
        }?;
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            let before = if index == 0 { '?' } else { '&' };
            write!(f, "{before}{name}={}", encoded(value))?;
        }
        Ok(())
    }
}

/// The segments of a path of harmless characters, without the version.
fn segments_of(path: &str) -> Result<(Option<u8>, Vec<&str>), Refusal> {
    let Some(relative) = path.strip_prefix('/') else {
        return Err(Refusal::Target("it must begin with a slash"));
    };
    if path.contains('%') {
        return Err(Refusal::Target("encoded characters have no place in it"));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.-+:@".contains(&byte);
    if !relative.bytes().all(plain) {
        return Err(Refusal::Target("it has characters that no path of the engine has"));
    }
    let mut segments: Vec<&str> = relative.split('/').collect();
    if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
        return Err(Refusal::Target("it has an empty segment, `.` or `..`"));
    }
    let first = segments[0];
    let versioned = first.len() > 1 && first.starts_with('v') && first.as_bytes()[1].is_ascii_digit();
    if !versioned {
        return Ok((None, segments));
    }
    let minor = first.strip_prefix("v1.").filter(|minor| minor.len() == 1 || !minor.starts_with('0'));
    let minor = minor.filter(|minor| minor.bytes().all(|byte| byte.is_ascii_digit()));
    match minor.and_then(|minor| minor.parse().ok()).filter(|minor| *minor <= LARGEST_MINOR) {
        Some(minor) => {
            segments.remove(0);
            Ok((Some(minor), segments))
        }
        None => Err(Refusal::Version(first.chars().take(20).collect())),
    }
}

fn question_of(segments: &[&str]) -> Result<Question, Refusal> {
    let reference = |text: &str| Reference::segment(text).ok_or(Refusal::NotListed);
    Ok(match segments {
        ["_ping"] => Question::Ping,
        ["version"] => Question::Version,
        ["info"] => Question::Info,
        ["events"] => Question::Events,
        ["containers", "json"] => Question::List,
        ["containers", name, "json"] => Question::Inspect(reference(name)?),
        ["containers", name, "logs"] => Question::Logs(reference(name)?),
        ["containers", name, "stats"] => Question::Stats(reference(name)?),
        ["containers", name, "top"] => Question::Top(reference(name)?),
        ["exec", id, "json"] => Question::Exec(reference(id)?),
        ["images", name @ .., "json"] if !name.is_empty() => {
            Question::Image(Reference::image(&name.join("/")).ok_or(Refusal::NotListed)?)
        }
        _ => return Err(Refusal::NotListed),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/_ping", "/_ping")]
    #[case("/v1.41/containers/json", "/v1.41/containers/json")]
    #[case("/containers/json?all=true", "/containers/json?all=1")]
    #[case("/v1.41/containers/json?size=0&limit=5", "/v1.41/containers/json?size=0&limit=5")]
    #[case("/containers/atlas-1_a.b/json", "/containers/atlas-1_a.b/json")]
    #[case(
        "/containers/x/logs?follow=1&stderr=1&stdout=1&tail=all&since=1700000000.000000001",
        "/containers/x/logs?follow=1&stderr=1&stdout=1&tail=all&since=1700000000.000000001"
    )]
    #[case("/containers/x/stats?stream=false&one-shot=true", "/containers/x/stats?stream=0&one-shot=1")]
    #[case("/containers/json/json", "/containers/json/json")]
    #[case("/images/registry:5000/a/b@sha256:1234/json", "/images/registry:5000/a/b@sha256:1234/json")]
    #[case("/exec/0123abcd/json", "/exec/0123abcd/json")]
    #[case(
        "/containers/x/top?ps_args=-eo%20pid,ppid,sid,stat,etime,args",
        "/containers/x/top?ps_args=-eo%20pid%2Cppid%2Csid%2Cstat%2Cetime%2Cargs"
    )]
    #[case(
        "/events?filters=%7B%22type%22%3A%5B%22container%22%5D%7D",
        "/events?filters=%7B%22type%22%3A%5B%22container%22%5D%7D"
    )]
    fn what_may_be_asked_is_asked_in_one_form(#[case] target: &str, #[case] sent: &str) {
        assert_eq!(Asked::parse("GET", target).unwrap().target(), sent);
    }

    #[rstest]
    #[case("/containers/x/logs?follow=1&stdout=1", true)]
    #[case("/containers/x/logs?stdout=1", false)]
    #[case("/containers/x/stats", true)]
    #[case("/containers/x/stats?stream=false", false)]
    #[case("/events", true)]
    #[case("/containers/json", false)]
    #[case("/containers/x/json", false)]
    #[case("/_ping", false)]
    fn only_news_may_take_their_time(#[case] target: &str, #[case] may_wait: bool) {
        assert_eq!(Asked::parse("GET", target).unwrap().may_wait_for_news(), may_wait);
    }

    #[rstest]
    #[case("/containers/create")]
    #[case("/containers/x/archive?path=/etc")]
    #[case("/containers/x/export")]
    #[case("/containers/x/attach/ws")]
    #[case("/containers/x/changes")]
    #[case("/images/json")]
    #[case("/images/x/get")]
    #[case("/images/get?names=x")]
    #[case("/images/search?term=x")]
    #[case("/libpod/containers/json")]
    #[case("/secrets")]
    #[case("/swarm/unlockkey")]
    #[case("/")]
    #[case("")]
    #[case("*")]
    #[case("//containers/json")]
    #[case("/containers//json")]
    #[case("/containers/json/")]
    #[case("/containers/../containers/json")]
    #[case("/containers/./json")]
    #[case("/containers/x/../../secrets/json")]
    #[case("/containers/..%2fsecrets/json")]
    #[case("/containers/%2e%2e/json")]
    #[case("/containers/x%2farchive/json")]
    #[case("/containers/x;y/json")]
    #[case("/containers/-x/json")]
    #[case("/containers/x\\y/json")]
    #[case("/containers/größe/json")]
    #[case("/images/../../secrets/json")]
    #[case("/images//json")]
    #[case("/v1.041/info")]
    #[case("/v1.41.0/info")]
    #[case("/v2.0/info")]
    #[case("/v01.41/info")]
    #[case("/V1.41/info")]
    #[case("/v1./info")]
    #[case("/v1.100/info")]
    #[case("/v1.41/v1.41/info")]
    #[case("/containers/json?size=1")]
    #[case("/containers/json?all=1&all=0")]
    #[case("/containers/json?unknown=1")]
    #[case("/containers/json?filters=%7B%22before%22%3A%5B%22x%22%5D%7D")]
    #[case("/containers/json?filters=%00")]
    #[case("/containers/json?filters=%7")]
    #[case("/containers/json?limit=1e9")]
    #[case("/containers/x/logs?details=1")]
    #[case("/containers/x/top?ps_args=auxe")]
    #[case("/containers/x/logs?tail=%0d%0aX")]
    fn nothing_else_passes(#[case] target: &str) {
        assert!(Asked::parse("GET", target).is_err(), "{target}");
    }

    #[test]
    fn only_questions_pass() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE", "get", "GETX", ""] {
            let refusal = Asked::parse(method, "/containers/json").unwrap_err();
            assert!(refusal.to_string().contains("read-only"), "{refusal}");
        }
        assert!(Asked::parse("HEAD", "/_ping").is_ok());
        assert!(Asked::parse("HEAD", "/containers/x/archive?path=/").is_err());
        assert!(Asked::parse("HEAD", "/containers/json").is_err());
    }

    #[test]
    fn what_is_sent_on_passes_again_as_it_is() {
        let target = "/v1.41/containers/json?all=1&filters=%7B%22label%22%3A%5B%22a%3Db%20c%26d%22%5D%7D";
        let asked = Asked::parse("GET", target).unwrap();
        assert_eq!(Asked::parse("GET", &asked.target()).unwrap(), asked);
    }
}
