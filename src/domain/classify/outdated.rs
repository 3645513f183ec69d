//! Is a container's configuration the current one? By its config hash, and by the image its tag names now.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::domain::container::{Container, ContainerId};
use crate::domain::evidence::{Evidence, HashSource};
use crate::domain::policy::Policy;
use crate::domain::profile::{ExpectedHash, HashRule, Profile};
use crate::domain::snapshot::{Images, TagFact};

use super::attribute::Candidate;

/// The hash that containers of one system are compared with.
#[derive(Clone, Debug)]
pub(super) enum CurrentConfig {
    /// The system has no hashes, or none of its containers carries one.
    None,
    /// The hashes differ and no single container is the newest, so nothing is outdated by its hash.
    Undecided,
    /// This one.
    Hash { hash: String, source: HashSource },
}

impl CurrentConfig {
    /// The operator's word, else the profile's, else that of the newest container that is surely ours.
    pub(super) fn of(
        profile: &Profile,
        candidates: &[Candidate<'_>],
        made_again: &HashMap<ContainerId, Timestamp>,
        policy: &Policy,
        now: Timestamp,
    ) -> Self {
        let Some(rule) = &profile.config_hash else { return Self::None };
        if let Some(hash) = policy.expected_hash_for(&profile.name) {
            return Self::Hash { hash: hash.to_owned(), source: HashSource::Operator };
        }
        if let ExpectedHash::Literal(hash) = &rule.expected {
            return Self::Hash { hash: hash.clone(), source: HashSource::Profile };
        }
        // What was made again is as old as what it was made after: its hash is no news.
        let made_at = |c: &Candidate<'_>| {
            let made_at = c.container.created_at;
            made_again.get(&c.container.id).map_or(made_at, |first| (*first).min(made_at))
        };
        let ours = candidates.iter().filter(|candidate| candidate.doubt.is_none());
        let hashed: Vec<(Timestamp, &str)> =
            ours.filter_map(|c| Some((made_at(c), hash_of(rule, c.container)?))).collect();
        let Some(newest) = hashed.iter().map(|(created_at, _)| *created_at).max() else { return Self::None };
        // A newer one whose image could not be asked may be ours, and then its hash would be the current one.
        let unsure = candidates
            .iter()
            .filter(|c| matches!(c.doubt.as_deref(), Some(Evidence::ImageUnverifiable { .. })));
        let newer = |c: &Candidate<'_>| made_at(c) >= newest && hash_of(rule, c.container).is_some();
        if unsure.into_iter().any(newer) {
            return Self::Undecided;
        }
        // One dated in the future was made by a clock that went wrong: then any of them may be the newest.
        let mut contenders = hashed.iter().filter(|(created_at, _)| *created_at == newest || newest > now);
        match contenders.next() {
            Some((_, hash)) if contenders.all(|(_, other)| other == hash) => {
                Self::Hash { hash: (*hash).to_owned(), source: HashSource::Newest }
            }
            _ => Self::Undecided,
        }
    }

    /// Every reason for which the container is outdated.
    pub(super) fn outdated(
        &self,
        container: &Container,
        profile: &Profile,
        images: &Images,
    ) -> Vec<Evidence> {
        let mut reasons = Vec::new();
        let own = profile.config_hash.as_ref().and_then(|rule| hash_of(rule, container));
        match (self, own) {
            (Self::Hash { hash: expected, source }, Some(hash)) if hash != expected => {
                reasons.push(Evidence::ConfigOutdated {
                    hash: hash.to_owned(),
                    expected: expected.clone(),
                    source: *source,
                });
            }
            (Self::Undecided, Some(_)) => reasons.push(Evidence::ConfigUndecided),
            _ => {}
        }
        if profile.image_drift {
            reasons.extend(image_moved(container, images));
        }
        reasons
    }
}

/// What the reasons for which a container is outdated amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outdated {
    /// It is current, or that cannot be told.
    No,
    /// It differs from the newest container, which may be the one that is wrong.
    Guessed,
    /// It is not what the operator, the profile or the image's tag names.
    Named,
}

impl Outdated {
    pub(super) fn by(reasons: &[Evidence]) -> Self {
        let weight = |reason: &Evidence| match reason {
            Evidence::ConfigUndecided => Self::No,
            Evidence::ConfigOutdated { source: HashSource::Newest, .. } => Self::Guessed,
            _ => Self::Named,
        };
        reasons.iter().map(weight).max().unwrap_or(Self::No)
    }
}

/// The container's own hash; an empty label is none.
fn hash_of<'a>(rule: &HashRule, container: &'a Container) -> Option<&'a str> {
    container.labels.get(&rule.label).filter(|hash| !hash.is_empty())
}

/// A tag that names nothing any more, or could not be asked for, is no evidence that it names another image.
fn image_moved(container: &Container, images: &Images) -> Option<Evidence> {
    let reference = container.image_reference();
    match images.by_reference.get(reference)? {
        TagFact::Names(now) if digest(now) != digest(&container.image_id) => Some(Evidence::ImageMoved {
            reference: reference.to_owned(),
            image_id: container.image_id.to_string(),
            now: now.clone(),
        }),
        _ => None,
    }
}

/// An image id without its scheme, for engines differ in whether they write it.
fn digest(image_id: &str) -> &str {
    image_id.strip_prefix("sha256:").unwrap_or(image_id)
}
