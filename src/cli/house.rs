//! What every command stands on: the surroundings, the settings and the profiles, and what is made of them.

use std::path::PathBuf;
use std::sync::Arc;

use super::Trouble;
use super::demo::Tour;
use crate::config::{Addressed, Settings};
use crate::domain::Profile;
use crate::domain::profile::{Query, Recovery, StoreKind};
use crate::engine::{Endpoint, resolve};
use crate::environment::Environment;
use crate::profiles::{Entry, Library};
use crate::sessions::{Limits, NamedStore, StoreSet, is_url};
use crate::watch::{Observer, WatchedSystem};

/// What every command stands on.
#[derive(Clone)]
pub(super) struct House {
    pub(super) environment: Environment,
    pub(super) settings: Settings,
    pub(super) library: Library,
    /// Whether the host is a made-up one, and what is told about it.
    pub(super) demo: Option<Tour>,
}

impl House {
    /// The engine addresses to try.
    pub(super) fn endpoints(&self) -> Result<Vec<Endpoint>, Trouble> {
        Ok(resolve(&self.settings.endpoint, &self.environment)?)
    }

    /// The systems to look for, each with its stores.
    pub(super) fn systems(&self) -> Result<Vec<WatchedSystem>, Trouble> {
        let chosen = self.library.select(&self.settings.profiles)?;
        self.check_addressees(
            "--db",
            self.settings.stores.iter().map(|store| store.system.as_deref()),
            &chosen,
        )?;
        // Every system would send its key there.
        let is_address = |store: &&Addressed<PathBuf>| store.system.is_none() && is_url(&store.value);
        if let Some(store) = self.settings.stores.iter().find(is_address) {
            return Err(Trouble::WhoseAddress(store.value.display().to_string()));
        }
        let hashed = self.settings.policy.expected_hash_of.keys().map(|system| Some(system.as_str()));
        self.check_addressees("--expect-hash", hashed, &chosen)?;
        let limits = Limits { time: self.settings.timeout.mul_f32(0.8), ..Limits::default() };
        let asked_for = !self.settings.profiles.is_empty();
        let systems = chosen.iter().map(|entry| {
            let named = self.named_stores(entry, &chosen);
            let key = self.settings.secrets.get(entry.profile.name.as_str()).map(String::as_str);
            let stores = StoreSet::new(&entry.profile, named, key, &self.environment, limits);
            WatchedSystem { entry: self.recovering(entry), stores, asked_for }
        });
        Ok(systems.collect())
    }

    /// The profile with what the operator says about recovery.
    fn recovering(&self, entry: &Entry) -> Entry {
        let heal = entry.profile.recovery.heal
            || self.settings.heal.iter().any(|name| name == entry.profile.name.as_str());
        let record = self.settings.record;
        let recovery = Recovery {
            record: record && (entry.profile.recovery.record || heal),
            // What is not recorded cannot be made again, but what ended can be started.
            heal,
        };
        let profile = Profile { recovery, ..(*entry.profile).clone() };
        Entry { profile: Arc::new(profile), ..entry.clone() }
    }

    /// Makes the systems anew, as often as somebody needs stores of his own to read.
    pub(super) fn system_maker(&self) -> Result<crate::ui::Systems, Trouble> {
        // Whatever is wrong is said now, not in the middle of a plan.
        self.systems()?;
        let house = self.clone();
        Ok(Box::new(move || house.systems().map_err(|trouble| trouble.to_string())))
    }

    /// A look at the host.
    pub(super) fn observer(&self) -> Result<Observer, Trouble> {
        let folder = self.settings.state_folder.clone();
        let systems = self.systems()?;
        let names: Vec<_> = systems.iter().map(|system| system.entry.profile.name.clone()).collect();
        let others = self.library.select(&[])?.into_iter().map(|entry| entry.profile);
        let others = others.filter(|profile| !names.contains(&profile.name)).collect();
        let policy = self.settings.policy.clone();
        let observer = Observer::new(self.endpoints()?, systems, self.settings.timeout, folder, policy);
        let observer = if self.settings.read_only { observer } else { observer.keeping_memory() };
        Ok(observer.beside(others))
    }

    fn named_stores(&self, entry: &Entry, chosen: &[Entry]) -> Vec<NamedStore> {
        let others: Vec<Query> = chosen
            .iter()
            .filter(|other| other.profile.name != entry.profile.name)
            .flat_map(|other| queries_of(&other.profile))
            .collect();
        let mine = |store: &&Addressed<PathBuf>| {
            store.system.as_deref().is_none_or(|system| system == entry.profile.name.as_str())
        };
        self.settings
            .stores
            .iter()
            .filter(mine)
            .map(|store| NamedStore {
                path: store.value.clone(),
                others: if store.system.is_some() { Vec::new() } else { others.clone() },
            })
            .collect()
    }

    fn check_addressees<'a>(
        &self,
        option: &'static str,
        systems: impl Iterator<Item = Option<&'a str>>,
        chosen: &[Entry],
    ) -> Result<(), Trouble> {
        for system in systems.flatten() {
            self.library.find(system)?;
            if !chosen.iter().any(|entry| entry.profile.name.as_str() == system) {
                let fix = format!("add `--profile {system}`");
                return Err(Trouble::System { option, system: system.to_owned(), fix });
            }
        }
        Ok(())
    }
}

fn queries_of(profile: &Profile) -> Vec<Query> {
    let queries = profile.stores.iter().filter_map(|store| match &store.kind {
        StoreKind::Sqlite { queries, .. } => Some(queries.clone()),
        StoreKind::Http(_) => None,
    });
    queries.flatten().collect()
}
