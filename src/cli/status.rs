//! `sandkeeper status`: every sandbox, its status and why.

use std::fmt::Write as _;

use clap::Args;
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::output::{Manner, complain, write, write_json};
use super::report::{Report, outcome};
use super::table::table;
use super::{House, Outcome, Trouble};
use crate::domain::evidence::plural;
use crate::domain::{Snapshot, classify};
use crate::recovery::Recorder;

#[derive(Debug, Args, Default)]
pub(super) struct StatusArguments {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Keep watching, and show every change until interrupted
    #[arg(long)]
    watch: bool,
}

impl StatusArguments {
    /// What the dashboard falls back to on a terminal that can print lines and no more.
    pub(super) fn watching() -> Self {
        Self { json: false, watch: true }
    }
}

pub(super) async fn run(arguments: &StatusArguments, house: &House) -> Result<Outcome, Trouble> {
    for problem in &house.library.problems {
        complain(&format!("warning: {problem}"));
    }
    let mut observer = house.observer()?;
    if arguments.watch {
        return watch(arguments, house, observer).await;
    }
    let snapshot = observer.observe().await;
    let shown = Shown::new(&snapshot, house);
    shown.write(&snapshot, arguments.json, true);
    if snapshot.engine.at.is_some()
        && let Ok(endpoint) = observer.connect().await
    {
        house.record(&endpoint, &snapshot).await;
    }
    Ok(shown.outcome)
}

/// A snapshot judged and reported.
struct Shown {
    verdicts: crate::domain::Verdicts,
    report: Report,
    outcome: Outcome,
    now: Timestamp,
}

impl Shown {
    fn new(snapshot: &Snapshot, house: &House) -> Self {
        let now = Timestamp::now();
        let policy = &house.settings.policy;
        let verdicts = classify(snapshot, policy, now);
        let report = Report::new(snapshot, &verdicts, policy, now);
        // A profile that cannot be used may recognise containers that nobody else knows of.
        let unread = house.settings.profiles.is_empty() && !house.library.problems.is_empty();
        let outcome = match outcome(snapshot, &verdicts, policy, now) {
            Outcome::Done if unread => Outcome::Unavailable,
            outcome => outcome,
        };
        Self { verdicts, report, outcome, now }
    }

    /// Writes it; `false` when nobody reads any more.
    fn write(&self, snapshot: &Snapshot, json: bool, indented: bool) -> bool {
        if json { write_json(&self.report, indented) } else { write(&self.table(snapshot)) }
    }

    fn table(&self, snapshot: &Snapshot) -> String {
        table(snapshot, &self.verdicts, &self.report, Manner::of_stdout(), self.now)
    }

    /// What must differ for a new picture to be worth showing: everything but ages.
    fn gist(&self) -> Vec<String> {
        let containers = self.report.containers.iter().flatten().map(|container| {
            let sessions = container.sessions.as_ref();
            let sessions =
                sessions.map(|all| all.iter().map(|s| (&s.id, s.live, s.ended)).collect::<Vec<_>>());
            format!(
                "{:?} {} {:?} {:?} {sessions:?}",
                container.id, container.status, container.outdated, container.state
            )
        });
        let lost =
            self.report.lost.iter().flatten().map(|lost| format!("{} {}", lost.session, lost.container));
        let evidence = self
            .report
            .evidence
            .iter()
            .map(|source| format!("{} {} {:?}", source.path, source.ok, source.error));
        containers.chain(lost).chain(evidence).collect()
    }
}

/// On a terminal the screen is kept current, ages included; in a pipe each change is a new table, or one line of JSON.
async fn watch(
    arguments: &StatusArguments,
    house: &House,
    observer: crate::watch::Observer,
) -> Result<Outcome, Trouble> {
    let redraw = Manner::of_stdout().width.is_some() && !arguments.json;
    let tasks = TaskTracker::new();
    let cancel = CancellationToken::new();
    let watch = observer.spawn(house.settings.cadence, &tasks, cancel.clone());
    if !house.settings.read_only {
        let recorder = Recorder::new(house.settings.state_folder.clone(), house.settings.policy.clone());
        tasks.spawn(recorder.follow(watch.clone(), house.settings.timeout, cancel.clone()));
    }
    let mut snapshots = watch.snapshots.clone();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut last = Outcome::Failed;
    let mut gist = None;
    let mut screen = Screen::default();
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = hang_up.recv() => break,
            changed = snapshots.changed() => if changed.is_err() { break },
        }
        let snapshot = snapshots.borrow_and_update().clone();
        let shown = Shown::new(&snapshot, house);
        last = shown.outcome;
        if redraw {
            if !screen.show(&shown.table(&snapshot)) {
                break;
            }
            continue;
        }
        let new_gist = shown.gist();
        if gist.as_ref() == Some(&new_gist) {
            continue;
        }
        gist = Some(new_gist);
        if !shown.write(&snapshot, arguments.json, false) {
            break;
        }
    }
    cancel.cancel();
    tasks.close();
    tasks.wait().await;
    Ok(last)
}

/// A terminal that is drawn over rather than scrolled.
#[derive(Default)]
struct Screen {
    shown: Option<(String, (u16, u16))>,
}

impl Screen {
    /// Draws a picture unless it is there already; `false` when nobody looks any more.
    fn show(&mut self, text: &str) -> bool {
        let size = crossterm::terminal::size().unwrap_or((80, 24));
        if self.shown.as_ref().is_some_and(|(shown, at)| shown == text && *at == size) {
            return true;
        }
        let same_size = self.shown.as_ref().is_some_and(|(_, at)| *at == size);
        let mut picture = if same_size { String::new() } else { "\x1b[2J".to_owned() };
        // Long lines end at the edge instead of pushing the others off the screen.
        picture.push_str("\x1b[?7l\x1b[H");
        let lines: Vec<&str> = text.lines().collect();
        // The cursor waits on a line of its own.
        let room = usize::from(size.1).saturating_sub(1).max(1);
        let cut = lines.len() > room;
        let kept = if cut { room - 1 } else { lines.len() };
        // Each line is cleared before it is written: behind a full one the clearing would take its last character.
        for line in &lines[..kept] {
            let _ = write!(picture, "\x1b[K{line}\r\n");
        }
        if cut {
            let hidden = lines.len() - kept;
            let _ = write!(picture, "\x1b[K({hidden} more {})\r\n", plural(hidden, "line"));
        }
        picture.push_str("\x1b[J\x1b[?7h");
        self.shown = Some((text.to_owned(), size));
        write(&picture)
    }
}
