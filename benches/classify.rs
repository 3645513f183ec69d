//! How long it takes to judge a host and to plan its clean-up, and how that grows with the host.
//!
//! A plain program: it prints figures and never fails. `cargo bench --bench classify`

#[path = "../tests/it/facts/mod.rs"]
mod facts;

use std::hint::black_box;
use std::time::{Duration, Instant};

use facts::{Facts, ago, sandbox, session};
use sandkeeper::domain::plan::Reconcile;
use sandkeeper::domain::session::Moment;
use sandkeeper::domain::{Intent, classify, plan};

const SIZES: [u32; 3] = [100, 1_000, 10_000];
const SESSIONS_PER_CONTAINER: u32 = 10;
const WARM_UP: usize = 3;
const RUNS: usize = 15;

/// Ten times the size may take this many times as long and still count as linear: a bigger host no longer fits
/// the processor's caches.
const LINEAR: f64 = 15.0;

fn main() {
    let typical = measure("a workspace per container", typical);
    let shared = measure("all containers in one workspace", one_workspace);
    let growth = typical.max(shared);
    let finding = if growth <= LINEAR { "linear" } else { "NOT linear" };
    println!(
        "growth is {finding}: at most x{growth:.1} for ten times the size (linear is x10, the bar x{LINEAR})"
    );
}

/// Prints one table; returns the largest growth between two sizes.
fn measure(title: &str, host: impl Fn(u32) -> Facts) -> f64 {
    println!("classify + plan, {title}");
    println!(
        "{:>10} {:>9} {:>10} {:>14} {:>7}",
        "containers", "sessions", "median ms", "ns per element", "growth"
    );
    let mut largest: f64 = 0.0;
    let mut previous: Option<Duration> = None;
    for containers in SIZES {
        let sessions = containers * SESSIONS_PER_CONTAINER;
        let median = median_run(&host(containers));
        let growth = previous.map(|previous| median.as_secs_f64() / previous.as_secs_f64());
        println!(
            "{containers:>10} {sessions:>9} {:>10.3} {:>14.0} {:>7}",
            median.as_secs_f64() * 1e3,
            median.as_secs_f64() * 1e9 / f64::from(containers + sessions),
            growth.map_or_else(String::new, |growth| format!("x{growth:.1}")),
        );
        largest = largest.max(growth.unwrap_or_default());
        previous = Some(median);
    }
    println!();
    largest
}

fn median_run(facts: &Facts) -> Duration {
    let intent = Intent::Reconcile(Reconcile { include_running_orphans: true, ..Reconcile::default() });
    let mut runs: Vec<Duration> = (0..WARM_UP + RUNS)
        .map(|_| {
            let began = Instant::now();
            let verdicts = classify(black_box(&facts.snapshot), &facts.policy, facts.now);
            let plan = plan(&verdicts, &intent, &facts.policy, facts.now);
            let took = began.elapsed();
            // Letting go of the answer is not part of giving it.
            black_box((verdicts, plan));
            took
        })
        .skip(WARM_UP)
        .collect();
    runs.sort_unstable();
    runs[RUNS / 2]
}

/// Every container has a workspace of its own, whose sessions claim it through all three native links.
fn typical(containers: u32) -> Facts {
    host(containers, |number| format!("workspace-{number}"))
}

/// All sessions claim all containers, and some claim one of them by name as well.
fn one_workspace(containers: u32) -> Facts {
    host(containers, |_| "shared".to_owned())
}

fn host(containers: u32, workspace_of: impl Fn(u32) -> String) -> Facts {
    let states = ["running", "running", "running", "exited", "paused", "created"];
    let mut facts = Facts::native();
    for number in 0..containers {
        let hash = if number % 4 == 0 { "6820ef2d765a" } else { "5de99fd81fbd" };
        let created = if number % 4 == 0 { "9d" } else { "2d" };
        let state = states[number as usize % states.len()];
        facts = facts.container(
            sandbox(&format!("sandbox-{number}"))
                .workspace(&workspace_of(number))
                .label("sandkeeper.session", &session_id(number, 0))
                .hash(hash)
                .state(state)
                .created_ago(created),
        );
    }
    for number in 0..containers {
        for turn in 0..SESSIONS_PER_CONTAINER {
            let mut row = session(&session_id(number, turn))
                .workspace(&workspace_of(number))
                .title("Refactor the parser")
                .started(Moment::At(ago("6d")))
                .active_ago(&format!("{}m", (number + turn) % 5_000));
            if turn % 5 == 1 {
                row = row.uses(&format!("sandbox-{number}"));
            }
            facts = facts.session(match (number + turn) % 20 {
                0 => row.live(),
                1..10 => row.ended_ago(&format!("{}m", (number * 7 + turn) % 5_000)),
                _ => row,
            });
        }
    }
    facts
}

fn session_id(number: u32, turn: u32) -> String {
    format!("0193f0c2-{number:08x}-{turn:04x}")
}
