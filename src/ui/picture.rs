//! The screen as a picture: a terminal window in SVG, the same to the last byte for the same screen.
//!
//! Whoever looks at it may have any font. Text is put on the grid piece by piece and stretched to its cells; lines and
//! blocks, which must meet their neighbours, are drawn and not written.

mod lines;

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::theme::{Rgb, rgb_of};
use crate::text::{clean, width};

/// A cell, in tenths of a pixel. Not every program stretches text: the size of the letters is the one at which those of the
/// first font are as wide as this anyway.
const WIDE: usize = 84;
const HIGH: usize = 180;
/// From the top of a cell to the line the letters stand on.
const BASELINE: usize = 134;
/// Around the screen, and the bar above it.
const MARGIN: usize = 120;
const BAR: usize = 340;

/// Draws the screen in a window of this title, on a terminal whose own colours are these: text and ground.
pub fn svg(screen: &Buffer, title: &str, ground: (Rgb, Rgb)) -> String {
    let mut picture = Picture { svg: String::new(), ground };
    let (wide, high) = size(screen);
    picture.frame(wide, high, title);
    picture.screen(screen);
    picture.svg.push_str("</svg>\n");
    picture.svg
}

/// Draws screens of one size, each for as long as `pause`, over and over. Where nothing moves the first one is seen.
#[expect(clippy::cast_precision_loss, reason = "there are few pictures")]
pub fn animation(screens: &[Buffer], title: &str, ground: (Rgb, Rgb), pause: Duration) -> String {
    let mut picture = Picture { svg: String::new(), ground };
    let Some((first, others)) = screens.split_first() else { return String::new() };
    let (wide, high) = size(first);
    picture.frame(wide, high, title);
    let share = 100.0 / screens.len() as f64;
    let whole = pause.as_secs_f64() * screens.len() as f64;
    picture.write(format_args!(
        "<style>@keyframes turn{{0%{{visibility:visible}}{share:.3}%{{visibility:hidden}}100%{{visibility:hidden}}}}\
         .turn{{visibility:hidden;animation:turn {whole:.2}s step-end infinite}}</style>"
    ));
    picture.screen(first);
    for (index, screen) in others.iter().enumerate() {
        let delay = pause.as_secs_f64() * (index + 1) as f64;
        picture.write(format_args!("<g class=\"turn\" style=\"animation-delay:{delay:.2}s\">"));
        // Each covers the one that is always there.
        picture.rectangle(place(0, 0), (wide - 2 * MARGIN, high - BAR - MARGIN), ground.1);
        picture.screen(screen);
        picture.write(format_args!("</g>"));
    }
    picture.svg.push_str("</svg>\n");
    picture.svg
}

/// The whole window around a screen.
fn size(screen: &Buffer) -> (usize, usize) {
    let (columns, rows) = (usize::from(screen.area.width), usize::from(screen.area.height));
    (columns * WIDE + 2 * MARGIN, rows * HIGH + BAR + MARGIN)
}

fn place(row: usize, column: usize) -> (usize, usize) {
    (MARGIN + column * WIDE, BAR + row * HIGH)
}

/// What reaches the eye from one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    text: Rgb,
    ground: Rgb,
    modifier: Modifier,
}

impl Look {
    fn of(cell: &Cell, ground: (Rgb, Rgb)) -> Self {
        let own = |colour: Color, otherwise| rgb_of(colour).unwrap_or(otherwise);
        let mut look =
            Self { text: own(cell.fg, ground.0), ground: own(cell.bg, ground.1), modifier: cell.modifier };
        if cell.modifier.contains(Modifier::REVERSED) {
            (look.text, look.ground) = (look.ground, look.text);
        }
        if cell.modifier.contains(Modifier::DIM) {
            look.text = look.text.mixed(look.ground, 40);
        }
        look.modifier.remove(Modifier::REVERSED | Modifier::DIM);
        look
    }
}

/// A row of the screen: what each cell shows and how. The cells that a wide character covers besides its first show nothing.
struct Line {
    cells: Vec<(String, Look)>,
}

impl Line {
    fn of(screen: &Buffer, row: usize, ground: (Rgb, Rgb)) -> Self {
        let columns = usize::from(screen.area.width);
        let mut cells: Vec<(String, Look)> = Vec::with_capacity(columns);
        let mut covered = 0;
        for cell in screen.content.iter().skip(row * columns).take(columns) {
            if let (Some((_, look)), 1..) = (cells.last(), covered) {
                let look = *look;
                covered -= 1;
                cells.push((String::new(), look));
                continue;
            }
            let look = Look::of(cell, ground);
            covered = width(cell.symbol()).saturating_sub(1);
            cells.push((clean(cell.symbol()).into_owned(), look));
        }
        Self { cells }
    }

    /// Neighbouring cells of which `aspect` is the same.
    fn runs<T: PartialEq>(&self, aspect: impl Fn(&Look) -> T) -> Vec<(Range<usize>, Look)> {
        let mut runs: Vec<(Range<usize>, Look)> = Vec::new();
        for (column, (_, look)) in self.cells.iter().enumerate() {
            match runs.last_mut() {
                Some((cells, last)) if aspect(last) == aspect(look) => cells.end = column + 1,
                _ => runs.push((column..column + 1, *look)),
            }
        }
        runs
    }
}

struct Picture {
    svg: String,
    ground: (Rgb, Rgb),
}

impl Picture {
    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.svg.write_fmt(text);
        self.svg.push('\n');
    }

    fn frame(&mut self, wide: usize, high: usize, title: &str) {
        let (text, ground) = self.ground;
        let (wide_shown, high_shown, title) = (tenths(wide), tenths(high), escape(title));
        let family = "'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace";
        self.write(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{wide_shown}\" height=\"{high_shown}\" \
             viewBox=\"0 0 {wide_shown} {high_shown}\" font-family=\"{family}\" font-size=\"13.95\">"
        ));
        self.write(format_args!("<title>{title}</title>"));
        let (inner_wide, inner_high) = (tenths(wide - 10), tenths(high - 10));
        self.write(format_args!(
            "<rect x=\"0.5\" y=\"0.5\" width=\"{inner_wide}\" height=\"{inner_high}\" rx=\"8\" fill=\"{}\" \
             stroke=\"#8a8f98\"/>",
            hex(ground)
        ));
        for index in 0..3 {
            let x = tenths(170 + index * 180);
            self.write(format_args!("<circle cx=\"{x}\" cy=\"16\" r=\"5\" fill=\"#8a8f98\"/>"));
        }
        let (middle, quiet) = (tenths(wide / 2), hex(text.mixed(ground, 35)));
        self.write(format_args!(
            "<text x=\"{middle}\" y=\"20.5\" text-anchor=\"middle\" font-size=\"13\" fill=\"{quiet}\">{title}</text>"
        ));
    }

    fn screen(&mut self, screen: &Buffer) {
        let ground = self.ground;
        for row in 0..usize::from(screen.area.height) {
            let line = Line::of(screen, row, ground);
            for (cells, look) in line.runs(|look| (look.ground, Rgb(0, 0, 0), Modifier::empty())) {
                if look.ground != ground.1 {
                    let (x, y) = place(row, cells.start);
                    self.rectangle((x, y), (cells.len() * WIDE, HIGH), look.ground);
                }
            }
            for (cells, look) in line.runs(|look| (look.ground, look.text, look.modifier)) {
                self.run(&line, row, cells, look);
            }
        }
    }

    fn rectangle(&mut self, (x, y): (usize, usize), (wide, high): (usize, usize), colour: Rgb) {
        let (x, y, wide, high) = (tenths(x), tenths(y), tenths(wide), tenths(high));
        self.write(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" fill=\"{}\" \
             shape-rendering=\"crispEdges\"/>",
            hex(colour)
        ));
    }

    /// Cells of one look, in pieces: plain letters together, everything else by itself, where fonts disagree about widths.
    fn run(&mut self, line: &Line, row: usize, cells: Range<usize>, look: Look) {
        let mut letters = String::new();
        for column in cells.clone() {
            let symbol = line.cells[column].0.as_str();
            if symbol.is_ascii() && !symbol.is_empty() {
                letters.push_str(symbol);
                continue;
            }
            self.letters(row, column - letters.len(), &std::mem::take(&mut letters), look);
            let (x, y) = place(row, column);
            if let Some(drawing) = lines::drawing(symbol, (x, y), (WIDE, HIGH), look.text, look.ground) {
                self.write(format_args!("{drawing}"));
            } else if !symbol.is_empty() {
                self.text(row, column, width(symbol).max(1), symbol, look);
            }
        }
        self.letters(row, cells.end - letters.len(), &letters, look);
        for (modifier, above) in
            [(Modifier::UNDERLINED, BASELINE + 20), (Modifier::CROSSED_OUT, BASELINE - 45)]
        {
            if look.modifier.contains(modifier) {
                let (x, y) = place(row, cells.start);
                self.rectangle((x, y + above), (cells.len() * WIDE, 10), look.text);
            }
        }
    }

    fn letters(&mut self, row: usize, column: usize, letters: &str, look: Look) {
        let begun = letters.trim_start();
        let written = begun.trim_end();
        if !written.is_empty() {
            self.text(row, column + letters.len() - begun.len(), written.len(), written, look);
        }
    }

    fn text(&mut self, row: usize, column: usize, cells: usize, text: &str, look: Look) {
        let (x, y) = place(row, column);
        let (x, y, length) = (tenths(x), tenths(y + BASELINE), tenths(cells * WIDE));
        let bold = if look.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
        let italic = if look.modifier.contains(Modifier::ITALIC) { " font-style=\"italic\"" } else { "" };
        self.write(format_args!(
            "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\" \
             xml:space=\"preserve\" fill=\"{}\"{bold}{italic}>{}</text>",
            hex(look.text),
            escape(text)
        ));
    }
}

impl Rgb {
    /// This colour with so much of another in it, in percent.
    fn mixed(self, other: Self, percent: u16) -> Self {
        let mix = |one: u8, two: u8| {
            let mixed = (u16::from(one) * (100 - percent) + u16::from(two) * percent) / 100;
            u8::try_from(mixed).unwrap_or(u8::MAX)
        };
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }
}

/// Tenths of a pixel as a number of pixels.
fn tenths(count: usize) -> String {
    match count % 10 {
        0 => (count / 10).to_string(),
        rest => format!("{}.{rest}", count / 10),
    }
}

fn hex(Rgb(red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escape(text: &str) -> String {
    clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    const GROUND: (Rgb, Rgb) = (Rgb(200, 200, 200), Rgb(0, 0, 0));

    fn screen(lines: &[(&str, Style)]) -> Buffer {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, u16::try_from(lines.len()).unwrap()));
        for (row, (text, style)) in (0..).zip(lines) {
            buffer.set_string(0, row, text, *style);
        }
        buffer
    }

    #[test]
    fn a_screen_is_the_same_picture_every_time() {
        let style = Style::new().fg(Color::Rgb(1, 2, 3)).bg(Color::Indexed(208));
        let screen = screen(&[
            ("a <b> & c", style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED)),
            ("● 日x", style),
        ]);
        let picture = svg(&screen, "sandkeeper", GROUND);
        assert_eq!(picture, svg(&screen, "sandkeeper", GROUND));
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn reversed_and_faint_letters_look_it() {
        let reversed = svg(&screen(&[("x", Style::new().add_modifier(Modifier::REVERSED))]), "", GROUND);
        assert!(
            reversed.contains("height=\"18\" fill=\"#c8c8c8\"") && reversed.contains("fill=\"#000000\">x<")
        );
        let faint = svg(&screen(&[("x", Style::new().add_modifier(Modifier::DIM))]), "", GROUND);
        assert!(faint.contains("fill=\"#787878\">x<"), "{faint}");
    }

    #[test]
    fn nothing_in_it_can_be_more_than_text() {
        let hostile = screen(&[("</text><a>", Style::new()), ("\"'&", Style::new())]);
        let picture = svg(&hostile, "<script>\u{1b}", GROUND);
        assert!(!picture.contains("<a>") && !picture.contains("<script") && !picture.contains('\u{1b}'));
        assert!(picture.contains("&lt;/text&gt;&lt;a&gt;"));
    }

    #[test]
    fn lines_and_blocks_are_drawn() {
        let picture = svg(&screen(&[("╭──╮│├┼█▃░", Style::new())]), "", GROUND);
        assert!(!picture.contains('╭') && !picture.contains('█') && picture.contains("<path"), "{picture}");
    }
}
