//! The images of the simulated host, and the tags that name them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::World;
use crate::engine::sim::event::Event;

/// An image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimImage {
    /// `sha256:` and 64 hex digits.
    pub id: String,
    /// Labels that every container made from it inherits.
    pub labels: BTreeMap<String, String>,
    /// When it was built.
    pub created_at: Timestamp,
    /// Its size in bytes.
    pub size: u64,
}

impl World {
    /// Builds an image and gives it a tag, which then no longer names what it named before. Says the image's id.
    pub fn build(&mut self, now: Timestamp, tag: &str, labels: BTreeMap<String, String>) -> String {
        let id = format!("sha256:{}", self.dice.hex(64));
        let size = 40_000_000 + u64::try_from(self.dice.below(400_000_000)).unwrap_or_default();
        self.images.insert(id.clone(), SimImage { id: id.clone(), labels, created_at: now, size });
        let tag = with_version(tag);
        self.tags.insert(tag.clone(), id.clone());
        self.events.push(Event {
            kind: "image",
            action: "tag".to_owned(),
            id: id.clone(),
            image: None,
            attributes: BTreeMap::from([("name".to_owned(), tag)]),
            at: now,
        });
        id
    }

    /// The image that a tag, an id or the beginning of an id names.
    pub fn image(&self, reference: &str) -> Option<&SimImage> {
        if let Some(id) = self.tags.get(&with_version(reference)) {
            return self.images.get(id);
        }
        let digits = reference.strip_prefix("sha256:").unwrap_or(reference);
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let from = format!("sha256:{digits}");
        let mut fitting = self.images.range(from.clone()..).take_while(|(id, _)| id.starts_with(&from));
        let (_, image) = fitting.next()?;
        fitting.next().is_none().then_some(image)
    }

    /// Every image.
    pub(in crate::engine::sim) fn images(&self) -> impl Iterator<Item = &SimImage> {
        self.images.values()
    }

    /// The tags that name an image.
    pub(in crate::engine::sim) fn tags_of(&self, id: &str) -> Vec<&str> {
        self.tags.iter().filter(|(_, named)| *named == id).map(|(tag, _)| tag.as_str()).collect()
    }
}

/// A tag without a version means the latest.
pub(in crate::engine::sim) fn with_version(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or(reference);
    if last.contains([':', '@']) { reference.to_owned() } else { format!("{reference}:latest") }
}
