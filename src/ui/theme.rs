//! How things look: a style for every role, from a palette that people can write themselves.
//!
//! No view names a colour. It names a role; the theme and what the terminal can show make a style of it.

mod colour;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use colour::SIXTEEN;
pub(super) use colour::rgb_of;
pub use colour::{Depth, Rgb};

use crate::document::{Document, DocumentError};
use crate::domain::Status;
use crate::environment::Environment;
use crate::text::ansi::Colour;
use crate::text::{clean, closest};

/// What a piece of the screen is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Everything else, and the ground it stands on.
    Text,
    /// What matters less.
    Dim,
    /// What is to be noticed without being good or bad.
    Accent,
    /// The line at the top.
    Header,
    /// The headings of columns.
    Heading,
    /// The row under the cursor.
    Selection,
    /// A row that is marked.
    Marked,
    /// Frames and rules.
    Border,
    /// The frame of what has the focus.
    Focus,
    /// A key in the footer and the help.
    Key,
    /// All is well.
    Good,
    /// Something should be looked at.
    Warning,
    /// Something is lost or will be.
    Danger,
    /// The badge that says that this program may change things.
    ReadWrite,
    /// The badge that says that it may not.
    ReadOnly,
    /// What a filter or a search found.
    Match,
    /// The tab that is shown.
    Tab,
    /// A button.
    Button,
    /// The button that Enter presses.
    ButtonFocused,
    /// The full part of a gauge.
    Gauge,
    /// A sparkline.
    Spark,
    /// The ground of a dialog.
    Dialog,
    /// A note that goes away by itself.
    Toast,
    /// A status, as a word or a sign.
    Status(Status),
}

impl Role {
    const PLAIN: [(&'static str, Self); 23] = [
        ("text", Self::Text),
        ("dim", Self::Dim),
        ("accent", Self::Accent),
        ("header", Self::Header),
        ("heading", Self::Heading),
        ("selection", Self::Selection),
        ("marked", Self::Marked),
        ("border", Self::Border),
        ("focus", Self::Focus),
        ("key", Self::Key),
        ("good", Self::Good),
        ("warning", Self::Warning),
        ("danger", Self::Danger),
        ("read-write", Self::ReadWrite),
        ("read-only", Self::ReadOnly),
        ("match", Self::Match),
        ("tab", Self::Tab),
        ("button", Self::Button),
        ("button-focused", Self::ButtonFocused),
        ("gauge", Self::Gauge),
        ("spark", Self::Spark),
        ("dialog", Self::Dialog),
        ("toast", Self::Toast),
    ];

    /// Every role and its name in a theme.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let statuses = Status::ALL.into_iter().map(|status| (status.as_str(), Self::Status(status)));
        Self::PLAIN.into_iter().chain(statuses)
    }
}

/// The themes that come with the program.
const BUILT_IN: [(&str, &str); 5] = [
    ("dark", include_str!("../../assets/themes/dark.toml")),
    ("light", include_str!("../../assets/themes/light.toml")),
    ("high-contrast", include_str!("../../assets/themes/high-contrast.toml")),
    ("deuteranopia", include_str!("../../assets/themes/deuteranopia.toml")),
    ("none", include_str!("../../assets/themes/none.toml")),
];

/// Why a theme cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ThemeFault {
    /// The file is wrong.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The file cannot be read.
    #[error("the theme {path} cannot be read: {why}; correct it or choose another with `--theme`")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        why: String,
    },
    /// There is no such theme.
    #[error("there is no theme `{}`; {fix}", clean(.name))]
    NoSuchTheme {
        /// What was asked for.
        name: String,
        /// What to try.
        fix: String,
    },
}

/// A style for every role, on one kind of terminal.
#[derive(Clone, Debug)]
pub struct Theme {
    styles: HashMap<Role, Style>,
    ground: (Rgb, Rgb),
    depth: Depth,
}

impl Theme {
    /// The theme of this name: from the user's folder, or one that comes with the program. Without colours every theme
    /// is `none`.
    pub fn named(name: &str, folder: Option<&Path>, depth: Depth) -> Result<Self, ThemeFault> {
        let theme = match folder.map(|folder| folder.join(format!("{name}.toml"))) {
            // A name is a name and not a path.
            Some(path) if is_name(name) && path.exists() => {
                let file = path.display().to_string();
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| ThemeFault::Unreadable { path: file.clone(), why: error.to_string() })?;
                parse(&file, &text, depth)?
            }
            _ => built_in(name, depth)?.ok_or_else(|| no_such_theme(name, folder))?,
        };
        match depth {
            Depth::None => built_in("none", depth)?.ok_or_else(|| no_such_theme("none", None)),
            _ => Ok(theme),
        }
    }

    /// The theme for whoever did not choose one: what the terminal says about its ground, else dark.
    pub fn usual(environment: &Environment) -> &'static str {
        let colours = environment.variables.get("COLORFGBG").map(String::as_str).unwrap_or_default();
        match colours.rsplit(';').next() {
            Some("7" | "15") => "light",
            _ => "dark",
        }
    }

    /// How something of this role looks.
    pub fn style(&self, role: Role) -> Style {
        self.styles.get(&role).copied().unwrap_or_default()
    }

    /// A colour that somebody else's program chose, as far as the terminal has it.
    pub fn foreign(&self, colour: Colour) -> Option<Color> {
        match colour {
            _ if self.depth == Depth::None => None,
            Colour::Indexed(number) if number < 16 || self.depth >= Depth::TwoHundredFiftySix => {
                Some(Color::Indexed(number))
            }
            Colour::Indexed(_) => None,
            Colour::Rgb(red, green, blue) => Rgb(red, green, blue).at(self.depth),
        }
    }

    /// The colours a terminal is expected to have where this theme sets none: text and ground.
    pub fn ground(&self) -> (Rgb, Rgb) {
        self.ground
    }
}

/// The names of all themes: those that come with the program, and the user's own.
pub fn names(folder: Option<&Path>) -> Vec<String> {
    let own = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let own = own.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".toml").filter(|name| is_name(name)).map(ToOwned::to_owned)
    });
    let mut names: Vec<String> = own.collect();
    names.sort();
    let built_in = BUILT_IN.iter().map(|(name, _)| (*name).to_owned());
    let mut all: Vec<String> = built_in.collect();
    names.retain(|name| !all.contains(name));
    all.extend(names);
    all
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn no_such_theme(name: &str, folder: Option<&Path>) -> ThemeFault {
    let known = names(folder);
    let fix = match closest(name, known.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    ThemeFault::NoSuchTheme { name: name.to_owned(), fix }
}

fn built_in(name: &str, depth: Depth) -> Result<Option<Theme>, DocumentError> {
    let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else { return Ok(None) };
    parse(&format!("assets/themes/{name}.toml"), text, depth).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    base: Option<Spanned<String>>,
    foreground: Option<Spanned<String>>,
    background: Option<Spanned<String>>,
    #[serde(default)]
    roles: BTreeMap<Spanned<String>, Look>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own in a theme")]
struct Look {
    fg: Option<Spanned<String>>,
    bg: Option<Spanned<String>>,
    /// The same on a terminal with sixteen colours, where the nearest one would not do.
    fg16: Option<Spanned<String>>,
    bg16: Option<Spanned<String>>,
    #[serde(default)]
    bold: bool,
    #[serde(default)]
    dim: bool,
    #[serde(default)]
    italic: bool,
    #[serde(default)]
    underline: bool,
    #[serde(default)]
    reverse: bool,
}

fn parse(file: &str, text: &str, depth: Depth) -> Result<Theme, DocumentError> {
    let document = Document {
        file,
        text,
        example: "the themes in `assets/themes` of sandkeeper's source show every key",
    };
    let raw: File = document.parse()?;
    let mut theme = match &raw.base {
        None => Theme { styles: HashMap::new(), ground: (Rgb(0xd0, 0xd0, 0xd0), Rgb(0, 0, 0)), depth },
        Some(base) => built_in(base.get_ref(), depth)?.ok_or_else(|| {
            let known = BUILT_IN.map(|(name, _)| name).join(", ");
            document.error(base.span(), "base", "there is no such theme", format!("write one of {known}"))
        })?,
    };
    for (key, value, ground) in [
        ("foreground", &raw.foreground, &mut theme.ground.0),
        ("background", &raw.background, &mut theme.ground.1),
    ] {
        if let Some(value) = value {
            *ground = Rgb::parse(value.get_ref()).ok_or_else(|| bad_colour(document, key, value))?;
        }
    }
    for (name, look) in &raw.roles {
        let Some((_, role)) = Role::all().find(|(known, _)| known == name.get_ref()) else {
            let fix = match closest(name.get_ref(), Role::all().map(|(known, _)| known)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!(
                    "the roles are {}",
                    Role::all().map(|(known, _)| known).collect::<Vec<_>>().join(", ")
                ),
            };
            return Err(document.error(name.span(), name.get_ref(), "unknown role", fix));
        };
        theme.styles.insert(role, style_of(document, look, depth)?);
    }
    Ok(theme)
}

fn style_of(document: Document<'_>, look: &Look, depth: Depth) -> Result<Style, DocumentError> {
    let mut style = Style::new();
    style.fg = pick(document, ("fg", &look.fg), ("fg16", &look.fg16), depth)?;
    style.bg = pick(document, ("bg", &look.bg), ("bg16", &look.bg16), depth)?;
    let attributes = [
        (look.bold, Modifier::BOLD),
        (look.dim, Modifier::DIM),
        (look.italic, Modifier::ITALIC),
        (look.underline, Modifier::UNDERLINED),
        (look.reverse, Modifier::REVERSED),
    ];
    let chosen = attributes.into_iter().filter(|(is_set, _)| *is_set).map(|(_, modifier)| modifier);
    Ok(style.add_modifier(chosen.collect()))
}

type Keyed<'a> = (&'static str, &'a Option<Spanned<String>>);

fn pick(
    document: Document<'_>,
    (key, usual): Keyed<'_>,
    (key_of_sixteen, of_sixteen): Keyed<'_>,
    depth: Depth,
) -> Result<Option<Color>, DocumentError> {
    let read = |key, value: &Option<Spanned<String>>| match value {
        None => Ok(None),
        Some(value) => match Hue::parse(value.get_ref()) {
            Some(hue) => Ok(hue.at(depth)),
            None => Err(bad_colour(document, key, value)),
        },
    };
    // Both are read: what is wrong should show on every terminal.
    let (usual, of_sixteen) = (read(key, usual)?, read(key_of_sixteen, of_sixteen)?);
    Ok(if depth == Depth::Sixteen { of_sixteen.or(usual) } else { usual })
}

/// A colour as a theme names it.
enum Hue {
    /// One that every terminal with colours has.
    Common(Color),
    /// One that may have to be approximated.
    Mixed(Rgb),
}

impl Hue {
    fn parse(text: &str) -> Option<Self> {
        let named = SIXTEEN.iter().find(|(name, ..)| *name == text).map(|(_, colour, _)| *colour);
        let common = named.or_else(|| (text == "default").then_some(Color::Reset));
        common.map(Self::Common).or_else(|| Rgb::parse(text).map(Self::Mixed))
    }

    fn at(&self, depth: Depth) -> Option<Color> {
        match self {
            Self::Common(colour) => (depth > Depth::None).then_some(*colour),
            Self::Mixed(rgb) => rgb.at(depth),
        }
    }
}

fn bad_colour(document: Document<'_>, key: &str, value: &Spanned<String>) -> DocumentError {
    let fix = "write `#rrggbb`, `default`, or a name such as `red` or `bright-blue`";
    document.error(value.span(), key, format!("`{}` is not a colour", value.get_ref()), fix)
}

#[cfg(test)]
mod tests;
