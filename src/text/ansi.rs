//! Log lines with their colours and nothing else that a program can ask of a terminal.
//!
//! Programs colour what they log, and people want to see it. Of all escape sequences only those that choose the colour and
//! weight of letters are understood; every other one is taken out whole, with what it carries.

use std::iter::Peekable;
use std::str::Chars;

use unicode_width::UnicodeWidthChar;

use super::is_hostile;

/// The longest line that is shown; more than a log line keeps.
const LONGEST: usize = 5_000;

/// How far apart tab stops are.
const TAB: usize = 8;

/// How a program wants letters to look. Grounds are left out, so greys and black are too: on the wrong ground they would
/// hide the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is switched on and off on its own")]
pub struct Paint {
    /// The colour of the letters.
    pub foreground: Option<Colour>,
    /// Bold.
    pub bold: bool,
    /// Faint.
    pub dim: bool,
    /// Slanted.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
}

/// A colour that a program chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// One of xterm's 256.
    Indexed(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// A line as pieces of harmless text, each with its look. Tabs become spaces; what `clean` makes visible is made visible here
/// in the same way.
pub fn spans(line: &str) -> Vec<(Paint, String)> {
    let mut painter = Painter::default();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if painter.written == LONGEST {
            painter.put('…', 1);
            break;
        }
        match c {
            '\u{1b}' => painter.escape(&mut chars),
            '\u{9b}' => painter.control_sequence(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut chars),
            '\u{80}'..='\u{9f}' => {}
            '\t' => {
                for _ in 0..TAB - painter.column % TAB {
                    painter.put(' ', 1);
                }
            }
            hostile if is_hostile(hostile) => painter.dot(),
            letter => painter.letter(letter),
        }
    }
    painter.spans
}

/// The line's text alone, for searching.
pub fn plain(line: &str) -> String {
    spans(line).into_iter().map(|(_, text)| text).collect()
}

#[derive(Default)]
struct Painter {
    spans: Vec<(Paint, String)>,
    paint: Paint,
    /// The next cell.
    column: usize,
    written: usize,
    /// Combining marks on the last letter.
    marks: usize,
}

impl Painter {
    fn put(&mut self, c: char, width: usize) {
        match self.spans.last_mut() {
            Some((paint, text)) if *paint == self.paint => text.push(c),
            _ => self.spans.push((self.paint, c.to_string())),
        }
        self.column += width;
        self.written += 1;
    }

    fn letter(&mut self, letter: char) {
        match letter.width().unwrap_or(0) {
            0 if self.marks >= 2 => {}
            0 => {
                self.marks += 1;
                self.put(letter, 0);
            }
            width => {
                self.marks = 0;
                self.put(letter, width);
            }
        }
    }

    /// A run of hostile characters is one dot.
    fn dot(&mut self) {
        self.marks = 0;
        if !self.spans.last().is_some_and(|(_, text)| text.ends_with('·')) {
            self.put('·', 1);
        }
    }

    fn escape(&mut self, chars: &mut Peekable<Chars<'_>>) {
        match chars.next_if(|next| !next.is_control()) {
            Some('[') => self.control_sequence(chars),
            Some(']' | 'P' | 'X' | '^' | '_') => skip_string(chars),
            // The choice of a character set and the like.
            Some(' '..='/') => {
                while chars.next_if(|next| matches!(next, ' '..='/')).is_some() {}
                chars.next_if(|next| matches!(next, '0'..='~'));
            }
            // Alone at the end of the line, before another sequence, or with a letter that it takes along.
            _ => {}
        }
    }

    fn control_sequence(&mut self, chars: &mut Peekable<Chars<'_>>) {
        let mut parameters = String::new();
        while let Some(next) = chars.next_if(|next| matches!(next, ' '..='?')) {
            parameters.push(next);
        }
        // What is no part of a sequence is text again.
        if chars.next_if(|next| matches!(next, '@'..='~')) == Some('m') {
            self.select(&parameters);
        }
    }

    /// `SGR`: a list of numbers, some with numbers of their own.
    fn select(&mut self, parameters: &str) {
        if !parameters.chars().all(|c| c.is_ascii_digit() || matches!(c, ';' | ':')) {
            return;
        }
        let mut groups = parameters.split(';');
        while let Some(group) = groups.next() {
            let mut parts = group.split(':');
            let code = number(parts.next().unwrap_or_default());
            let own: Vec<Option<u16>> = parts.map(number).collect();
            let (paint, off) = (&mut self.paint, own.first() == Some(&Some(0)));
            match code.unwrap_or(0) {
                0 => *paint = Paint::default(),
                1 => paint.bold = true,
                2 => paint.dim = true,
                3 => paint.italic = true,
                4 => paint.underline = !off,
                21 => paint.underline = true,
                22 => (paint.bold, paint.dim) = (false, false),
                23 => paint.italic = false,
                24 => paint.underline = false,
                code @ 30..=37 => paint.choose(Colour::indexed(code - 30)),
                code @ 90..=97 => paint.choose(Colour::indexed(code - 90 + 8)),
                38 => paint.choose(extended(&own, &mut groups)),
                39 => paint.foreground = None,
                // Grounds and underlines have colours as well, which must not be taken for something else.
                48 | 58 => {
                    extended(&own, &mut groups);
                }
                _ => {}
            }
        }
    }
}

impl Paint {
    fn choose(&mut self, colour: Option<Colour>) {
        self.foreground = colour.filter(|colour| !colour.is_grey());
        self.dim |= colour == Some(Colour::Indexed(8));
    }
}

impl Colour {
    fn indexed(index: u16) -> Option<Self> {
        u8::try_from(index).ok().map(Self::Indexed)
    }

    /// Without a hue, so that it shows on a light or on a dark ground only.
    fn is_grey(self) -> bool {
        match self {
            Self::Indexed(index) => match index {
                0 | 7 | 8 | 15 | 232.. => true,
                // The diagonal of the cube.
                16.. => (index - 16) % 43 == 0,
                _ => false,
            },
            Self::Rgb(red, green, blue) => red.max(green).max(blue) - red.min(green).min(blue) < 48,
        }
    }
}

/// The colour after `38`: `5` and an index, or `2` and three parts; in the group's own numbers or in the groups that follow.
fn extended<'a>(own: &[Option<u16>], groups: &mut impl Iterator<Item = &'a str>) -> Option<Colour> {
    let mut next = || groups.next().and_then(number);
    let part = |value: Option<u16>| u8::try_from(value?).ok();
    match own {
        [] => match next()? {
            5 => Colour::indexed(next()?),
            2 => {
                let parts = [next(), next(), next()].map(part);
                Some(Colour::Rgb(parts[0]?, parts[1]?, parts[2]?))
            }
            _ => None,
        },
        [Some(5), index, ..] => Colour::indexed((*index)?),
        // Some name a colour space first.
        [Some(2), _, red, green, blue, ..] | [Some(2), red, green, blue] => {
            Some(Colour::Rgb(part(*red)?, part(*green)?, part(*blue)?))
        }
        _ => None,
    }
}

fn number(text: &str) -> Option<u16> {
    text.parse().ok()
}

/// The payload of a title, a link, a picture or a clipboard: up to its end, or to the end of the line.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    while let Some(c) = chars.next() {
        match c {
            '\u{7}' | '\u{9c}' | '\u{18}' | '\u{1a}' => return,
            '\u{1b}' if chars.next_if_eq(&'\\').is_some() => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::title("a\u{1b}]0;evil\u{7}b", "ab")]
    #[case::link("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\!", "link!")]
    #[case::clipboard("a\u{1b}]52;c;ZXZpbA==\u{7}b", "ab")]
    #[case::title_without_end("a\u{1b}]0;evil", "a")]
    #[case::device_control("a\u{1b}Pq#0;2\u{1b}\\b", "ab")]
    #[case::application("a\u{1b}_Gf=100;x\u{1b}\\b", "ab")]
    #[case::raw_controls("a\u{9b}2Jb\u{9d}0;evil\u{9c}c\u{85}d", "abcd")]
    #[case::clear("a\u{1b}[2J\u{1b}[H\u{1b}[6nb", "ab")]
    #[case::private("a\u{1b}[?1049hb\u{1b}[>1uc", "abc")]
    #[case::character_set("a\u{1b}(0b\u{1b}%Gc", "abc")]
    #[case::reset("a\u{1b}cb\u{1b}7c", "abc")]
    #[case::lone("a\u{1b}", "a")]
    #[case::broken("a\u{1b}[31\u{e4}b", "a\u{e4}b")]
    #[case::nested("a\u{1b}\u{1b}[2Jb", "ab")]
    #[case::overwriting("10%\r20%\u{8}\u{8}", "10%·20%·")]
    #[case::invisible("a\u{202e}b\u{200b}c", "a·b·c")]
    #[case::tabs("a\tbc\td\u{65e5}\te", "a       bc      d日     e")]
    #[case::piled("a\u{301}\u{301}\u{301}\u{301}", "a\u{301}\u{301}")]
    fn only_text_is_left(#[case] line: &str, #[case] expected: &str) {
        assert_eq!(plain(line), expected);
    }

    fn red() -> Paint {
        Paint { foreground: Some(Colour::Indexed(1)), ..Paint::default() }
    }

    #[test]
    fn letters_keep_their_colours() {
        let line = "plain \u{1b}[31mred \u{1b}[1mbold\u{1b}[0m \u{1b}[3;4mboth\u{1b}[23;24m.";
        let both = Paint { italic: true, underline: true, ..Paint::default() };
        let expected = [
            (Paint::default(), "plain "),
            (red(), "red "),
            (Paint { bold: true, ..red() }, "bold"),
            (Paint::default(), " "),
            (both, "both"),
            (Paint::default(), "."),
        ];
        assert_eq!(spans(line), expected.map(|(paint, text)| (paint, text.to_owned())));
    }

    #[rstest]
    #[case("38;5;208", Some(Colour::Indexed(208)))]
    #[case("38:5:208", Some(Colour::Indexed(208)))]
    #[case("38;2;255;100;0", Some(Colour::Rgb(255, 100, 0)))]
    #[case("38:2:255:100:0", Some(Colour::Rgb(255, 100, 0)))]
    #[case("38:2::255:100:0", Some(Colour::Rgb(255, 100, 0)))]
    #[case("96", Some(Colour::Indexed(14)))]
    #[case("48;5;31;32", Some(Colour::Indexed(2)))]
    #[case("48;2;31;31;31", None)]
    #[case("58:2::1:2:3;31", Some(Colour::Indexed(1)))]
    #[case("31;39", None)]
    #[case("31;", None)]
    #[case("38;5;999", None)]
    #[case("38;5", None)]
    #[case("38", None)]
    #[case("30", None)]
    #[case("97", None)]
    #[case("38;5;231", None)]
    #[case("38;2;1;1;9", None)]
    #[case("99999999999999", None)]
    fn colours_are_read_in_every_way_they_are_written(#[case] code: &str, #[case] colour: Option<Colour>) {
        let painted = spans(&format!("\u{1b}[{code}mx"));
        assert_eq!(painted.len(), 1);
        assert_eq!(painted[0].0.foreground, colour);
    }

    #[test]
    fn an_endless_line_is_cut() {
        let cut = plain(&"x".repeat(100_000));
        assert!(cut.ends_with("x…") && cut.chars().count() <= LONGEST + 1);
    }

    proptest! {
        #[test]
        fn nothing_that_steers_a_terminal_comes_through(
            line in prop_oneof![
                any::<String>(),
                "[\\x1b\\[\\]P_0-9;:m?\\x07\\\\\\u{9b}\\u{9d}\\u{202e}\t\ra-c ]{0,80}",
            ]
        ) {
            let shown = plain(&line);
            prop_assert!(!shown.chars().any(is_hostile), "{shown:?}");
            prop_assert_eq!(plain(&shown), shown.clone(), "once is enough");
            prop_assert!(spans(&line).iter().all(|(_, text)| !text.is_empty()));
        }

        #[test]
        fn what_is_already_harmless_is_untouched(line in "[a-zäöü日 .,-]{0,200}") {
            prop_assert_eq!(plain(&line), line);
        }
    }
}
