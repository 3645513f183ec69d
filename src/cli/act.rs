//! What every command that changes something has in common: take the lock, look, plan, show, confirm, carry out, sum up.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::output::{Manner as Writing, complain, in_lines, write};
use super::progress::Display;
use super::reconcile::OutcomeReport;
use super::report::{outcome as outcome_of_look, unavailable};
use super::{House, Outcome, Trouble};
use crate::domain::plan::{Action, Intent, Item, Plan};
use crate::domain::{Container, ContainerId, Snapshot, Verdicts, classify, plan};
use crate::engine::{Endpoint, EngineView};
use crate::keeper::{Ending, ItemOutcome, Keeper, KeeperFault, KeeperLock, Manner, Seat, who};
use crate::recovery::{Recorder, Remake, lacks, losses};
use crate::state::State;
use crate::text::{clean, fit};
use crate::watch::Observer;

/// How long a second keeper waits for the first.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(30);
/// How many containers are looked into at once for what their removal would lose, and how long that may take: for one, and
/// for all of them where somebody waits for the question.
const WEIGHED_AT_ONCE: usize = 20;
const WEIGHED_WITHIN: Duration = Duration::from_secs(3);
/// How long a look may go on to record how what it shows was made.
const RECORDED_WITHIN: Duration = Duration::from_secs(1);
const ALL_WEIGHED_WITHIN: Duration = Duration::from_secs(20);
/// From this many changes on, the confirmation asks for the number.
const MANY: usize = 10;

/// How to be asked and answered.
#[derive(Debug, Args)]
pub(super) struct Asking {
    /// Do it without asking
    #[arg(long)]
    pub(super) yes: bool,
    /// Only show what would be done
    #[arg(long, conflicts_with = "yes")]
    pub(super) dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// How a command wants to act.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The command's name, for sentences.
    pub(super) command: &'static str,
    pub(super) yes: bool,
    pub(super) dry_run: bool,
    pub(super) json: bool,
    pub(super) manner: Manner,
}

/// What came of one pass.
pub(super) struct Pass {
    pub(super) outcomes: Vec<ItemOutcome>,
    pub(super) brakes: Vec<crate::domain::verdict::Brake>,
    pub(super) outcome: Outcome,
    /// What could not be read, in sentences: what is missing here is not known to be nothing.
    pub(super) unavailable: Vec<String>,
    pub(super) interrupted: bool,
    /// Containers that wait for their last session.
    pub(super) draining: usize,
    /// What each would lose, as far as it was looked into.
    pub(super) losses: HashMap<ContainerId, Vec<String>>,
}

impl Pass {
    /// What came of each, for JSON.
    pub(super) fn reports(&self) -> Vec<OutcomeReport<'_>> {
        let losses = |outcome: &ItemOutcome| self.losses.get(outcome.item.id.as_ref()?).map(Vec::as_slice);
        self.outcomes.iter().map(|outcome| OutcomeReport::new(outcome, losses(outcome))).collect()
    }
}

/// A host on which something is about to be done: the lock is held, unless it is a dry run.
pub(super) struct Site<'a> {
    house: &'a House,
    observer: Observer,
    endpoint: Endpoint,
    keeper: Option<Keeper>,
    wish: Wish,
    cancel: CancellationToken,
    interrupts: Option<Interrupts>,
    recorder: Option<Recorder>,
}

/// What asks the program to end. Once listened to, a signal waits here until somebody looks.
struct Interrupts([Signal; 3]);

impl Interrupts {
    fn listen() -> std::io::Result<Self> {
        // A lost connection must not turn a stop in flight into a kill.
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hang_up] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, hang_up?]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate, hang_up] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

impl<'a> Site<'a> {
    /// Finds the engine, takes the lock, and tells what an earlier program left unfinished.
    pub(super) async fn enter(house: &'a House, wish: Wish) -> Result<Site<'a>, Trouble> {
        if house.settings.read_only && !wish.dry_run {
            return Err(Trouble::ReadOnly(wish.command));
        }
        // What is asked on a terminal must be shown there first, which JSON is not for.
        if !wish.dry_run && !wish.yes && (wish.json || !can_ask()) {
            return Err(Trouble::Unconfirmed(wish.command));
        }
        let mut observer = if wish.dry_run { house.passing_observer()? } else { house.observer()? };
        let endpoint =
            observer.connect().await.map_err(|why| Trouble::Keeper(KeeperFault::NoEvidence(why)))?;
        let keeper = if wish.dry_run { None } else { Some(keeper(house, &endpoint, LOCK_PATIENCE).await?) };
        Ok(Site {
            house,
            observer,
            endpoint,
            keeper,
            wish,
            cancel: CancellationToken::new(),
            interrupts: None,
            recorder: None,
        })
    }

    /// Gives the lock up, so that others may act.
    pub(super) fn leave(&mut self) {
        self.keeper = None;
    }

    /// Takes the lock again, unless somebody else has it now, and looks.
    pub(super) async fn look_again(&mut self) -> Result<(Snapshot, Verdicts), Trouble> {
        self.keeper = Some(keeper(self.house, &self.endpoint, Duration::ZERO).await?);
        self.look().await
    }

    /// Looks at the host as it is now.
    pub(super) async fn look(&mut self) -> Result<(Snapshot, Verdicts), Trouble> {
        let mut snapshot = self.observer.observe().await;
        if let Some(fault) = &snapshot.engine.fault {
            return Err(KeeperFault::NoEvidence(fault.clone()).into());
        }
        if let Some(keeper) = &self.keeper {
            if keeper.tidy_marks(&snapshot).await? > 0 {
                snapshot = self.observer.observe().await;
            }
            if let Err(trouble) = self.record(&snapshot).await {
                complain(&format!("warning: {trouble}"));
            }
        }
        let verdicts = classify(&snapshot, &self.house.settings.policy, Timestamp::now());
        Ok((snapshot, verdicts))
    }

    /// Records how what is here was made; when it is gone it is too late.
    async fn record(&mut self, snapshot: &Snapshot) -> Result<(), Trouble> {
        let settings = &self.house.settings;
        if !settings.record {
            // Whoever does not want it recorded does not want what was recorded before, either.
            let forgotten = State::open(&settings.state_folder).and_then(|state| state.forget_specs());
            return forgotten.map(|_| ()).map_err(|fault| KeeperFault::from(fault).into());
        }
        let engine = EngineView::new(self.endpoint.clone(), settings.timeout);
        let folder = settings.state_folder.clone();
        let recorder = self.recorder.get_or_insert_with(|| Recorder::new(folder, settings.policy.clone()));
        recorder
            .catch_up(&engine, snapshot, RECORDED_WITHIN)
            .await
            .map_err(|fault| KeeperFault::from(fault).into())
    }

    /// One pass: plan, show, confirm, carry out.
    pub(super) async fn pass(
        &mut self,
        snapshot: &Snapshot,
        verdicts: &Verdicts,
        intent: &Intent,
    ) -> Result<Pass, Trouble> {
        let policy = &self.house.settings.policy;
        let plan = plan(verdicts, intent, policy, Timestamp::now());
        let brakes = plan.brakes().to_vec();
        let draining = plan.items().iter().filter(|i| i.status == crate::domain::Status::Draining).count();
        let looked = outcome_of_look(snapshot, verdicts, policy, Timestamp::now());
        let unavailable = unavailable(snapshot, policy, Timestamp::now());
        if !self.wish.json {
            for source in &unavailable {
                complain(&format!("unavailable: {source}"));
            }
        }
        if !self.wish.json {
            write(&preview(&plan, Writing::of_stdout()));
        }
        let mut losses = HashMap::new();
        if !self.wish.yes && !self.wish.json {
            losses = self.losses(&plan, verdicts, Some(ALL_WEIGHED_WITHIN)).await;
            write(&in_lines(&loss_lines(&plan, &losses)));
        } else if self.wish.dry_run {
            losses = self.losses(&plan, verdicts, None).await;
        }
        let outcomes = if self.wish.dry_run || plan.changes() == 0 {
            plan.into_items().into_iter().map(not_done).collect()
        } else if self.wish.yes || confirmed(&plan).await {
            self.carry_out(plan, snapshot).await?
        } else {
            write("Nothing was done.\n");
            plan.into_items().into_iter().map(not_done).collect()
        };
        let of = |ending| outcomes.iter().any(|outcome: &ItemOutcome| outcome.ending == ending);
        let outcome =
            if looked != Outcome::Done || outcomes.iter().any(|o| o.evidence_missing) || !brakes.is_empty() {
                Outcome::Unavailable
            } else if of(Ending::Failed)
                || of(Ending::Skipped)
                || of(Ending::Rescued)
                || outcomes.iter().any(|outcome| outcome.unjournalled.is_some())
            {
                Outcome::Partial
            } else {
                Outcome::Done
            };
        let interrupted = self.cancel.is_cancelled();
        Ok(Pass { outcomes, brakes, outcome, unavailable, interrupted, draining, losses })
    }

    /// What each item loses: a removal for good, a stop what is in memory, a comeback what does not come back. What was not
    /// looked into in time is not among them.
    async fn losses(
        &self,
        plan: &Plan,
        verdicts: &Verdicts,
        patience: Option<Duration>,
    ) -> HashMap<ContainerId, Vec<String>> {
        let engine = EngineView::new(self.endpoint.clone(), self.house.settings.timeout);
        let here: HashMap<&ContainerId, &Container> = verdicts
            .containers
            .iter()
            .filter_map(|verdict| Some((verdict.subject.id()?, verdict.subject.container()?)))
            .collect();
        let looks = plan.items().iter().filter(|item| loses(item)).filter_map(|item| {
            let id = item.id.as_ref()?;
            let (engine, here) = (&engine, &here);
            Some(async move {
                let lost = match (item.action, here.get(id)) {
                    (Action::Recreate, _) => self.lacks(engine, id).await,
                    (action, Some(container)) if action.removes() => {
                        losses(engine, container, WEIGHED_WITHIN).await.sentences()
                    }
                    _ => item.shown.lost_by_a_stop(),
                };
                (id.clone(), lost)
            })
        });
        let mut looks = futures_util::stream::iter(looks).buffer_unordered(WEIGHED_AT_ONCE);
        let until = patience.map(|patience| tokio::time::Instant::now() + patience);
        let mut found = HashMap::new();
        loop {
            let next = match until {
                Some(until) => tokio::time::timeout_at(until, looks.next()).await.unwrap_or(None),
                None => looks.next().await,
            };
            let Some((id, lost)) = next else { return found };
            found.insert(id, lost);
        }
    }

    /// What does not come back with a container that is made again.
    async fn lacks(&self, engine: &EngineView, id: &ContainerId) -> Vec<String> {
        let settings = &self.house.settings;
        let spec = State::open_to_read(&settings.state_folder)
            .ok()
            .flatten()
            .and_then(|state| state.spec(&self.endpoint.address.identity(), id).ok().flatten());
        match spec.map(|spec| Remake::read(spec.reveal())) {
            Some(Ok(remake)) => lacks(engine, &remake).await,
            _ => vec!["what does not come back cannot be told".to_owned()],
        }
    }

    async fn carry_out(&mut self, plan: Plan, snapshot: &Snapshot) -> Result<Vec<ItemOutcome>, Trouble> {
        let Some(keeper) = &self.keeper else { return Ok(Vec::new()) };
        let (progress, mut events) = mpsc::channel(256);
        let mut display = Display::new(plan.items(), self.wish.json);
        let mut interrupts = match self.interrupts.take() {
            Some(interrupts) => interrupts,
            None => Interrupts::listen()?,
        };
        let mut tick = tokio::time::interval(Duration::from_millis(250));
        let systems = self.house.systems()?;
        let work =
            keeper.carry_out(plan, snapshot, systems, self.wish.manner.clone(), progress, &self.cancel);
        tokio::pin!(work);
        let outcomes = loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => display.hear(&event),
                outcomes = &mut work => {
                    while let Ok(event) = events.try_recv() {
                        display.hear(&event);
                    }
                    display.close();
                    break outcomes;
                }
                () = interrupts.next() => {
                    display.warn(if self.cancel.is_cancelled() {
                        "still waiting for the steps in flight: a stop that is dropped half-way can end as a kill"
                    } else {
                        "interrupted: nothing new is begun; the steps in flight are finished first"
                    });
                    self.cancel.cancel();
                }
                _ = tick.tick() => display.tick(),
            }
        };
        self.interrupts = Some(interrupts);
        Ok(outcomes?)
    }

    /// Waits a while, or until interrupted; `false` when interrupted, now or since the last wait.
    pub(super) async fn pause(&mut self, length: Duration) -> Result<bool, Trouble> {
        let interrupts = match &mut self.interrupts {
            Some(interrupts) => interrupts,
            none => none.insert(Interrupts::listen()?),
        };
        tokio::select! {
            biased;
            () = interrupts.next() => Ok(false),
            () = tokio::time::sleep(length) => Ok(true),
        }
    }

    /// The keeper, for commands that need no plan.
    pub(super) fn keeper(&self) -> Option<&Keeper> {
        self.keeper.as_ref()
    }
}

pub(super) async fn keeper(
    house: &House,
    endpoint: &Endpoint,
    patience: Duration,
) -> Result<Keeper, Trouble> {
    let settings = &house.settings;
    let who = who(&house.environment);
    let told = |held: &crate::keeper::LockFault| complain(&format!("waiting: {held}"));
    let folder = &settings.state_folder;
    State::refuse_strangers(folder).map_err(KeeperFault::from)?;
    let seat = Seat::of(endpoint, settings.timeout).await;
    let lock = KeeperLock::wait(folder, &seat, &who, patience, told).await;
    let lock = lock.map_err(KeeperFault::from)?;
    let keeper = Keeper::new(lock, folder, endpoint, who, settings.policy.clone(), settings.timeout)?;
    for leftover in keeper.leftovers(folder).await? {
        complain(&format!("unfinished: {}", leftover.sentence));
        keeper.close(leftover).await?;
    }
    Ok(keeper)
}

/// Whether something is lost with it.
fn loses(item: &Item) -> bool {
    item.action.removes() || matches!(item.action, Action::Stop | Action::Quarantine | Action::Recreate)
}

/// What is lost, container by container, and how many could not be looked into.
fn loss_lines(plan: &Plan, losses: &HashMap<ContainerId, Vec<String>>) -> Vec<String> {
    let mut unseen = 0;
    let mut lines = Vec::new();
    for item in plan.items().iter().filter(|item| loses(item)) {
        match item.id.as_ref().and_then(|id| losses.get(id)) {
            Some(lost) if lost.is_empty() => {}
            Some(lost) => {
                lines.push(clean(&format!("in {}: {}", item.name, lost.join("; "))).into_owned());
            }
            None => unseen += 1,
        }
    }
    if unseen > 0 {
        lines.push(format!("{unseen} more were not looked into in time"));
    }
    lines
}

pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// An item on which nothing was done.
fn not_done(item: Item) -> ItemOutcome {
    let ending = if item.action == Action::Keep { Ending::Kept } else { Ending::Planned };
    let reason = item.reason.to_string();
    ItemOutcome {
        item,
        ending,
        reason,
        evidence_missing: false,
        unjournalled: None,
        duration: Duration::ZERO,
    }
}

/// What would be done, item by item, and what is kept and why.
fn preview(plan: &Plan, writing: Writing) -> String {
    let mut lines = Vec::new();
    let widest =
        plan.items().iter().map(|item| crate::text::width(&item.name)).max().unwrap_or(0).clamp(4, 40);
    for item in plan.items() {
        let word = match item.action {
            Action::Keep => "keep",
            Action::Remove => "remove",
            Action::StopAndRemove => "stop, then remove",
            Action::Stop => "stop",
            Action::ForceRemove => "remove by force",
            Action::Drain => "drain",
            Action::Quarantine => "quarantine",
            Action::Restore => "restore",
            Action::Start => "start",
            Action::Recreate => "recreate",
        };
        let name = fit(&clean(&item.name), widest);
        let line = format!(
            "{}  {name}  {}  {}",
            fit(word, 17),
            writing.paint(item.status, &fit(item.status.as_str(), 8)),
            clean(&item.reason.to_string())
        );
        lines.push(line.trim_end().to_owned());
    }
    lines.extend(plan.brakes().iter().map(|brake| format!("brake: {brake}")));
    if !plan.brakes().is_empty() {
        let behind: usize = plan.brakes().iter().map(|brake| brake.leaving).sum();
        lines.push(format!("hint: if that is right, add `--override-brake {behind}`"));
    }
    let kept = plan.items().len() - plan.changes();
    lines.push(format!("{} to change, {kept} to keep", plan.changes()));
    in_lines(&lines)
}

/// Asks. Enter alone is never a yes; for many items or force the number must be typed.
async fn confirmed(plan: &Plan) -> bool {
    let changes = plan.changes();
    let forced = plan.items().iter().any(|item| item.action == Action::ForceRemove);
    let phrase = if forced {
        format!("force {changes}")
    } else if changes > MANY {
        format!("change {changes}")
    } else {
        "yes".to_owned()
    };
    typed(&phrase).await
}

/// Whether the operator types exactly this.
pub(super) async fn typed(phrase: &str) -> bool {
    write(&format!("Type `{phrase}` to carry this out, anything else to leave it: "));
    let typed = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    matches!(typed.await, Ok(Ok(line)) if line.trim() == phrase)
}
