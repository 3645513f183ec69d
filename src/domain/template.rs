//! Templates of profiles: text with `{placeholders}` that are looked up in a container or a session.
//!
//! A template yields a value only if every placeholder has one. That is what lets a profile list several
//! templates and take the first that fits.

use std::borrow::Cow;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Placeholder { name: String, field: Field, as_label: bool },
}

/// What stands behind a placeholder whose value is to be compared with a label that its system sanitised.
const AS_LABEL: &str = ":label";
/// As long as such labels are at most.
const LONGEST_LABEL: usize = 63;

/// Where a placeholder's value comes from. Told once, when a template is parsed: it is filled for many thousand
/// sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// `{id}` of a container or a session.
    Id,
    /// `{short_id}` of a container.
    ShortId,
    /// `{name}` of a container.
    Name,
    /// `{image}` of a container.
    Image,
    /// `{workspace}` of a session.
    Workspace,
    /// `{container}` that a session names.
    Container,
    /// `{label.…}` of a container.
    Label(String),
    /// `{name.…}`, captured from a container's name.
    NameCapture(String),
    /// `{mount./…}`, the source of what is mounted there.
    Mount(String),
    /// `{mount.…}`, captured from the source of a mount.
    MountCapture(String),
    /// `{store.…}`, captured from the path of a session's store.
    StoreCapture(String),
}

impl Field {
    fn of(placeholder: &str) -> Option<Self> {
        Some(match placeholder.split_once('.') {
            None => match placeholder {
                "id" => Self::Id,
                "short_id" => Self::ShortId,
                "name" => Self::Name,
                "image" => Self::Image,
                "workspace" => Self::Workspace,
                "container" => Self::Container,
                _ => return None,
            },
            Some((family, member)) => match family {
                "label" => Self::Label(member.to_owned()),
                "name" => Self::NameCapture(member.to_owned()),
                "mount" if member.starts_with('/') => Self::Mount(member.to_owned()),
                "mount" => Self::MountCapture(member.to_owned()),
                "store" => Self::StoreCapture(member.to_owned()),
                _ => return None,
            },
        })
    }
}

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    source: String,
    pieces: Vec<Piece>,
}

/// Why a template is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// A brace without its partner.
    #[error("`{0}` has a `{{` or `}}` without its partner")]
    Unbalanced(String),
    /// A placeholder nobody can fill.
    #[error("`{{{placeholder}}}` is not known here; use one of {known}")]
    UnknownPlaceholder {
        /// The placeholder.
        placeholder: String,
        /// What may stand there.
        known: String,
    },
}

/// A part of a text in which names stand in braces.
pub(super) enum Part<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Takes such a text apart; `None` when a brace lacks its partner.
pub(super) fn parts(text: &str) -> Option<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let brace = rest.find(['{', '}']).unwrap_or(rest.len());
        if brace > 0 {
            parts.push(Part::Text(&rest[..brace]));
            rest = &rest[brace..];
            continue;
        }
        let (name, after) = rest.strip_prefix('{')?.split_once('}')?;
        parts.push(Part::Name(name));
        rest = after;
    }
    Some(parts)
}

impl Template {
    /// The only thing it consists of, as it is.
    pub fn only_field(&self) -> Option<&Field> {
        match self.pieces.as_slice() {
            [Piece::Placeholder { field, as_label: false, .. }] => Some(field),
            _ => None,
        }
    }

    /// Parses `text`. `known` lists the placeholders that may be used: a name, or a name followed by a dot,
    /// which stands for all names that start so (`label.` allows `{label.app}`).
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, BadTemplate> {
        let mut pieces = Vec::new();
        for part in parts(text).ok_or_else(|| BadTemplate::Unbalanced(text.to_owned()))? {
            let written = match part {
                Part::Text(text) => {
                    pieces.push(Piece::Text(text.to_owned()));
                    continue;
                }
                Part::Name(written) => written,
            };
            let placeholder = written.strip_suffix(AS_LABEL).unwrap_or(written);
            let as_label = placeholder.len() < written.len();
            let allowed = known.iter().any(|name| match name.strip_suffix('.') {
                Some(_) => placeholder.len() > name.len() && placeholder.starts_with(name),
                None => placeholder == *name,
            });
            let field = Field::of(placeholder).filter(|_| allowed);
            let Some(field) = field else {
                let known =
                    known
                        .iter()
                        .map(|name| {
                            if name.ends_with('.') { format!("{{{name}…}}") } else { format!("{{{name}}}") }
                        })
                        .collect::<Vec<_>>()
                        .join(", ");
                return Err(BadTemplate::UnknownPlaceholder { placeholder: placeholder.to_owned(), known });
            };
            pieces.push(Piece::Placeholder { name: placeholder.to_owned(), field, as_label });
        }
        Ok(Self { source: text.to_owned(), pieces })
    }

    /// Fills the template. `None` when a placeholder has no value, or the whole comes out empty.
    /// A template that is one placeholder borrows its value: the joins run over many thousand sessions.
    pub fn fill<'a>(&self, lookup: impl Fn(&Field) -> Option<&'a str>) -> Option<Cow<'a, str>> {
        if let [Piece::Placeholder { field, as_label, .. }] = self.pieces.as_slice() {
            return lookup(field).filter(|value| !value.is_empty()).map(|value| written_as(value, *as_label));
        }
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Placeholder { field, as_label, .. } => {
                    let value = lookup(field).filter(|value| !value.is_empty())?;
                    filled.push_str(&written_as(value, *as_label));
                }
            }
        }
        (!filled.is_empty()).then_some(Cow::Owned(filled))
    }

    /// The names of its placeholders.
    pub fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Placeholder { name, .. } => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }
}

/// The value as it is, or as systems write it into a label: letters, digits, `_`, `.` and `-` stay, everything else
/// becomes `_`, and only so much of it.
fn written_as(value: &str, as_label: bool) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if !as_label || (value.len() <= LONGEST_LABEL && value.chars().all(plain)) {
        return Cow::Borrowed(value);
    }
    value.chars().take(LONGEST_LABEL).map(|c| if plain(c) { c } else { '_' }).collect()
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["name", "label."];

    #[test]
    fn a_template_is_filled_only_when_every_placeholder_has_a_value() {
        let template = Template::parse("ws-{label.workspace}-{name}", KNOWN).unwrap();
        let full = |field: &Field| match field {
            Field::Label(key) if key == "workspace" => Some("atlas"),
            Field::Name => Some("box"),
            _ => None,
        };
        assert_eq!(template.fill(full).as_deref(), Some("ws-atlas-box"));
        assert_eq!(template.fill(|field| full(field).filter(|_| *field != Field::Name)), None);
        assert_eq!(template.fill(|_| Some("")), None);
    }

    #[test]
    fn a_value_is_written_as_a_label_where_the_template_says_so() {
        let known = &["id", "store."];
        let filled = |text: &str, id: &str| {
            let template = Template::parse(text, known).unwrap();
            let id = id.to_owned();
            let filled = template.fill(|field| (*field == Field::Id).then_some(id.as_str()));
            filled.map(Cow::into_owned)
        };
        assert_eq!(filled("{id:label}", "20260216_ab.C-1").as_deref(), Some("20260216_ab.C-1"));
        assert_eq!(filled("{id:label}", "agent:main/é x").as_deref(), Some("agent_main___x"));
        assert_eq!(filled("x{id:label}", "a:b").as_deref(), Some("xa_b"));
        assert_eq!(filled("{id:label}", &"y".repeat(90)).unwrap().len(), 63);
        assert_eq!(filled("{id}", "a:b").as_deref(), Some("a:b"));
        assert!(Template::parse("{id:lable}", known).is_err());
    }

    #[test]
    fn mistakes_in_a_template_are_named() {
        assert!(matches!(Template::parse("a{name", KNOWN), Err(BadTemplate::Unbalanced(_))));
        assert!(matches!(Template::parse("a}", KNOWN), Err(BadTemplate::Unbalanced(_))));
        let error = Template::parse("{nmae}", KNOWN).unwrap_err().to_string();
        assert!(error.contains("{nmae}") && error.contains("{label.…}"), "{error}");
        assert!(
            Template::parse("{label.}", KNOWN).is_err(),
            "a family without a member is not a placeholder"
        );
    }
}
