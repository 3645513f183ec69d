//! TOML files that people write: profiles and the configuration. An error names the file, the line, the key and
//! the fix.

use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;

use crate::text::{clean, closest};

/// What is wrong with a file a person wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// Which file.
    pub file: String,
    /// Which line, counted from one.
    pub line: Option<usize>,
    /// Which key, if it can be told.
    pub key: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What to try.
    pub fix: String,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean(&self.file))?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": `{}`", clean(key))?;
        }
        write!(f, ": {}; {}", clean(&self.what), clean(&self.fix))
    }
}

impl std::error::Error for DocumentError {}

/// A file's name and text, to point into.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// What the file is called in messages.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Where a full example is, for messages.
    pub example: &'static str,
}

impl Document<'_> {
    /// Reads the text as `T`.
    pub fn parse<T: DeserializeOwned>(self) -> Result<T, DocumentError> {
        toml::from_str(self.text).map_err(|error| self.explain(&error))
    }

    /// An error at a place in the text.
    pub fn error(
        self,
        span: Range<usize>,
        key: &str,
        what: impl fmt::Display,
        fix: impl Into<String>,
    ) -> DocumentError {
        DocumentError {
            file: self.file.to_owned(),
            line: Some(self.line_of(span.start)),
            key: Some(key.to_owned()),
            what: what.to_string(),
            fix: fix.into(),
        }
    }

    fn line_of(self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn explain(self, error: &toml::de::Error) -> DocumentError {
        let line = error.span().map(|span| self.line_of(span.start));
        let message = error.message().trim().replace('\n', " ");
        let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let (key, what, fix) = if message.starts_with("unknown field") {
            let unknown = quoted.first().copied().unwrap_or_default();
            let known = quoted.get(1..).unwrap_or_default();
            let fix = match closest(unknown, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("the keys that may stand here are {}", known.join(", ")),
            };
            (Some(unknown.to_owned()), "unknown key".to_owned(), fix)
        } else if message.starts_with("missing field") {
            let missing = quoted.first().copied().unwrap_or_default();
            // Sections are written in brackets, those that may repeat in two.
            let fix = match missing {
                "containers" => "add a section `[containers]`".to_owned(),
                "links" | "queries" => format!("add a section `[[sessions.{missing}]]`"),
                _ => format!("add `{missing} = …` here"),
            };
            (Some(missing.to_owned()), "is missing".to_owned(), fix)
        } else {
            let key = line.and_then(|line| self.key_on(line));
            (key, message, format!("correct this line: {}", self.example))
        };
        DocumentError { file: self.file.to_owned(), line, key, what, fix }
    }

    fn key_on(self, line: usize) -> Option<String> {
        let (key, _) = self.text.lines().nth(line - 1)?.split_once('=')?;
        Some(key.trim().to_owned())
    }
}
