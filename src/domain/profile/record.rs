//! How a JSON object becomes a session: for each of a session's columns a text with `{fields}` of the object.

use std::fmt;

use crate::domain::template::{Part, parts};

/// What one column is made of: the first of these for which the object has the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(Vec<Pattern>);

/// A text with `{fields}`. `{field?}` need not be there, `{.}` is the row itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    source: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field { name: String, optional: bool },
}

/// The columns of a session. What is not given is not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The session's own id.
    pub id: Option<Value>,
    /// The workspace it belongs to.
    pub workspace: Option<Value>,
    /// The container it names.
    pub container: Option<Value>,
    /// What a person would call it.
    pub title: Option<Value>,
    /// When it began.
    pub started_at: Option<Value>,
    /// When it last did something.
    pub last_activity_at: Option<Value>,
    /// When it ended.
    pub ended_at: Option<Value>,
    /// Whether it is live.
    pub live: Option<Value>,
}

/// What an object says about a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It has no such field.
    Missing,
    /// It has, without a value.
    Nothing,
    /// This.
    Text(String),
}

impl Value {
    /// Parses the alternatives; the error says what is wrong.
    pub fn parse<'a>(alternatives: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let patterns: Vec<Pattern> =
            alternatives.into_iter().map(Pattern::parse).collect::<Result<_, _>>()?;
        if patterns.is_empty() { Err("it is empty".to_owned()) } else { Ok(Self(patterns)) }
    }

    /// Fills the first alternative whose fields the object has. `None` when one of them holds nothing; the error names
    /// what the object lacks.
    pub fn fill(&self, lookup: impl Fn(&str) -> Found) -> Result<Option<String>, String> {
        let mut lacks = Vec::new();
        for pattern in &self.0 {
            match pattern.fill(&lookup) {
                Err(field) => lacks.push(format!("`{field}`")),
                filled => return filled,
            }
        }
        Err(lacks.join(", "))
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let unbalanced = || format!("`{text}` has a `{{` or `}}` without its partner");
        let pieces = parts(text).ok_or_else(unbalanced)?.into_iter().map(|part| match part {
            Part::Text(text) => Ok(Piece::Text(text.to_owned())),
            Part::Name(name) => {
                let (name, optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
                if name.is_empty() {
                    return Err(format!("`{text}` has a field without a name"));
                }
                Ok(Piece::Field { name: name.to_owned(), optional })
            }
        });
        Ok(Self { source: text.to_owned(), pieces: pieces.collect::<Result<_, _>>()? })
    }

    fn fill(&self, lookup: impl Fn(&str) -> Found) -> Result<Option<String>, String> {
        let mut filled = String::new();
        let mut nothing = false;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Field { name, optional } => match lookup(name) {
                    Found::Text(text) => filled.push_str(&text),
                    Found::Nothing => nothing = true,
                    Found::Missing if *optional => nothing = true,
                    Found::Missing => return Err(name.clone()),
                },
            }
        }
        Ok((!nothing && !filled.is_empty()).then_some(filled))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<&str> = self.0.iter().map(|pattern| pattern.source.as_str()).collect();
        f.write_str(&all.join(", else "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(patterns: &[&str], field: &str, value: &Found) -> Result<Option<String>, String> {
        let lookup = |name: &str| if name == field { value.clone() } else { Found::Missing };
        Value::parse(patterns.iter().copied()).unwrap().fill(lookup)
    }

    #[test]
    fn a_field_that_is_empty_is_told_from_one_that_is_not_there() {
        let patterns = &["box-{boxId}", "box-{box_id}"];
        assert_eq!(fill(patterns, "boxId", &Found::Text("a".into())), Ok(Some("box-a".into())));
        assert_eq!(fill(patterns, "box_id", &Found::Text("b".into())), Ok(Some("box-b".into())));
        assert_eq!(fill(patterns, "boxId", &Found::Nothing), Ok(None));
        assert_eq!(fill(patterns, "other", &Found::Nothing), Err("`boxId`, `box_id`".into()));
        assert_eq!(fill(&["{title?}"], "other", &Found::Nothing), Ok(None));
        for wrong in ["{a", "a}", "{}", "{?}"] {
            assert!(Value::parse([wrong]).is_err(), "{wrong}");
        }
    }
}
