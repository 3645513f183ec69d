//! A quick hash for the joins, which look up several keys for each of many thousand sessions.
//!
//! Keys come from labels and databases, so whoever writes those must not be able to choose them to collide: every
//! table has a secret seed of its own.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

pub(super) type QuickMap<K, V> = HashMap<K, V, Seeded>;
pub(super) type QuickSet<K> = HashSet<K, Seeded>;

/// An odd number without a pattern, for multiplying.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Makes hashers that start from one secret seed.
#[derive(Clone, Debug)]
pub(super) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(RandomState::new().hash_one(MULTIPLIER))
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding(self.0)
    }
}

/// Eight bytes at a time: multiplies to twice the width and folds both halves together.
pub(super) struct Folding(u64);

impl Folding {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        let [low, high] = [product, product >> 64].map(|half| half & u128::from(u64::MAX));
        self.0 = u64::try_from(low ^ high).unwrap_or_default();
    }
}

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        self.0 ^= bytes.len() as u64;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        match bytes.last_chunk::<8>() {
            _ if rest.is_empty() => {}
            Some(last) => self.fold(u64::from_le_bytes(*last)),
            None => self.fold(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))),
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.0 ^= u64::from(byte);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
