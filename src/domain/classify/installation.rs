//! Which installation of a system is ours, on an engine that several may share? A name or a workspace proves nothing: two
//! installations use the same ones. A container's id, or a session's id that the container carries, does.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use super::attribute::Candidate;
use crate::domain::container::Row;
use crate::domain::evidence::Evidence;
use crate::domain::policy::Policy;
use crate::domain::profile::{Link, Profile, fill_from_session};
use crate::domain::snapshot::{StoreFacts, SystemFacts};
use crate::domain::template::{Field, Template};

/// Which installations are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Installations {
    /// The system does not tell them apart, or none shows itself here.
    Any,
    /// The one that the operator named.
    Named(String),
    /// Nobody named one.
    Found {
        /// Those that show themselves here.
        present: BTreeSet<String>,
        /// Those of them that our stores have claimed a container of.
        proven: BTreeSet<String>,
    },
}

impl Installations {
    /// A container that cannot be judged still shows that its installation is here; only a label that comes from an image
    /// shows nothing.
    pub(super) fn of(
        system: &SystemFacts,
        candidates: &[Candidate<'_>],
        rows: &[Row],
        policy: &Policy,
    ) -> Self {
        let profile = &system.profile;
        let Some(template) = &profile.instance else { return Self::Any };
        if let Some(named) = &policy.instance {
            return Self::Named(named.clone());
        }
        let shown = candidates
            .iter()
            .filter(|c| !matches!(c.doubt.as_deref(), Some(Evidence::LabelsFromImage { .. })));
        let shown = shown.filter_map(|candidate| candidate.recognised.fill(template));
        let mut present: BTreeSet<String> = shown.map(Cow::into_owned).collect();
        present.extend(of_unreadable_rows(profile, template, rows));
        if present.is_empty() {
            return Self::Any;
        }
        let mut proven: BTreeSet<String> = BTreeSet::new();
        for store in &system.stores {
            proven.extend(store.memory.instances.iter().cloned());
            proven.extend(proven_instances(system, store, candidates));
        }
        Self::Found { present, proven }
    }

    /// Why a container of this installation may not be ours, if it may not.
    pub(super) fn doubt(&self, instance: Option<&str>) -> Option<Evidence> {
        match (self, instance) {
            (Self::Any, _) => None,
            (Self::Named(ours), Some(instance)) if instance == ours => None,
            (Self::Named(ours), Some(instance)) => {
                Some(Evidence::OtherInstance { instance: instance.to_owned(), ours: ours.clone() })
            }
            (Self::Named(ours), None) => Some(Evidence::NoInstance { ours: ours.clone() }),
            (Self::Found { proven, .. }, Some(instance)) if proven.contains(instance) => None,
            (Self::Found { present, proven }, _) if proven.is_empty() && present.len() > 1 => {
                Some(Evidence::SeveralInstances(present.iter().cloned().collect()))
            }
            (Self::Found { .. }, Some(instance)) => Some(Evidence::InstanceUnproven(instance.to_owned())),
            (Self::Found { present, proven }, None) => {
                let known = if proven.is_empty() { present } else { proven };
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                Some(Evidence::NoInstance { ours: known.join(", ") })
            }
        }
    }
}

fn of_unreadable_rows<'a>(
    profile: &'a Profile,
    template: &'a Template,
    rows: &'a [Row],
) -> impl Iterator<Item = String> {
    let labels = rows.iter().filter_map(|row| match row {
        Row::Unreadable(row) => row.labels.as_ref().filter(|labels| profile.matches_labels(labels)),
        Row::Container(_) => None,
    });
    labels.filter_map(|labels| {
        let filled = template.fill(|field| match field {
            Field::Label(key) => labels.get(key),
            _ => None,
        });
        filled.map(Cow::into_owned)
    })
}

/// The installations of whose containers the store claims one by a key that no other installation can share by chance.
pub(super) fn proven_instances(
    system: &SystemFacts,
    store: &StoreFacts,
    candidates: &[Candidate<'_>],
) -> BTreeSet<String> {
    let profile = &system.profile;
    let Some(template) = &profile.instance else { return BTreeSet::new() };
    let mut proven = BTreeSet::new();
    for link in &profile.links {
        let mut keys: HashMap<Cow<'_, str>, Vec<&Candidate<'_>>> = HashMap::new();
        for candidate in candidates {
            let telling = link.container.iter().filter(|template| is_unique(link, template));
            for key in telling.filter_map(|template| candidate.recognised.fill(template)) {
                keys.entry(key).or_default().push(candidate);
            }
        }
        if keys.is_empty() {
            continue;
        }
        for session in store.sessions.value.iter() {
            let key = fill_from_session(&link.session, session, &store.captures);
            let claimed = key.filter(|key| !is_plain_number(key)).and_then(|key| keys.get(&key));
            let instances = claimed.into_iter().flatten().filter_map(|c| c.recognised.fill(template));
            let instances: BTreeSet<Cow<'_, str>> = instances.collect();
            // A key that several installations use proves none of them.
            if instances.len() == 1 {
                proven.extend(instances.into_iter().map(Cow::into_owned));
            }
        }
    }
    proven
}

/// Whether equal keys mean the same container, or the same session, and not just the same name.
fn is_unique(link: &Link, container: &Template) -> bool {
    let by_container = matches!(container.only_field(), Some(Field::Id | Field::ShortId));
    let by_session = matches!(link.session.only_field(), Some(Field::Id))
        && matches!(container.only_field(), Some(Field::Label(_)));
    by_container || by_session
}

/// Every database counts 1, 2, 3.
fn is_plain_number(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_digit())
}
