//! Characters that are drawn: frames, rules, bars and gauges, which must meet those in the cells beside them.

use super::{hex, tenths};
use crate::ui::theme::Rgb;

/// Draws the character in a cell, or `None` when it is one to be written.
pub(super) fn drawing(
    symbol: &str,
    (x, y): (usize, usize),
    (wide, high): (usize, usize),
    colour: Rgb,
    ground: Rgb,
) -> Option<String> {
    let mut chars = symbol.chars();
    let (Some(c), None) = (chars.next(), chars.next()) else { return None };
    let block = |top: usize, colour: Rgb| {
        let (x, y, wide, high) = (tenths(x), tenths(y + top), tenths(wide), tenths(high - top));
        let colour = hex(colour);
        format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" fill=\"{colour}\" \
             shape-rendering=\"crispEdges\"/>"
        )
    };
    match c {
        // One eighth to eight of them, from below.
        '▁'..='█' => {
            let eighths = usize::try_from(u32::from(c) - u32::from('▁') + 1).ok()?;
            Some(block(high - high * eighths / 8, colour))
        }
        '░' => Some(block(0, colour.mixed(ground, 75))),
        '▒' => Some(block(0, colour.mixed(ground, 50))),
        '▓' => Some(block(0, colour.mixed(ground, 25))),
        _ => {
            let (middle, half) = (x + wide / 2, y + high / 2);
            let path: String = arms(c)?
                .chars()
                .map(|arm| match arm {
                    'u' => format!("M{} {}V{}", tenths(middle), tenths(half), tenths(y)),
                    'd' => format!("M{} {}V{}", tenths(middle), tenths(half), tenths(y + high)),
                    'l' => format!("M{} {}H{}", tenths(middle), tenths(half), tenths(x)),
                    'r' => format!("M{} {}H{}", tenths(middle), tenths(half), tenths(x + wide)),
                    // Rounded corners, from the side to the top or the bottom.
                    corner => {
                        let side = if matches!(corner, '1' | '3') { x + wide } else { x };
                        let end = if matches!(corner, '1' | '2') { y + high } else { y };
                        let (side, half, middle, end) =
                            (tenths(side), tenths(half), tenths(middle), tenths(end));
                        format!("M{side} {half}Q{middle} {half} {middle} {end}")
                    }
                })
                .collect();
            Some(format!(
                "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-linecap=\"square\"/>",
                hex(colour)
            ))
        }
    }
}

/// Where the lines of a character go from its middle: up, down, left, right; or which corner it rounds.
fn arms(c: char) -> Option<&'static str> {
    Some(match c {
        '─' | '━' => "lr",
        '│' | '┃' => "ud",
        '┌' | '┏' => "rd",
        '┐' | '┓' => "ld",
        '└' | '┗' => "ru",
        '┘' | '┛' => "lu",
        '├' => "udr",
        '┤' => "udl",
        '┬' => "lrd",
        '┴' => "lru",
        '┼' => "udlr",
        '╭' => "1",
        '╮' => "2",
        '╰' => "3",
        '╯' => "4",
        _ => return None,
    })
}
