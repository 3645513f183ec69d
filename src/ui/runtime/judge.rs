//! Judges every new snapshot, away from the loop that draws: ten thousand containers must not hold up a key.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::World;
use crate::domain::snapshot::StoreFacts;
use crate::domain::{Policy, Snapshot, Verdicts, classify};
use crate::ui::message::{Message, Observation};

/// Facts that stay the same are judged again after this long: time alone turns idle into stale.
const JUDGED_AGAIN: Duration = Duration::from_secs(5);
/// That they were read again is told at most this often; it changes nothing but their age.
const TOLD_AGAIN: Duration = Duration::from_secs(2);

/// What was made of the last snapshot.
struct Judged {
    snapshot: Arc<Snapshot>,
    verdicts: Arc<Verdicts>,
    at: Instant,
    told: Instant,
}

pub(super) fn spawn(
    world: &World,
    tasks: &TaskTracker,
    stop: &CancellationToken,
    messages: mpsc::Sender<Message>,
) -> io::Result<()> {
    let mut snapshots = world.watch.snapshots.clone();
    let policy = world.policy.clone();
    let stop = stop.clone();
    let judge = Judge::new(policy)?;
    tasks.spawn(async move {
        let mut last: Option<Judged> = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = snapshots.changed() => if changed.is_err() { return },
            }
            let snapshot = snapshots.borrow_and_update().clone();
            let at = Timestamp::now();
            let known = last.as_ref().filter(|last| last.at.elapsed() < JUDGED_AGAIN);
            let known = known.filter(|last| same(&last.snapshot, &snapshot));
            if known.is_some_and(|last| last.told.elapsed() < TOLD_AGAIN) {
                continue;
            }
            let (verdicts, judged_at) = if let Some(known) = known {
                (Arc::clone(&known.verdicts), known.at)
            } else {
                // A panic in there has given the terminal back, by which the loop that draws knows.
                let Some(verdicts) = judge.judge(&snapshot, at).await else { return };
                (verdicts, Instant::now())
            };
            let told = Instant::now();
            last = Some(Judged {
                snapshot: Arc::clone(&snapshot),
                verdicts: Arc::clone(&verdicts),
                at: judged_at,
                told,
            });
            if messages.send(Message::Observed(Observation { snapshot, verdicts, at })).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// A thread that judges. It is always the same one: the memory that a judgement takes for a moment is then taken once, and
/// not once by each thread of a pool.
struct Judge(std::sync::mpsc::Sender<Case>);

struct Case {
    snapshot: Arc<Snapshot>,
    at: Timestamp,
    answer: oneshot::Sender<Arc<Verdicts>>,
}

impl Judge {
    fn new(policy: Policy) -> io::Result<Self> {
        let (cases, court) = std::sync::mpsc::channel::<Case>();
        std::thread::Builder::new().name("judge".to_owned()).spawn(move || {
            for case in court {
                let verdicts = classify(&case.snapshot, &policy, case.at);
                let _ = case.answer.send(Arc::new(verdicts));
            }
        })?;
        Ok(Self(cases))
    }

    async fn judge(&self, snapshot: &Arc<Snapshot>, at: Timestamp) -> Option<Arc<Verdicts>> {
        let (answer, verdicts) = oneshot::channel();
        self.0.send(Case { snapshot: Arc::clone(snapshot), at, answer }).ok()?;
        verdicts.await.ok()
    }
}

/// Whether two snapshots say the same, but for the times at which they were taken.
fn same(a: &Snapshot, b: &Snapshot) -> bool {
    let stores = |snapshot| Snapshot::stores(snapshot).collect::<Vec<&StoreFacts>>();
    let (ours, theirs) = (stores(a), stores(b));
    a.engine.fault == b.engine.fault
        && a.engine.at.is_some() == b.engine.at.is_some()
        && (Arc::ptr_eq(&a.engine.value, &b.engine.value) || a.engine.value == b.engine.value)
        && a.clock_step.is_some() == b.clock_step.is_some()
        && a.drains == b.drains
        && a.recalled.same_as(&b.recalled)
        && a.marks_fault == b.marks_fault
        && a.paths == b.paths
        && a.neighbours == b.neighbours
        && a.images.by_id == b.images.by_id
        && a.images.by_reference == b.images.by_reference
        && ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(a, b)| {
            a.path == b.path
                && a.exists == b.exists
                && a.file == b.file
                && a.sessions.fault == b.sessions.fault
                && Arc::ptr_eq(&a.sessions.value, &b.sessions.value)
        })
}
