//! Labels, kept close together: of a host with ten thousand containers they are most of what there is to know.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// The labels of a container or an image. Whoever clones them shares them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Arc<Packed>);

/// All keys and values in one text, sorted by key.
#[derive(Default, PartialEq, Eq)]
struct Packed {
    text: Box<str>,
    /// Where each key and each value ends, in turn.
    ends: Box<[u32]>,
}

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(self.value(middle)),
            }
        }
        None
    }

    /// Every label, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.len()).map(|index| (self.key(index), self.value(index)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.ends.len() / 2
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.ends.is_empty()
    }

    /// Whether both are the same ones, not only equal.
    pub fn are_shared_with(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.0, &others.0)
    }

    fn key(&self, index: usize) -> &str {
        self.piece(2 * index)
    }

    fn value(&self, index: usize) -> &str {
        self.piece(2 * index + 1)
    }

    fn piece(&self, index: usize) -> &str {
        let end = |index: usize| usize::try_from(self.0.ends[index]).unwrap_or(usize::MAX);
        let start = index.checked_sub(1).map_or(0, end);
        // No engine tells four gigabytes of labels; if one did, the last of them would be empty.
        self.0.text.get(start..end(index)).unwrap_or_default()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    /// Of several with the same key the last one counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let mut labels: Vec<(K, V)> = labels.into_iter().collect();
        labels.reverse();
        labels.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
        labels.dedup_by(|(a, _), (b, _)| a.as_ref() == b.as_ref());
        let pieces = || labels.iter().flat_map(|(key, value)| [key.as_ref(), value.as_ref()]);
        let mut text = String::with_capacity(pieces().map(str::len).sum());
        let mut ends = Vec::with_capacity(2 * labels.len());
        for piece in pieces() {
            text.push_str(piece);
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Self(Arc::new(Packed { text: text.into_boxed_str(), ends: ends.into_boxed_slice() }))
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Labels {
    fn from(labels: [(&str, &str); N]) -> Self {
        labels.into_iter().collect()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::<String, String>::deserialize(deserializer).map(|labels| labels.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_is_found_and_nothing_else() {
        let labels = Labels::from([("b", "2"), ("a", ""), ("", "none"), ("ab", "a=b")]);
        for (key, value) in [("", "none"), ("a", ""), ("ab", "a=b"), ("b", "2")] {
            assert_eq!(labels.get(key), Some(value), "{key}");
        }
        for key in ["c", "aa", "2", "ba"] {
            assert_eq!(labels.get(key), None, "{key}");
        }
        assert_eq!(labels.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["", "a", "ab", "b"]);
    }

    #[test]
    fn equal_labels_are_equal_however_they_came_and_others_are_not() {
        assert_eq!(
            Labels::from([("a", "1"), ("b", "2")]),
            Labels::from([("b", "2"), ("a", "0"), ("a", "1")])
        );
        assert_ne!(Labels::from([("a", "bc")]), Labels::from([("ab", "c")]));
        assert_ne!(Labels::default(), Labels::from([("", "")]));
        assert!(Labels::default().is_empty());
    }

    #[test]
    fn they_are_read_and_written_as_an_object() {
        let text = r#"{"a":"1","ä":"\u0000"}"#;
        let labels: Labels = serde_json::from_str(text).unwrap();
        assert_eq!((labels.len(), labels.get("ä")), (2, Some("\0")));
        assert_eq!(serde_json::to_string(&labels).unwrap(), text);
    }
}
