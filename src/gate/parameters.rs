//! The parameters of a question: which there may be, and what their values may say.

use std::fmt;

use serde_json::Value;

use super::request::{Question, Refusal};
use crate::engine::{DOCKER_COLUMNS, PODMAN_COLUMNS};

/// How the value of a parameter is checked.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A yes or a no.
    Flag,
    /// A yes would cost too much, or show too much.
    NeverFlag,
    Number,
    /// The columns of a list of processes that sandkeeper itself asks for.
    Columns,
    /// Unix seconds or a date.
    Moment,
    /// The filters of a list.
    ListFilters,
    /// The filters of events.
    EventFilters,
}

/// In Docker's words and in Podman's. Others could show the environment of every process.
const COLUMNS: [&str; 2] = [DOCKER_COLUMNS, PODMAN_COLUMNS];

/// What a list may be filtered by. `before` and `since` would tell whether a hidden container exists.
const LIST_FILTERS: [&str; 8] = ["id", "name", "label", "status", "exited", "health", "ancestor", "is-task"];
const EVENT_FILTERS: [&str; 7] = ["type", "event", "container", "image", "label", "scope", "daemon"];

/// The parameters that a question may have. What is left out could show or cost too much: `details` of logs and most
/// `ps_args` of top can show environments, `size` takes minutes.
fn known_parameters(question: &Question) -> &'static [(&'static str, Kind)] {
    match question {
        Question::List => &[
            ("all", Kind::Flag),
            ("limit", Kind::Number),
            ("size", Kind::NeverFlag),
            ("filters", Kind::ListFilters),
        ],
        Question::Inspect(_) => &[("size", Kind::NeverFlag)],
        Question::Logs(_) => &[
            ("follow", Kind::Flag),
            ("stdout", Kind::Flag),
            ("stderr", Kind::Flag),
            ("timestamps", Kind::Flag),
            ("details", Kind::NeverFlag),
            ("since", Kind::Moment),
            ("until", Kind::Moment),
            ("tail", Kind::Moment),
        ],
        Question::Top(_) => &[("ps_args", Kind::Columns)],
        Question::Stats(_) => &[("stream", Kind::Flag), ("one-shot", Kind::Flag)],
        Question::Events => {
            &[("since", Kind::Moment), ("until", Kind::Moment), ("filters", Kind::EventFilters)]
        }
        Question::Ping | Question::Version | Question::Info | Question::Exec(_) | Question::Image(_) => &[],
    }
}

/// The parameters of a query, each once, by their values before any encoding.
pub(super) fn parameters_of(
    question: &Question,
    query: &str,
) -> Result<Vec<(&'static str, String)>, Refusal> {
    let known = known_parameters(question);
    let mut parameters: Vec<(&'static str, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let shown = || name.chars().take(40).collect::<String>();
        let Some((name, kind)) = known.iter().find(|(known, _)| *known == name).copied() else {
            return Err(Refusal::Parameter(shown()));
        };
        if parameters.iter().any(|(other, _)| *other == name) {
            return Err(Refusal::Parameter(shown()));
        }
        let value = decoded(value).and_then(|value| checked(kind, &value)).ok_or(Refusal::Value(name))?;
        parameters.push((name, value));
    }
    Ok(parameters)
}

/// The value in the one form in which it is sent on; `None` if it is not one.
fn checked(kind: Kind, value: &str) -> Option<String> {
    let truth = || match value {
        "1" | "true" | "True" => Some(true),
        "" | "0" | "false" | "False" => Some(false),
        _ => None,
    };
    match kind {
        Kind::Flag => Some(if truth()? { "1" } else { "0" }.to_owned()),
        Kind::NeverFlag => (!truth()?).then(|| "0".to_owned()),
        Kind::Columns => COLUMNS.contains(&value).then(|| value.to_owned()),
        Kind::Number => {
            let digits = value.strip_prefix('-').unwrap_or(value);
            let plain = digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| value.to_owned())
        }
        Kind::Moment => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-+:.".contains(&byte);
            (value.len() <= 40 && value.bytes().all(plain)).then(|| value.to_owned())
        }
        Kind::ListFilters => filters(value, &LIST_FILTERS),
        Kind::EventFilters => filters(value, &EVENT_FILTERS),
    }
}

/// `{"label":["a=b"]}`, or the older `{"label":{"a=b":true}}`.
fn filters(value: &str, known: &[&str]) -> Option<String> {
    if value.is_empty() {
        return Some(String::new());
    }
    let parsed: Value = serde_json::from_str(value).ok()?;
    let well_formed = parsed.as_object()?.iter().all(|(name, values)| {
        known.contains(&name.as_str())
            && match values {
                Value::Array(values) => values.iter().all(Value::is_string),
                Value::Object(values) => values.values().all(Value::is_boolean),
                _ => false,
            }
    });
    well_formed.then(|| parsed.to_string())
}

/// Undoes percent encoding; `None` for what is not valid, not UTF-8 or not printable.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// A value as it stands in a query.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = fmt::Write::write_fmt(&mut encoded, format_args!("%{byte:02X}"));
        }
    }
    encoded
}
