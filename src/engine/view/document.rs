//! A container's whole inspection, for people to read: secrets taken out, nothing in it that steers a terminal.

use serde_json::Value;

use super::EngineView;
use crate::domain::container::ContainerId;
use crate::engine::fault::EngineFault;
use crate::engine::redact::redact;

/// More than anyone scrolls through.
const MOST_LINES: usize = 5_000;

impl EngineView {
    /// All that the engine says about a container, without secrets.
    pub async fn document(&self, id: &ContainerId) -> Result<Value, EngineFault> {
        let mut document = self.raw_inspection(id).await?;
        redact(&mut document);
        Ok(document)
    }

    /// The engine's answer as it is, for being kept. The query says what is so anyway; it tells this from other questions.
    pub(crate) async fn inspection_to_keep(&self, id: &ContainerId) -> Result<Value, EngineFault> {
        self.inspection_at(id, "?size=false").await
    }

    /// The engine's answer as it is. An answer about another container is none.
    pub(crate) async fn raw_inspection(&self, id: &ContainerId) -> Result<Value, EngineFault> {
        self.inspection_at(id, "").await
    }

    pub(super) async fn inspection_at(&self, id: &ContainerId, query: &str) -> Result<Value, EngineFault> {
        let body = self.transport.get(&format!("/containers/{id}/json{query}"), self.timeout).await?;
        let document: Value =
            serde_json::from_slice(&body).map_err(|error| EngineFault::Unintelligible(error.to_string()))?;
        match document.get("Id").and_then(Value::as_str) {
            Some(answered) if answered == id.as_str() => Ok(document),
            Some(_) => {
                Err(EngineFault::Status { status: 404, message: format!("no container has the id {id}") })
            }
            None => {
                Err(EngineFault::Unintelligible("it does not say which container it is about".to_owned()))
            }
        }
    }
}

/// A document as indented lines, one fact each.
pub fn lines(document: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    write(document, 0, &mut lines);
    let surplus = lines.len().saturating_sub(MOST_LINES);
    if surplus > 0 {
        lines.truncate(MOST_LINES);
        lines.push(format!("… and {surplus} more lines"));
    }
    lines
}

fn write(value: &Value, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let named: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(key, value)| (format!("{key}:"), value)).collect(),
        Value::Array(items) => items.iter().map(|item| ("-".to_owned(), item)).collect(),
        simple => {
            lines.push(format!("{indent}{}", word(simple)));
            return;
        }
    };
    for (name, value) in named {
        if has_members(value) {
            lines.push(format!("{indent}{name}"));
            write(value, depth + 1, lines);
        } else {
            lines.push(format!("{indent}{name} {}", word(value)));
        }
    }
}

fn has_members(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_reads_as_indented_lines() {
        let document = json!({
            "Args": ["-c", "true"], "Config": { "Labels": { "a": "b" }, "Tty": false, "User": "" }, "Mounts": [],
            "Pid": 7, "State": { "Health": null }, "Ports": [{ "From": 80 }],
        });
        let expected = [
            "Args:",
            "  - -c",
            "  - true",
            "Config:",
            "  Labels:",
            "    a: b",
            "  Tty: false",
            "  User: \"\"",
            "Mounts: []",
            "Pid: 7",
            "Ports:",
            "  -",
            "    From: 80",
            "State:",
            "  Health: null",
        ];
        assert_eq!(lines(&document), expected);
    }

    #[test]
    fn an_endless_document_is_cut_and_says_so() {
        let lines = lines(&json!(vec![1; MOST_LINES + 7]));
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert_eq!(lines.last().unwrap(), "… and 7 more lines");
    }
}
