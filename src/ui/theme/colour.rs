//! Colours, and what becomes of them on a terminal that has fewer.

use ratatui::style::Color;

use crate::environment::Environment;

/// How many colours a terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// None, or none are wanted.
    None,
    /// The sixteen whose look the terminal's owner chose.
    Sixteen,
    /// The 256 of xterm.
    TwoHundredFiftySix,
    /// All of them.
    True,
}

impl Depth {
    /// What the environment says about the terminal.
    pub fn of(environment: &Environment) -> Self {
        let variable = |name: &str| environment.variables.get(name).map(String::as_str).unwrap_or_default();
        let term = variable("TERM");
        let has = |parts: &[&str]| parts.iter().any(|part| term.contains(part));
        if !variable("NO_COLOR").is_empty() || matches!(term, "" | "dumb") || has(&["mono", "vt1", "vt2"]) {
            Self::None
        } else if matches!(variable("COLORTERM"), "truecolor" | "24bit")
            || has(&["direct", "kitty", "alacritty", "wezterm", "ghostty", "foot"])
        {
            Self::True
        } else if has(&["256color"]) {
            Self::TwoHundredFiftySix
        } else {
            Self::Sixteen
        }
    }
}

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// Reads `#rrggbb`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
        let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        Some(Self(part(0)?, part(2)?, part(4)?))
    }

    /// The nearest colour that the terminal has. Without any there is none.
    pub fn at(self, depth: Depth) -> Option<Color> {
        match depth {
            Depth::None => None,
            Depth::Sixteen => Some(self.nearest_of_sixteen()),
            Depth::TwoHundredFiftySix => Some(Color::Indexed(self.nearest_of_256())),
            Depth::True => Some(Color::Rgb(self.0, self.1, self.2)),
        }
    }

    fn nearest_of_sixteen(self) -> Color {
        let nearest = SIXTEEN.iter().min_by_key(|(_, _, rgb)| self.distance(*rgb));
        nearest.map_or(Color::Reset, |(_, colour, _)| *colour)
    }

    /// Not among the first sixteen, whose look is the owner's affair.
    fn nearest_of_256(self) -> u8 {
        (16..=255).min_by_key(|index| self.distance(of_256(*index))).unwrap_or(16)
    }

    /// How different two colours look: eyes are better at green than at red, and at red than at blue.
    fn distance(self, other: Self) -> u32 {
        let part = |a: u8, b: u8, weight: u32| weight * u32::from(a.abs_diff(b)).pow(2);
        part(self.0, other.0, 3) + part(self.1, other.1, 4) + part(self.2, other.2, 2)
    }
}

/// What xterm shows for a colour; `None` where that is up to the terminal.
pub(crate) fn rgb_of(colour: Color) -> Option<Rgb> {
    match colour {
        Color::Rgb(red, green, blue) => Some(Rgb(red, green, blue)),
        Color::Indexed(index) => Some(of_256(index)),
        named => SIXTEEN.iter().find(|(_, each, _)| *each == named).map(|(_, _, rgb)| *rgb),
    }
}

/// What xterm shows for the colours from 16 on: a cube of six levels each, then greys.
pub(crate) fn of_256(index: u8) -> Rgb {
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    match index {
        232.. => {
            let grey = 8 + 10 * (index - 232);
            Rgb(grey, grey, grey)
        }
        16.. => Rgb(level((index - 16) / 36), level((index - 16) / 6 % 6), level((index - 16) % 6)),
        _ => SIXTEEN[usize::from(index)].2,
    }
}

/// The sixteen: the name in a theme, ratatui's, and how xterm shows it.
pub(crate) const SIXTEEN: [(&str, Color, Rgb); 16] = [
    ("black", Color::Black, Rgb(0, 0, 0)),
    ("red", Color::Red, Rgb(205, 0, 0)),
    ("green", Color::Green, Rgb(0, 205, 0)),
    ("yellow", Color::Yellow, Rgb(205, 205, 0)),
    ("blue", Color::Blue, Rgb(0, 0, 238)),
    ("magenta", Color::Magenta, Rgb(205, 0, 205)),
    ("cyan", Color::Cyan, Rgb(0, 205, 205)),
    ("white", Color::Gray, Rgb(229, 229, 229)),
    ("bright-black", Color::DarkGray, Rgb(127, 127, 127)),
    ("bright-red", Color::LightRed, Rgb(255, 0, 0)),
    ("bright-green", Color::LightGreen, Rgb(0, 255, 0)),
    ("bright-yellow", Color::LightYellow, Rgb(255, 255, 0)),
    ("bright-blue", Color::LightBlue, Rgb(92, 92, 255)),
    ("bright-magenta", Color::LightMagenta, Rgb(255, 0, 255)),
    ("bright-cyan", Color::LightCyan, Rgb(0, 255, 255)),
    ("bright-white", Color::White, Rgb(255, 255, 255)),
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[("TERM", "xterm-256color")], Depth::TwoHundredFiftySix)]
    #[case(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")], Depth::True)]
    #[case(&[("TERM", "xterm-256color"), ("COLORTERM", "24bit"), ("NO_COLOR", "1")], Depth::None)]
    #[case(&[("TERM", "xterm-256color"), ("NO_COLOR", "")], Depth::TwoHundredFiftySix)]
    #[case(&[("TERM", "xterm-kitty")], Depth::True)]
    #[case(&[("TERM", "linux")], Depth::Sixteen)]
    #[case(&[("TERM", "screen")], Depth::Sixteen)]
    #[case(&[("TERM", "dumb"), ("COLORTERM", "truecolor")], Depth::None)]
    #[case(&[("TERM", "vt220")], Depth::None)]
    #[case(&[], Depth::None)]
    fn the_environment_tells_how_many_colours_there_are(#[case] set: &[(&str, &str)], #[case] depth: Depth) {
        let variables = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment = Environment { variables: variables.collect(), ..Environment::default() };
        assert_eq!(Depth::of(&environment), depth);
    }

    #[test]
    fn a_colour_becomes_the_nearest_one_there_is() {
        let degraded = |text: &str, depth| Rgb::parse(text).unwrap().at(depth).unwrap();
        assert_eq!(degraded("#ff8700", Depth::True), Color::Rgb(255, 135, 0));
        assert_eq!(degraded("#ff8700", Depth::TwoHundredFiftySix), Color::Indexed(208));
        assert_eq!(degraded("#fe8801", Depth::TwoHundredFiftySix), Color::Indexed(208));
        assert_eq!(degraded("#808080", Depth::TwoHundredFiftySix), Color::Indexed(244));
        assert_eq!(degraded("#000000", Depth::TwoHundredFiftySix), Color::Indexed(16));
        assert_eq!(degraded("#ffffff", Depth::TwoHundredFiftySix), Color::Indexed(231));
        assert_eq!(degraded("#fa1020", Depth::Sixteen), Color::LightRed);
        assert_eq!(degraded("#101010", Depth::Sixteen), Color::Black);
        assert_eq!(Rgb(1, 2, 3).at(Depth::None), None);
    }

    #[test]
    fn every_colour_of_256_stands_for_itself() {
        for index in 16..=255 {
            let shown = of_256(index);
            assert_eq!(of_256(shown.nearest_of_256()), shown, "{index}");
        }
    }

    #[rstest]
    #[case("#abc")]
    #[case("abcdef")]
    #[case("#abcdeg")]
    #[case("#+1+2+3")]
    #[case("#äöü")]
    fn what_is_no_colour_is_none(#[case] text: &str) {
        assert_eq!(Rgb::parse(text), None);
    }
}
