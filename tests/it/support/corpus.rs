//! What people who mean no good, and programs that do not care, write into names, labels, titles and logs.

#![allow(dead_code, reason = "each test file uses a part of it")]

/// The hostile corpus, each with a word by which it can be told.
pub(crate) fn corpus() -> Vec<(&'static str, String)> {
    let mut corpus: Vec<(&'static str, String)> = [
        ("osc-0", "\u{1b}]0;owned\u{7}"),
        ("osc-8", "\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\"),
        ("osc-52", "\u{1b}]52;c;ZXZpbA==\u{7}"),
        ("csi-2j", "\u{1b}[2J\u{1b}[H"),
        ("csi-6n", "\u{1b}[6n"),
        ("dcs", "\u{1b}P+q544e\u{1b}\\"),
        ("apc", "\u{1b}_Gi=1;AAAA\u{1b}\\"),
        ("c1-csi", "\u{9b}31m"),
        ("c1-osc", "\u{9d}0;x\u{9c}"),
        ("nul", "a\0b"),
        ("carriage-return", "good\rbad"),
        ("newline", "line\nFAKE LINE"),
        ("tab", "a\tb"),
        ("backspace", "abc\u{8}\u{8}\u{8}xyz"),
        ("delete", "a\u{7f}b"),
        ("lone-escape", "end\u{1b}"),
        ("arabic-mark", "a\u{61c}b"),
        ("zero-width", "a\u{200b}b\u{200c}c\u{200d}d\u{200e}e\u{200f}f"),
        ("bidi-override", "\u{202e}gnp.exe\u{202c}\u{202a}\u{202b}\u{202d}"),
        ("bidi-isolate", "\u{2066}a\u{2067}b\u{2068}c\u{2069}"),
        ("byte-order-mark", "\u{feff}x"),
        ("line-separator", "a\u{2028}b\u{2029}c"),
        ("zwj-emoji", "👩\u{200d}👩\u{200d}👧"),
        ("tag-characters", "\u{e0041}\u{e0042}"),
        ("wide", "日本語のなまえ"),
        ("markup", "<b>\"'`$(reboot)`\\"),
    ]
    .map(|(word, text)| (word, text.to_owned()))
    .to_vec();
    corpus.push(("combining", format!("z{}", "\u{301}".repeat(10_000))));
    corpus.push(("long", "x".repeat(1_000_000)));
    corpus
}

/// Whether a character steers a terminal or hides in a text.
pub(crate) fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}
