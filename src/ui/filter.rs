//! Finding rows by typing: plain words match loosely, `field:value` exactly, `!` turns a term round.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::domain::container::Container;
use crate::domain::verdict::{Lost, Verdict};
use crate::domain::{Status, SystemName};

/// A filter as it was typed, and what it means.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    negated: bool,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Field(Field, Vec<String>),
    Words { pattern: Pattern, lower: String },
}

/// The fields that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Status,
    Workspace,
    System,
    State,
    Label,
    Name,
    Image,
    Id,
}

/// The prefixes that name a field.
const FIELDS: [(&str, Field); 11] = [
    ("status", Field::Status),
    ("st", Field::Status),
    ("workspace", Field::Workspace),
    ("ws", Field::Workspace),
    ("system", Field::System),
    ("sys", Field::System),
    ("state", Field::State),
    ("label", Field::Label),
    ("name", Field::Name),
    ("image", Field::Image),
    ("id", Field::Id),
];

/// What a filter looks at.
pub(super) struct Candidate<'a> {
    name: &'a str,
    workspace: &'a str,
    system: Option<&'a SystemName>,
    status: Status,
    outdated: bool,
    container: Option<&'a Container>,
    session: Option<&'a str>,
}

impl<'a> From<&'a Verdict> for Candidate<'a> {
    fn from(verdict: &'a Verdict) -> Self {
        Self {
            name: verdict.subject.name(),
            workspace: verdict.workspace.as_deref().unwrap_or_default(),
            system: verdict.system.as_ref(),
            status: verdict.status,
            outdated: verdict.outdated,
            container: verdict.subject.container(),
            session: None,
        }
    }
}

impl<'a> From<&'a Lost> for Candidate<'a> {
    fn from(lost: &'a Lost) -> Self {
        Self {
            name: &lost.container,
            workspace: lost.workspace.as_deref().unwrap_or_default(),
            system: Some(&lost.system),
            status: Status::Lost,
            outdated: false,
            container: None,
            session: Some(&lost.session),
        }
    }
}

impl Filter {
    /// Reads a filter. Whatever is typed means something: half a term is simply a short one.
    pub fn parse(text: &str) -> Self {
        let terms = text.split_whitespace().filter_map(Term::parse).collect();
        Self { text: text.to_owned(), terms }
    }

    /// What was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether everything passes.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub(super) fn passes(&self, candidate: &Candidate<'_>, matcher: &mut Matcher) -> bool {
        self.terms.iter().all(|term| term.test.holds(candidate, matcher) != term.negated)
    }

    pub(super) fn matcher() -> Matcher {
        Matcher::new(Config::DEFAULT)
    }
}

impl Term {
    fn parse(word: &str) -> Option<Self> {
        let (negated, word) = match word.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let field = word.split_once(':').and_then(|(name, value)| {
            FIELDS.iter().find(|(known, _)| *known == name).map(|(_, field)| (*field, value))
        });
        let test = match field {
            Some((_, "")) => return None,
            Some((field, values)) => Test::Field(
                field,
                values.split(',').filter(|v| !v.is_empty()).map(str::to_lowercase).collect(),
            ),
            None if word.is_empty() => return None,
            None => Test::Words {
                pattern: Pattern::parse(word, CaseMatching::Ignore, Normalization::Smart),
                lower: word.to_lowercase(),
            },
        };
        Some(Self { negated, test })
    }
}

impl Test {
    fn holds(&self, candidate: &Candidate<'_>, matcher: &mut Matcher) -> bool {
        match self {
            Self::Field(field, values) => values.iter().any(|value| field.holds(value, candidate)),
            Self::Words { pattern, lower } => {
                let mut characters = Vec::new();
                let mut loosely =
                    |text: &str| pattern.score(Utf32Str::new(text, &mut characters), matcher).is_some();
                loosely(candidate.name)
                    || loosely(candidate.workspace)
                    || candidate.status.as_str().starts_with(lower.as_str())
                    || candidate.session.is_some_and(|session| contains(session, lower))
                    || candidate.system.is_some_and(|system| system.as_str().starts_with(lower.as_str()))
                    || candidate.container.is_some_and(|container| {
                        container.id.as_str().starts_with(lower.as_str())
                            || container
                                .labels
                                .iter()
                                .any(|(key, value)| contains(key, lower) || contains(value, lower))
                    })
            }
        }
    }
}

impl Field {
    fn holds(self, value: &str, candidate: &Candidate<'_>) -> bool {
        let container = candidate.container;
        match self {
            Self::Status => {
                candidate.status.as_str().starts_with(value)
                    || (candidate.outdated && "outdated".starts_with(value))
            }
            Self::Workspace => contains(candidate.workspace, value),
            Self::System => candidate.system.is_some_and(|system| contains(system.as_str(), value)),
            Self::State => container.is_some_and(|container| container.state.as_str().starts_with(value)),
            Self::Name => contains(candidate.name, value),
            Self::Image => container.is_some_and(|container| contains(container.image_reference(), value)),
            Self::Id => container.is_some_and(|container| container.id.as_str().starts_with(value)),
            Self::Label => container.is_some_and(|container| {
                container.labels.iter().any(|(key, held)| match value.split_once('=') {
                    Some((wanted, part)) => key.to_lowercase() == wanted && contains(held, part),
                    None => contains(key, value),
                })
            }),
        }
    }
}

fn contains(text: &str, lower: &str) -> bool {
    text.to_lowercase().contains(lower)
}
