//! Whose container is it? Labels can be forged, inherited from an image, or shared by two installations; every
//! such doubt is found here, before anything else is asked.

use std::collections::HashSet;
use std::sync::Arc;

use super::installation::Installations;
use crate::domain::container::{Container, ContainerId, Row, UnreadableRow};
use crate::domain::evidence::Evidence;
use crate::domain::labels::Labels;
use crate::domain::policy::Policy;
use crate::domain::profile::{Match, Profile, Recognised, SystemName};
use crate::domain::recovery::put_aside;
use crate::domain::snapshot::{ImageFact, Images, Snapshot, SystemFacts};
use crate::domain::template::Template;
use crate::domain::unread::Unread;
use crate::domain::verdict::{Status, Subject, Verdict};

/// A container that exactly one profile recognises.
pub(super) struct Candidate<'a> {
    pub(super) container: &'a Arc<Container>,
    pub(super) recognised: Recognised<'a>,
    pub(super) workspace: Option<String>,
    /// Why it may not be ours at all.
    pub(super) doubt: Option<Box<Evidence>>,
}

/// All rows, sorted by whose they are.
pub(super) struct Attributed<'a> {
    /// One list per system of the snapshot.
    pub(super) candidates: Vec<Vec<Candidate<'a>>>,
    /// Verdicts on rows that no single system can judge.
    pub(super) undecided: Vec<Verdict>,
}

pub(super) fn attribute<'a>(snapshot: &'a Snapshot, policy: &Policy) -> Attributed<'a> {
    let mut attributed = sorted(snapshot);
    for (system, candidates) in snapshot.systems.iter().zip(&mut attributed.candidates) {
        let ours = Installations::of(system, candidates, &snapshot.engine.value, policy);
        settle_installations(&system.profile, candidates, &ours);
    }
    attributed
}

/// The containers that are some system's without any doubt. Without a policy it is left open whose installation's.
pub fn owned(snapshot: &Snapshot, policy: Option<&Policy>) -> HashSet<ContainerId> {
    let attributed = policy.map_or_else(|| sorted(snapshot), |policy| attribute(snapshot, policy));
    let sure = attributed.candidates.into_iter().flatten().filter(|candidate| candidate.doubt.is_none());
    sure.map(|candidate| candidate.container.id.clone()).collect()
}

/// All rows by whose they are, whichever installation's.
pub(super) fn sorted(snapshot: &Snapshot) -> Attributed<'_> {
    let systems = &snapshot.systems;
    let rows = &snapshot.engine.value;
    let mut candidates: Vec<Vec<Candidate<'_>>> = systems.iter().map(|_| Vec::new()).collect();
    let mut undecided = Vec::new();
    for row in rows.iter() {
        match row {
            Row::Unreadable(row) => undecided.extend(unreadable(row, systems)),
            Row::Container(container) if put_aside(container).is_some() => {
                undecided.extend(aside_unrecorded(container, systems));
            }
            Row::Container(container) => {
                let with_candidates = systems.iter().zip(&mut candidates);
                let mut owners = with_candidates.filter_map(|(system, candidates)| {
                    match system.profile.recognise(container) {
                        Match::Foreign => None,
                        Match::Ours(recognised) => Some((system, candidates, Some(recognised))),
                        Match::Nameless => Some((system, candidates, None)),
                    }
                });
                match (owners.next(), owners.next()) {
                    (None, _) => {}
                    (Some((system, candidates, Some(recognised))), None) => {
                        let mut candidate = candidate(snapshot, system, container, recognised);
                        candidate.doubt =
                            another_owner(snapshot, system, container).map(Box::new).or(candidate.doubt);
                        candidates.push(candidate);
                    }
                    (Some((system, _, None)), None) => {
                        let why = Evidence::RowUnreadable("it has no name".to_owned());
                        let subject = Subject::Container(Arc::clone(container));
                        undecided.push(unjudged(subject, Some(system.profile.name.clone()), why));
                    }
                    (Some(first), Some(second)) => {
                        let all = [first, second].into_iter().chain(owners);
                        let names = all.map(|(system, ..)| system.profile.name.clone()).collect();
                        let subject = Subject::Container(Arc::clone(container));
                        undecided.push(unjudged(subject, None, Evidence::Disputed(names)));
                    }
                }
            }
        }
    }
    Attributed { candidates, undecided }
}

/// A system that is not looked for, and that this container may belong to just as well.
fn another_owner(snapshot: &Snapshot, system: &SystemFacts, container: &Container) -> Option<Evidence> {
    let mut others = snapshot.others.iter();
    let other = others.find(|other| !matches!(other.recognise(container), Match::Foreign))?;
    Some(Evidence::Disputed(vec![system.profile.name.clone(), other.name.clone()]))
}

fn candidate<'a>(
    snapshot: &'a Snapshot,
    system: &'a SystemFacts,
    container: &'a Arc<Container>,
    recognised: Recognised<'a>,
) -> Candidate<'a> {
    let doubt = match &system.broken {
        Some(why) => Some(Evidence::ProfileBroken(why.clone())),
        None => labels_from_image(&system.profile, container, &snapshot.images),
    };
    let workspace = system.profile.workspace_of(&recognised);
    Candidate { container, recognised, workspace, doubt: doubt.map(Box::new) }
}

/// Containers inherit the labels of their image, so a label that the image carries too proves nothing about who
/// made the container.
fn labels_from_image(profile: &Profile, container: &Container, images: &Images) -> Option<Evidence> {
    let image = || container.image_reference().to_owned();
    let unverifiable = |why: &str| Some(Evidence::ImageUnverifiable { image: image(), why: why.to_owned() });
    match images.by_id.get(&*container.image_id) {
        None => unverifiable("it was not looked up"),
        Some(ImageFact::Gone) => unverifiable("the engine no longer has it"),
        Some(ImageFact::Failed(fault)) => unverifiable(fault),
        Some(ImageFact::Labels(inherited)) if profile.matches_labels(inherited) => {
            let labels = profile.recognition.labels.iter().map(|(key, value)| format!("{key}={value}"));
            Some(Evidence::LabelsFromImage { labels: labels.collect::<Vec<_>>().join(", "), image: image() })
        }
        Some(ImageFact::Labels(inherited)) => inherited_instance(profile, container, inherited)
            .map(|labels| Evidence::LabelsFromImage { labels, image: image() }),
    }
}

/// A label that is to tell installations apart tells nothing if it comes from the image: two of them may use it.
fn inherited_instance(profile: &Profile, container: &Container, inherited: &Labels) -> Option<String> {
    let placeholders = profile.instance.iter().flat_map(Template::placeholders);
    let (key, value) = placeholders
        .filter_map(|placeholder| {
            let key = placeholder.strip_prefix("label.")?;
            Some((key, inherited.get(key)?))
        })
        .find(|(key, value)| container.labels.get(key) == Some(value))?;
    Some(format!("{key}={value}"))
}

/// Casts doubt on every container that may be another installation's.
pub(super) fn settle_installations(
    profile: &Profile,
    candidates: &mut [Candidate<'_>],
    ours: &Installations,
) {
    let Some(template) = &profile.instance else { return };
    for candidate in candidates {
        let doubt = ours.doubt(candidate.recognised.fill(template).as_deref());
        candidate.doubt = candidate.doubt.take().or(doubt.map(Box::new));
    }
}

/// A row that could not be read whole is shown if it is, or may be, some system's.
fn unreadable(row: &UnreadableRow, systems: &[SystemFacts]) -> Option<Verdict> {
    let mut system = None;
    if let Some(labels) = &row.labels {
        let mut owners = systems.iter().filter(|system| system.profile.matches_labels(labels));
        system = Some(owners.next()?.profile.name.clone());
        if owners.next().is_some() {
            system = None;
        }
    }
    Some(unjudged(Subject::Row(Box::new(row.clone())), system, Evidence::RowUnreadable(row.problem.clone())))
}

/// A container that bears the name of one in quarantine, and of which that is not recorded, or cannot be read. Those that
/// are known to be in quarantine are here under the name they had.
fn aside_unrecorded(container: &Arc<Container>, systems: &[SystemFacts]) -> Option<Verdict> {
    let name = put_aside(container)?.to_owned();
    let before = Container { name, ..(**container).clone() };
    let mut owners = systems.iter().filter(|system| {
        let recognises =
            |container: &Container| !matches!(system.profile.recognise(container), Match::Foreign);
        recognises(container) || recognises(&before)
    });
    let first = owners.next()?.profile.name.clone();
    let system = owners.next().is_none().then_some(first);
    Some(unjudged(Subject::Container(Arc::clone(container)), system, Evidence::QuarantineUnrecorded))
}

/// The verdict on what no system can judge.
fn unjudged(subject: Subject, system: Option<SystemName>, why: Evidence) -> Verdict {
    Verdict {
        subject,
        system,
        workspace: None,
        status: Status::Unknown,
        outdated: false,
        persistent: true,
        claims: Arc::default(),
        sought_by: None,
        life: Vec::new(),
        work_doubt: None,
        waits_for: None,
        too_new: None,
        quiet_since: None,
        quarantine: None,
        unread: Unread::EVERYTHING,
        evidence: vec![why],
    }
}
