//! Chance that can be repeated: the same seed throws the same dice.

use std::fmt::Write;

/// A small generator (splitmix64); good enough for scenes and faults, useless for secrets.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from zero up to, and without, `end`; zero when there is no such number.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        if end == 0 { 0 } else { usize::try_from(self.throw() % end).unwrap_or_default() }
    }

    /// Whether something that happens in so many of a hundred cases happens now.
    pub fn happens(&mut self, percent: u8) -> bool {
        self.below(100) < usize::from(percent)
    }

    /// One of several, if there is one.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        among.get(self.below(among.len()))
    }

    /// So many hex digits.
    pub fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits + 16);
        while text.len() < digits {
            // Writing to a string cannot fail.
            let _ = write!(text, "{:016x}", self.throw());
        }
        text.truncate(digits);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same_dice() {
        let throw = |seed| {
            let mut dice = Dice::new(seed);
            (dice.hex(64), dice.below(1000), dice.pick(&[1, 2, 3]).copied())
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
        assert_eq!(Dice::new(1).below(0), 0);
        assert_eq!(Dice::new(1).pick::<u8>(&[]), None);
    }
}
