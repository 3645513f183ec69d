//! To which store does a container belong, where a system keeps one per installation? Two of them may share an engine,
//! and neither may judge the other's containers.

use std::time::Duration;

use super::attribute::Candidate;
use super::claims::Claimed;
use crate::domain::evidence::Evidence;
use crate::domain::profile::fill_from_store;
use crate::domain::snapshot::{StoreFacts, SystemFacts};

/// Why it cannot be told whose sessions matter to it.
pub(super) fn doubt(system: &SystemFacts, candidate: &Candidate<'_>, claimed: &Claimed) -> Option<Evidence> {
    let serves = |store: &&StoreFacts| {
        system.profile.stores.get(store.rule).is_some_and(|rule| rule.serves(&candidate.container.name))
    };
    let claiming = claimed.stores.iter().filter_map(|place| system.stores.get(*place)).filter(serves);
    let claiming: Vec<String> = claiming.map(|store| store.path.clone()).collect();
    if claiming.len() > 1 {
        return Some(Evidence::SeveralStores(claiming));
    }
    let home = system.profile.home.as_ref()?;
    let stores = system.stores.iter().filter(serves).filter(|store| !store.captures.is_empty()).count();
    // Without a store there is nothing to compare with, and that is said elsewhere.
    let key = home.container.iter().find_map(|template| candidate.recognised.fill(template));
    let key = key.filter(|key| stores > 0 && of_home(system, key).is_none())?;
    Some(Evidence::HomeNotRead(key.into_owned()))
}

/// Why nobody's silence about it means anything: it shows no home, and no session names it.
pub(super) fn unclear(
    system: &SystemFacts,
    candidate: &Candidate<'_>,
    claimed: &Claimed,
) -> Option<Evidence> {
    let home = system.profile.home.as_ref().filter(|_| claimed.claims.total == 0)?;
    let rules = &system.profile.stores;
    let mut stores = system.stores.iter().filter(|store| !store.captures.is_empty());
    let is_kept_in_homes =
        stores.any(|store| rules.get(store.rule).is_some_and(|rule| rule.serves(&candidate.container.name)));
    let shows_none = home.container.iter().all(|template| candidate.recognised.fill(template).is_none());
    (is_kept_in_homes && shows_none).then_some(Evidence::HomeUnclear)
}

/// How long the container may be quiet by the configuration beside its store.
pub(super) fn lifetime(
    system: &SystemFacts,
    candidate: &Candidate<'_>,
    claimed: &Claimed,
) -> Option<Duration> {
    let home = system.profile.home.iter().flat_map(|home| &home.container);
    let key = home.into_iter().find_map(|template| candidate.recognised.fill(template));
    let by_home = key.and_then(|key| of_home(system, &key));
    let by_claim = claimed.stores.first().and_then(|place| system.stores.get(*place));
    by_home.or(by_claim)?.lifetime
}

/// The store of this home.
fn of_home<'a>(system: &'a SystemFacts, key: &str) -> Option<&'a StoreFacts> {
    let home = system.profile.home.as_ref()?;
    system.stores.iter().find(|store| fill_from_store(&home.store, &store.captures).as_deref() == Some(key))
}
