//! Is a container's configuration the current one? By its config hash, and by the image its tag names now.

use crate::domain::container::Container;
use crate::domain::evidence::{Evidence, HashSource};
use crate::domain::policy::Policy;
use crate::domain::profile::{ExpectedHash, Profile};
use crate::domain::snapshot::{Images, TagFact};

use super::attribute::Candidate;

/// The hash that containers of one system are compared with.
pub(super) enum CurrentConfig {
    /// The system has no hashes, or none of its containers carries one.
    None,
    /// The newest containers disagree, so nothing is outdated by its hash.
    Undecided,
    /// This one.
    Hash { hash: String, source: HashSource },
}

impl CurrentConfig {
    /// The operator's word, else the profile's, else that of the newest container that is surely ours.
    pub(super) fn of(profile: &Profile, candidates: &[Candidate<'_>], policy: &Policy) -> Self {
        let Some(rule) = &profile.config_hash else { return Self::None };
        if let Some(hash) = policy.expected_hash_for(&profile.name) {
            return Self::Hash { hash: hash.to_owned(), source: HashSource::Operator };
        }
        if let ExpectedHash::Literal(hash) = &rule.expected {
            return Self::Hash { hash: hash.clone(), source: HashSource::Profile };
        }
        let hashed =
            candidates.iter().filter(|candidate| candidate.doubt.is_none()).filter_map(|candidate| {
                let hash = candidate.container.labels.get(&rule.label)?;
                Some((candidate.container.created_at, hash))
            });
        let mut newest = None;
        let mut agreed = true;
        for (created_at, hash) in hashed {
            match newest {
                Some((at, _)) if created_at < at => {}
                Some((at, known)) if created_at == at => agreed &= hash == known,
                _ => {
                    newest = Some((created_at, hash));
                    agreed = true;
                }
            }
        }
        match newest {
            None => Self::None,
            Some(_) if !agreed => Self::Undecided,
            Some((_, hash)) => Self::Hash { hash: hash.clone(), source: HashSource::Newest },
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
        let own = profile.config_hash.as_ref().and_then(|rule| container.labels.get(&rule.label));
        match (self, own) {
            (Self::Hash { hash: expected, source }, Some(hash)) if hash != expected => {
                reasons.push(Evidence::ConfigOutdated {
                    hash: hash.clone(),
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

/// A tag that names nothing any more, or could not be asked for, is no evidence that it names another image.
fn image_moved(container: &Container, images: &Images) -> Option<Evidence> {
    let reference = container.image_reference();
    match images.by_reference.get(reference)? {
        TagFact::Names(now) if now != &container.image_id => Some(Evidence::ImageMoved {
            reference: reference.to_owned(),
            image_id: container.image_id.clone(),
            now: now.clone(),
        }),
        _ => None,
    }
}
