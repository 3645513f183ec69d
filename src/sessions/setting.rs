//! One length of time out of an application's own configuration file. Enough of YAML to find a plain value under plain
//! keys; whatever else stands where the value, or a key that leads to it, could be is a fault, never a default.

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use crate::domain::span::parse_span;

/// No configuration file is larger.
const LARGEST: u64 = 1024 * 1024;

/// The value of `key` (with a dot between its levels), in seconds or as a length such as `15m`. `None` when there is no
/// such file or no such key; the error says why the value cannot be told.
pub(super) fn length_in(path: &Path, key: &str) -> Result<Option<Duration>, String> {
    let Some(text) = read(path)? else { return Ok(None) };
    let keys: Vec<&str> = key.split('.').collect();
    let found = match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => serde_json::from_str(&text)
            .map(|value: serde_json::Value| in_json(&value, &keys))
            .map_err(|error| format!("it is not readable as JSON: {error}")),
        Some("toml") => text
            .parse::<toml::Table>()
            .map(|table| in_toml(&table, &keys))
            .map_err(|error| format!("it is not readable as TOML: {}", error.message())),
        _ => in_yaml(&text, &keys),
    };
    let Some(value) = found? else { return Ok(None) };
    length(&value).map(Some).ok_or_else(|| format!("`{key}` is `{value}`, which is no length of time"))
}

#[cfg_attr(not(test), expect(clippy::disallowed_methods, reason = "a configuration, and never a database"))]
fn read(path: &Path) -> Result<Option<String>, String> {
    let file = match std::fs::metadata(path) {
        // Opening a pipe would wait for ever.
        Ok(metadata) if !metadata.is_file() => return Err("it is not a file".to_owned()),
        Ok(_) => std::fs::File::open(path),
        Err(error) => Err(error),
    };
    let mut text = String::new();
    match file.and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text)) {
        Ok(size) if size as u64 > LARGEST => Err("it is too large for a configuration".to_owned()),
        Ok(_) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

/// Zero means one thing to one system and another to the next, so it is not taken for a length.
fn length(text: &str) -> Option<Duration> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let span = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => parse_span(text).ok(),
    };
    span.filter(|span| !span.is_zero())
}

fn in_json(value: &serde_json::Value, keys: &[&str]) -> Option<String> {
    let found = keys.iter().try_fold(value, |value, key| value.get(key))?;
    match found {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn in_toml(table: &toml::Table, keys: &[&str]) -> Option<String> {
    let (first, rest) = keys.split_first()?;
    let found = rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))?;
    Some(found.as_str().map_or_else(|| found.to_string(), ToOwned::to_owned))
}

fn in_yaml(text: &str, keys: &[&str]) -> Result<Option<String>, String> {
    // The keys that lead to the line at hand, each with its indentation.
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut found = None;
    // The indentation of a key whose value may follow on lines of its own.
    let mut bare = None;
    if text.starts_with('\u{feff}') {
        return Err("it begins with a byte order mark, which is not understood here".to_owned());
    }
    for (number, line) in text.lines().enumerate() {
        let content = line.trim_start();
        let strange = |what: &str| Err(format!("line {}: {what} is not understood here", number + 1));
        if content.is_empty() || content.starts_with('#') || matches!(line.trim_end(), "---" | "...") {
            continue;
        }
        let indent = line.len() - content.len();
        above.retain(|(outer, _)| *outer < indent);
        if bare.take().is_some_and(|outer| outer < indent) {
            return strange("a value on a line of its own");
        }
        // Where the next key could stand, so could something that brings it along.
        let is_level = above.len() < keys.len()
            && above.iter().map(|(_, key)| *key).eq(keys[..above.len()].iter().copied());
        if is_level && (content.starts_with(['{', '[', '?', '*', '&', '!', '%']) || content.starts_with("<<"))
        {
            return strange("what is not a plain key");
        }
        let Some((key, value)) = content.split_once(':') else { continue };
        let key = key.trim().trim_matches(['"', '\'']);
        let depth = above.len();
        let on_the_way = is_level && key == keys[depth];
        above.push((indent, key));
        if !on_the_way {
            continue;
        }
        if line[..indent].contains('\t') {
            return strange("a tab in front of a key");
        }
        let value = value.split(" #").next().unwrap_or_default().trim();
        let is_last = depth + 1 == keys.len();
        if value.starts_with(['{', '[', '&', '*', '|', '>', '!']) {
            return strange("a value that is not plain");
        }
        if is_last && (value.is_empty() || value.starts_with('#')) {
            bare = Some(indent);
        }
        if is_last && found.replace(value).is_some() {
            return strange("a key that stands there twice");
        }
        if !is_last && !value.is_empty() && !value.starts_with('#') {
            return strange("a value where a section was expected");
        }
    }
    let value = found.map(|value| value.trim_matches(['"', '\'']));
    Ok(value.filter(|value| !matches!(*value, "" | "~" | "null")).map(ToOwned::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "terminal.lifetime_seconds";

    fn told(name: &str, text: &str) -> Result<Option<u64>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        length_in(&path, KEY).map(|found| found.map(|length| length.as_secs()))
    }

    #[test]
    fn a_plain_value_under_plain_keys_is_found() {
        let plain = "# ours\nmodel: x\nterminal:\n  backend: docker\n  lifetime_seconds: 900  # a while\nother:\n  lifetime_seconds: 1\n";
        assert_eq!(told("config.yaml", plain), Ok(Some(900)));
        assert_eq!(told("config.yaml", "\"terminal\":\n    'lifetime_seconds': \"15m\"\n"), Ok(Some(900)));
        assert_eq!(
            told("config.yaml", "terminal:\n- a\nx:\n  terminal:\n    lifetime_seconds: 1\n"),
            Ok(None)
        );
        assert_eq!(told("config.yaml", "terminal:\n  docker:\n    lifetime_seconds: 1\n"), Ok(None));
        assert_eq!(told("config.yaml", "terminal:\n  lifetime_seconds:\n"), Ok(None));
        assert_eq!(told("config.json", r#"{"terminal":{"lifetime_seconds":900}}"#), Ok(Some(900)));
        assert_eq!(told("config.toml", "[terminal]\nlifetime_seconds = 900\n"), Ok(Some(900)));
        assert_eq!(length_in(Path::new("/nowhere/config.yaml"), KEY), Ok(None));
    }

    #[test]
    fn what_is_not_understood_is_never_taken_for_the_default() {
        for text in [
            "terminal: {lifetime_seconds: 900}\n",
            "terminal: &t\n  lifetime_seconds: 900\n",
            "terminal:\n\tlifetime_seconds: 900\n",
            "terminal:\n  lifetime_seconds: 900\n  lifetime_seconds: 1\n",
            "terminal:\n  lifetime_seconds: soon\n",
            "terminal:\n  lifetime_seconds: 0\n",
            "terminal:\n  lifetime_seconds: -1\n",
            "terminal:\n  lifetime_seconds: [1]\n",
            "{terminal: {lifetime_seconds: 86400}}\n",
            "terminal:\n  {lifetime_seconds: 86400}\n",
            "d: &d\n  lifetime_seconds: 86400\nterminal:\n  <<: *d\n",
            "<<: *d\n",
            "? terminal\n: lifetime_seconds: 86400\n",
            "terminal:\n  lifetime_seconds:\n    86400\n",
            "\u{feff}terminal:\n  lifetime_seconds: 86400\n",
        ] {
            assert!(told("config.yaml", text).is_err(), "{text}");
        }
        assert!(told("config.json", "{").is_err());
        assert!(length_in(Path::new("/"), KEY).is_err(), "a folder is no configuration");
    }
}
