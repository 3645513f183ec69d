//! The JSON of `status`: names that programs may rely on.

use jiff::Timestamp;
use serde::Serialize;

use crate::domain::evidence::Evidence;
use crate::domain::snapshot::Reading;
use crate::domain::verdict::{Brake, Claim, Lost, Verdict, WayBack};
use crate::domain::{Policy, Snapshot, Status, SystemName, Verdicts};

use super::Outcome;

/// Everything `status` says.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) host: HostReport,
    /// The systems of which there is a trace.
    pub(super) systems: Vec<SystemName>,
    pub(super) evidence: Vec<EvidenceReport>,
    /// Nothing where the engine could not be asked, which is not the same as none; likewise below.
    pub(super) containers: Option<Vec<ContainerReport>>,
    pub(super) lost: Option<Vec<LostReport>>,
    pub(super) summary: Option<Summary>,
    pub(super) brakes: Vec<Brake>,
    pub(super) observed_at: Timestamp,
}

#[derive(Debug, Serialize)]
pub(super) struct HostReport {
    pub(super) endpoint: String,
    pub(super) engine: Option<String>,
    pub(super) reachable: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct EvidenceReport {
    pub(super) source: &'static str,
    pub(super) system: Option<SystemName>,
    pub(super) path: String,
    pub(super) ok: bool,
    pub(super) age_ms: Option<u64>,
    pub(super) error: Option<String>,
    /// How many containers or sessions it told of.
    pub(super) count: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct ContainerReport {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) system: Option<SystemName>,
    pub(super) workspace: Option<String>,
    pub(super) status: Status,
    pub(super) outdated: Option<bool>,
    pub(super) persistent: bool,
    pub(super) state: Option<String>,
    pub(super) image: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) quiet_since: Option<Timestamp>,
    /// The name it has in quarantine, if it is there.
    pub(super) quarantined_as: Option<String>,
    pub(super) running_execs: Option<usize>,
    pub(super) session_count: Option<usize>,
    pub(super) live_sessions: Option<usize>,
    /// Those that are known of; nothing where that could not be read.
    pub(super) sessions: Option<Vec<SessionReport>>,
    pub(super) reasons: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct SessionReport {
    pub(super) id: String,
    pub(super) live: bool,
    pub(super) ended: bool,
    pub(super) title: Option<String>,
    pub(super) last_activity_at: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
pub(super) struct LostReport {
    pub(super) session: String,
    pub(super) title: Option<String>,
    pub(super) system: SystemName,
    pub(super) workspace: Option<String>,
    pub(super) container: String,
    /// Which container that was, if it is known.
    pub(super) id: Option<String>,
    /// How it can be brought back.
    pub(super) way_back: WayBack,
    pub(super) reasons: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    active: usize,
    idle: usize,
    stale: usize,
    orphaned: usize,
    draining: usize,
    lost: usize,
    unknown: usize,
}

impl Report {
    pub(super) fn new(snapshot: &Snapshot, verdicts: &Verdicts, policy: &Policy, now: Timestamp) -> Self {
        let mut evidence =
            vec![source("engine", None, snapshot.host.endpoint.clone(), &snapshot.engine, policy, now)];
        for system in &snapshot.systems {
            evidence.extend(system.stores.iter().map(|store| {
                let name = Some(&system.profile.name);
                let read = source("sessions", name, store.path.clone(), &store.sessions, policy, now);
                EvidenceReport { count: read.count.map(|_| store.read_count()), ..read }
            }));
        }
        evidence.extend(snapshot.marks_fault.as_ref().map(|fault| EvidenceReport {
            source: "marks",
            system: None,
            path: String::new(),
            ok: false,
            age_ms: None,
            error: Some(fault.clone()),
            count: None,
        }));
        let seen = snapshot.engine.at.is_some();
        // What is lost shows only where engine and stores could all be read.
        let blind = evidence.iter().any(|source| !source.ok);
        let lost: Vec<LostReport> = verdicts.lost.iter().map(LostReport::from).collect();
        let count = |status| verdicts.count(status);
        Self {
            host: HostReport {
                endpoint: snapshot.host.endpoint.clone(),
                engine: snapshot.host.engine.clone(),
                reachable: snapshot.engine.fault.is_none() && snapshot.engine.at.is_some(),
            },
            systems: snapshot.systems.iter().map(|system| system.profile.name.clone()).collect(),
            evidence,
            containers: seen.then(|| verdicts.containers.iter().map(ContainerReport::from).collect()),
            lost: (!lost.is_empty() || !blind).then_some(lost),
            summary: seen.then(|| Summary {
                active: count(Status::Active),
                idle: count(Status::Idle),
                stale: count(Status::Stale),
                orphaned: count(Status::Orphaned),
                draining: count(Status::Draining),
                lost: count(Status::Lost),
                unknown: count(Status::Unknown),
            }),
            brakes: verdicts.brakes.clone(),
            observed_at: now,
        }
    }
}

fn source<T>(
    source: &'static str,
    system: Option<&SystemName>,
    path: String,
    reading: &Reading<Vec<T>>,
    policy: &Policy,
    now: Timestamp,
) -> EvidenceReport {
    let age = reading.age(now).map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    let error = reading.unusable(now, policy.max_evidence_age).map(|why| why.to_string());
    let count = error.is_none().then(|| reading.value.len());
    EvidenceReport { source, system: system.cloned(), path, ok: error.is_none(), age_ms: age, error, count }
}

impl From<&Verdict> for ContainerReport {
    fn from(verdict: &Verdict) -> Self {
        let container = verdict.subject.container();
        Self {
            id: verdict.subject.id().map(ToString::to_string),
            name: verdict.subject.name().to_owned(),
            system: verdict.system.clone(),
            workspace: verdict.workspace.clone(),
            status: verdict.status,
            outdated: verdict.known_outdated(),
            persistent: verdict.persistent,
            state: container.map(|container| container.state.to_string()),
            image: container.map(|container| container.image_reference().to_owned()),
            created_at: container.map(|container| container.created_at),
            started_at: container.and_then(crate::domain::Container::started_at),
            quiet_since: verdict.known_quiet_since(),
            quarantined_as: verdict.quarantine.as_ref().map(|aside| aside.named.clone()),
            running_execs: verdict.known_execs(),
            session_count: (!verdict.sessions_unread()).then_some(verdict.claims.total),
            live_sessions: (!verdict.sessions_unread()).then_some(verdict.claims.live),
            sessions: verdict
                .known_sessions()
                .map(|all| all.listed.iter().map(SessionReport::from).collect()),
            reasons: verdict.evidence.iter().map(Evidence::to_string).collect(),
        }
    }
}

impl From<&Claim> for SessionReport {
    fn from(claim: &Claim) -> Self {
        Self {
            id: claim.session.id.clone(),
            live: claim.is_live(),
            ended: claim.session.has_ended(),
            title: claim.session.title.clone(),
            last_activity_at: claim.session.last_activity_at.known(),
        }
    }
}

impl From<&Lost> for LostReport {
    fn from(lost: &Lost) -> Self {
        Self {
            session: lost.session.clone(),
            title: lost.title.clone(),
            system: lost.system.clone(),
            workspace: lost.workspace.clone(),
            container: lost.container.clone(),
            id: lost.id.as_ref().map(ToString::to_string),
            way_back: lost.way_back,
            reasons: lost.evidence.iter().map(Evidence::to_string).collect(),
        }
    }
}

/// What could not be read, in sentences.
pub(super) fn unavailable(snapshot: &Snapshot, policy: &Policy, now: Timestamp) -> Vec<String> {
    let engine = snapshot.engine.unusable(now, policy.max_evidence_age).map(|why| format!("engine: {why}"));
    let stores =
        snapshot.systems.iter().flat_map(|system| system.stores.iter().map(move |store| (system, store)));
    let stores = stores.filter_map(|(system, store)| {
        let why = store.sessions.unusable(now, policy.max_evidence_age)?;
        Some(format!("{} sessions {}: {why}", system.profile.name, store.path))
    });
    let marks = snapshot.marks_fault.iter().map(|why| format!("marks: {why}"));
    engine.into_iter().chain(stores).chain(marks).collect()
}

/// The exit code of a look: nothing to show without the engine, something missing with a source or a container that
/// could not be read.
pub(super) fn outcome(snapshot: &Snapshot, verdicts: &Verdicts, policy: &Policy, now: Timestamp) -> Outcome {
    if snapshot.engine.at.is_none() {
        return Outcome::Failed;
    }
    let max_age = policy.max_evidence_age;
    let stores = snapshot.systems.iter().flat_map(|system| &system.stores);
    let sources_good = snapshot.engine.unusable(now, max_age).is_none()
        && stores.into_iter().all(|store| store.sessions.unusable(now, max_age).is_none());
    let rows_good = verdicts
        .containers
        .iter()
        .flat_map(|verdict| &verdict.evidence)
        .all(|reason| !reason.is_unavailability());
    if sources_good && rows_good && snapshot.marks_fault.is_none() {
        Outcome::Done
    } else {
        Outcome::Unavailable
    }
}
