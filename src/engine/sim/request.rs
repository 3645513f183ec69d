//! A request as the simulated engine sees it: method, path without its version, query, body.

use bytes::Bytes;
use serde_json::Value;

use super::json::{API, OLDEST_API};
use super::world::Refusal;

#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    /// The segments of the path, without the version.
    pub(super) path: Vec<String>,
    query: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Asked {
    pub(super) fn new(method: &str, path: &str, query: &str, body: Bytes) -> Result<Self, Refusal> {
        let mut path: Vec<String> =
            path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect();
        if let Some(version) = path.first().and_then(|first| version(first)) {
            refuse_version(version)?;
            path.remove(0);
        }
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        });
        Ok(Self { method: method.to_owned(), path, query: query.collect(), body })
    }

    /// A query parameter.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A switch. As the engine sees it, everything but a few words is a yes.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.is_on_or(name, false)
    }

    pub(super) fn is_on_or(&self, name: &str, default: bool) -> bool {
        self.text(name).map_or(default, |value| {
            !matches!(value.trim().to_ascii_lowercase().as_str(), "" | "0" | "no" | "false" | "none")
        })
    }

    /// A number, which must be one.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.text(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        text.parse()
            .map(Some)
            .map_err(|_| Refusal::new(500, format!("strconv.Atoi: parsing \"{text}\": invalid syntax")))
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Value, Refusal> {
        if self.body.is_empty() {
            return Err(Refusal::new(500, "EOF"));
        }
        serde_json::from_slice(&self.body).map_err(|error| Refusal::new(400, error.to_string()))
    }
}

fn version(segment: &str) -> Option<(u32, u32)> {
    let (major, minor) = segment.strip_prefix('v')?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn refuse_version(asked: (u32, u32)) -> Result<(), Refusal> {
    let shown = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let message = if asked > API {
        format!("client version {} is too new. Maximum supported API version is {}", shown(asked), shown(API))
    } else if asked < OLDEST_API {
        format!(
            "client version {} is too old. Minimum supported API version is {}, please upgrade your client to a \
             newer version",
            shown(asked),
            shown(OLDEST_API)
        )
    } else {
        return Ok(());
    };
    Err(Refusal::new(400, message))
}

/// Undoes percent encoding; what is not valid stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (byte, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str, query: &str) -> Result<Asked, Refusal> {
        Asked::new("GET", path, query, Bytes::new())
    }

    #[test]
    fn the_version_is_no_part_of_the_path() {
        assert_eq!(asked("/v1.41/containers/json", "").unwrap().path, ["containers", "json"]);
        assert_eq!(asked("/containers/json", "").unwrap().path, ["containers", "json"]);
        assert_eq!(asked("/v1.42/info", "").unwrap_err().status, 400);
        assert_eq!(asked("/v1.11/info", "").unwrap_err().status, 400);
    }

    #[test]
    fn queries_are_decoded() {
        let asked = asked("/x", "filters=%7B%22a%22%3A1%7D&all=1&name=a+b&force=false&t=x&odd=%zz").unwrap();
        assert_eq!(asked.text("filters"), Some(r#"{"a":1}"#));
        assert_eq!(asked.text("name"), Some("a b"));
        assert!(asked.is_on("all") && !asked.is_on("force") && !asked.is_on("nothing"));
        assert_eq!(asked.number("t").unwrap_err().status, 500);
        assert_eq!(asked.text("odd"), Some("%zz"));
    }
}
