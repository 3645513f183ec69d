//! The operator's rules, which hold for every system.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::container::Container;
use super::evidence::Evidence;
use super::profile::SystemName;
use super::span::elapsed;

/// What the operator decided: from the config file, the environment and the flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Containers made or started less than this ago are never orphaned and never removed, not even by force: their
    /// session may be about to start. Whoever knows better sets this to zero.
    pub min_age: Duration,
    /// Facts older than this do not support a verdict that lets anything be removed.
    pub max_evidence_age: Duration,
    /// How long a container may be quiet when neither label nor profile says.
    pub default_lifetime: Duration,
    /// How long a graceful stop waits when the profile does not say.
    pub stop_grace: Duration,
    /// The current config hash of all systems, and of one in particular, as the operator gave it.
    pub expected_hash: Option<String>,
    /// The current config hash of particular systems.
    pub expected_hash_of: BTreeMap<SystemName, String>,
    /// Which installation is ours, on an engine that several share.
    pub instance: Option<String>,
    /// The mass-orphan brake.
    pub brake: BrakeRule,
    /// What is remembered and put aside.
    pub recovery: RecoveryRule,
}

/// What the operator decided about coming back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryRule {
    /// How long what was recorded of a container is kept after it was last seen.
    pub keep: Duration,
    /// Whether a bulk clean-up puts containers aside instead of removing them.
    pub quarantine: bool,
    /// How long a container stays in quarantine.
    pub quarantine_for: Duration,
}

impl Default for RecoveryRule {
    fn default() -> Self {
        Self {
            keep: Duration::from_hours(30 * 24),
            quarantine: false,
            quarantine_for: Duration::from_hours(24),
        }
    }
}

/// When a mass of orphans looks like a wrong database, mount or clock rather than like a mess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrakeRule {
    /// The brake never acts at this many orphans or fewer.
    pub more_than: usize,
    /// The brake acts when orphans are more than this share of a system's containers, in percent.
    pub percent: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            min_age: Duration::from_mins(1),
            max_evidence_age: Duration::from_secs(30),
            default_lifetime: Duration::from_hours(24),
            stop_grace: Duration::from_secs(10),
            expected_hash: None,
            expected_hash_of: BTreeMap::new(),
            instance: None,
            brake: BrakeRule { more_than: 5, percent: 50 },
            recovery: RecoveryRule::default(),
        }
    }
}

impl Policy {
    /// The config hash the operator expects of a system, if given.
    pub fn expected_hash_for(&self, system: &SystemName) -> Option<&str> {
        self.expected_hash_of.get(system).or(self.expected_hash.as_ref()).map(String::as_str)
    }

    /// Why a container is too new to be judged by the silence about it, if it is. The list does not tell when it was
    /// started; an inspect does.
    pub fn too_new(&self, container: &Container, now: Timestamp) -> Option<Evidence> {
        let started_at = container.started_by_somebody_at().filter(|at| *at > container.created_at);
        let age = elapsed(started_at.unwrap_or(container.created_at), now).unwrap_or_default();
        let (started, grace) = (started_at.is_some(), self.min_age);
        (age < grace).then_some(Evidence::TooNew { age, started, grace })
    }
}

impl BrakeRule {
    /// Whether `orphaned` of `total` containers look like a mistake.
    pub fn acts(&self, orphaned: usize, total: usize) -> bool {
        orphaned > self.more_than && orphaned * 100 > total * self.percent
    }
}
