//! The operator's rules, which hold for every system.

use std::collections::BTreeMap;
use std::time::Duration;

use super::awake::Clock;
use super::container::Container;
use super::evidence::Evidence;
use super::profile::SystemName;

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
    /// How long a container that an open session claims may be quiet before it goes for a reason other than its own
    /// lifetime: because it is draining, or because its configuration seems outdated.
    pub open_lifetime: Duration,
    /// How long a store that was never read before, and claims none of its system's containers, is doubted.
    pub new_store_wait: Duration,
    /// Whether the time that the host was off or asleep counts as silence: for hosts whose sessions live elsewhere.
    pub count_downtime: bool,
    /// How long a graceful stop waits when the profile does not say.
    pub stop_grace: Duration,
    /// The current config hash of all systems, and of one in particular, as the operator gave it.
    pub expected_hash: Option<String>,
    /// The current config hash of particular systems.
    pub expected_hash_of: BTreeMap<SystemName, String>,
    /// Which installation is ours, on an engine that several share.
    pub instance: Option<String>,
    /// The brake.
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

/// When so much of a system would go at once that a wrong database, mount or clock is more likely than a mess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrakeRule {
    /// The brake never acts when this many containers or fewer would go.
    pub more_than: usize,
    /// The brake acts when more than this share of a system's containers would go, in percent.
    pub percent: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            min_age: Duration::from_mins(1),
            max_evidence_age: Duration::from_secs(30),
            default_lifetime: Duration::from_hours(24),
            open_lifetime: Duration::from_hours(24),
            new_store_wait: Duration::from_mins(15),
            count_downtime: false,
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
    pub fn too_new(&self, container: &Container, clock: Clock<'_>) -> Option<Evidence> {
        let started_at = container.started_by_somebody_at().filter(|at| *at > container.created_at);
        let age = clock.quiet_since(started_at.unwrap_or(container.created_at)).unwrap_or_default();
        let (started, grace) = (started_at.is_some(), self.min_age);
        (age < grace).then_some(Evidence::TooNew { age, started, grace })
    }
}

impl BrakeRule {
    /// Whether `leaving` of `total` containers look like a mistake.
    pub fn acts(&self, leaving: usize, total: usize) -> bool {
        leaving > self.more_than && leaving * 100 > total * self.percent
    }
}
