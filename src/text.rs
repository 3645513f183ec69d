//! The boundary that everything from outside crosses before a person sees it: names, labels, titles, paths, errors.
//!
//! A container name or a session title can carry terminal escape sequences, bidirectional overrides or characters
//! without width. They are made visible or taken out here, once, so that no table and no sentence has to think
//! about it.

pub mod ansi;

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The longest text that is shown in one piece.
const LONGEST: usize = 2_000;

/// Whether a character could steer the terminal or mislead the reader.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// One harmless line: control characters, bidirectional and invisible characters become `·`, piles of combining
/// marks are cut, and what is longer than anyone reads is shortened.
pub fn clean(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !is_hostile(c) && c.width() != Some(0);
    if text.len() <= LONGEST && text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len().min(LONGEST));
    let mut marks = 0;
    for (count, c) in text.chars().enumerate() {
        if count == LONGEST {
            cleaned.push('…');
            break;
        }
        if is_hostile(c) {
            marks = 0;
            // A run of hostile characters is one dot.
            if !cleaned.ends_with('·') {
                cleaned.push('·');
            }
        } else if c.width() == Some(0) {
            marks += 1;
            if marks <= 2 {
                cleaned.push(c);
            }
        } else {
            marks = 0;
            cleaned.push(c);
        }
    }
    Cow::Owned(cleaned)
}

/// How many terminal cells a text takes.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The text in exactly `cells` cells: padded, or cut with `…`.
pub fn fit(text: &str, cells: usize) -> String {
    let mut fitted = shorten(text, cells);
    let missing = cells.saturating_sub(width(&fitted));
    fitted.extend(std::iter::repeat_n(' ', missing));
    fitted
}

/// The text in at most `cells` cells, cut with `…`.
pub fn shorten(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let mut shortened = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = c.width().unwrap_or(0);
        if used + next + 1 > cells {
            break;
        }
        used += next;
        shortened.push(c);
    }
    if cells > 0 {
        shortened.push('…');
    }
    shortened
}

/// JSON in which no character can steer a terminal: hostile characters are written as `\u` escapes, which every
/// JSON reader turns back into what they were.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let needs_escape = |c: char| is_hostile(c) && !matches!(c, '\n' | '\t' | '\r');
    if !json.chars().any(needs_escape) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    let mut units = [0_u16; 2];
    for c in json.chars() {
        if needs_escape(c) {
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// The candidate that was probably meant, for "did you mean".
pub fn closest<'a>(meant: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A text of another length altogether was not meant, and would take long to compare.
    let alike = |candidate: &&str| meant.len().abs_diff(candidate.len()) <= 8;
    candidates
        .into_iter()
        .filter(alike)
        .map(|candidate| (edit_distance(meant, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (row, from) in a.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, to) in b.iter().enumerate() {
            let replaced = previous[column] + usize::from(from != *to);
            current.push(replaced.min(previous[column + 1] + 1).min(current[column] + 1));
        }
        previous = current;
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_passes_untouched() {
        for text in ["parachute-ws-atlas", "größe", "日本語", "a b", "⏎ ✓ …", "e\u{301}"] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn nothing_that_steers_a_terminal_or_hides_comes_through() {
        let hostile = [
            "\u{1b}]0;title\u{7}",
            "\u{1b}[2J",
            "\u{9b}6n",
            "a\0b",
            "a\r\nb",
            "\u{8}",
            "\u{202e}evil",
            "\u{200b}",
            "\u{2066}x\u{2069}",
            "\u{feff}",
            "\u{61c}",
            "👩\u{200d}💻",
            "\u{e0041}",
        ];
        for text in hostile {
            let cleaned = clean(text);
            assert!(cleaned.chars().all(|c| !is_hostile(c)), "{cleaned:?}");
            let json = serde_json::to_string(text).unwrap();
            let escaped = escape_json(&json);
            assert!(escaped.chars().all(|c| !is_hostile(c)), "{escaped:?}");
            assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text, "JSON stays lossless");
        }
    }

    #[test]
    fn piles_of_combining_marks_and_endless_texts_are_cut() {
        let zalgo: String = std::iter::once('a').chain(std::iter::repeat_n('\u{301}', 10_000)).collect();
        assert!(clean(&zalgo).chars().count() <= 4);
        assert!(clean(&"x".repeat(1_000_000)).chars().count() <= LONGEST + 1);
    }

    #[test]
    fn widths_are_counted_in_cells_not_characters() {
        assert_eq!(fit("日本語", 4), "日… ");
        assert_eq!(fit("ab", 4), "ab  ");
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten("abcdef", 0), "");
    }

    #[test]
    fn a_slip_of_the_finger_finds_what_was_meant() {
        assert_eq!(closest("intervall", ["interval", "timeout"]), Some("interval"));
        assert_eq!(closest("zzz", ["interval", "timeout"]), None);
    }
}
