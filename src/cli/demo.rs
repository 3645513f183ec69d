//! `sandkeeper demo`: the program on a made-up host.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use tokio::signal::unix::{SignalKind, signal};

use super::output::complain;
use super::{Arguments, Command, GlobalArguments, Outcome, Trouble, run_in};
use crate::demo::{BACKSTAGE, DemoOptions, Scene, play_apart, tour};

/// When set, the host is simulated in a process of its own, however small it is.
const APART: &str = "SANDKEEPER_DEMO_APART";
/// From this many containers on the host is simulated in a process of its own.
const CROWD: usize = 1000;
/// More would be a test of the machine rather than of the program.
const LARGEST: i64 = 100_000;
/// How long a command that was asked to end may take before the demo ends without it.
const LAST_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(super) struct DemoArguments {
    /// Decides about everything that chance decides about
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    seed: u64,
    /// How fast things happen
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// How many containers there are [default: about thirty]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(1..=LARGEST))]
    scale: Option<i64>,
    /// Walk through the dashboard in six steps
    #[arg(long)]
    tour: bool,
    /// A command to run there in place of the dashboard
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What the footer of the dashboard tells about the made-up host, step by step.
#[derive(Clone, Debug)]
pub(super) struct Tour(pub(super) Vec<String>);

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().map_err(|_| "it is not a number; try 2 or 0.5".to_owned())?;
    if (0.05..=100.0).contains(&speed) {
        Ok(speed)
    } else {
        Err("it must be between 0.05 and 100".to_owned())
    }
}

pub(super) fn run(arguments: DemoArguments, global: GlobalArguments) -> Result<Outcome, Trouble> {
    let scale = arguments.scale.and_then(|scale| usize::try_from(scale).ok());
    let mut options = DemoOptions { seed: arguments.seed, speed: arguments.speed, scale, apart: None };
    if let Some(folder) = std::env::var_os(BACKSTAGE) {
        play_apart(&PathBuf::from(folder), &options)?;
        return Ok(Outcome::Done);
    }
    if global.host.is_some()
        || global.context.is_some()
        || !global.stores.is_empty()
        || global.config.is_some()
    {
        return Err(Trouble::DemoUsage(
            "brings its own engine, databases and settings; leave --host, --context, --db and --config away",
        ));
    }
    let inner = match inner(arguments.command, global)? {
        Ok(inner) => inner,
        Err(outcome) => return Ok(outcome),
    };
    if std::env::var_os(APART).is_some() || scale.is_some_and(|scale| scale >= CROWD) {
        options.apart = Some(std::env::current_exe()?);
    }
    survive_signals()?;
    let scene = Scene::start(&options)?;
    let told =
        if arguments.tour { tour().iter().map(|step| (*step).to_owned()).collect() } else { Vec::new() };
    let outcome = run_in(inner, scene.environment(), Some(Tour(told)));
    // The folder goes before the answer does.
    drop(scene);
    outcome
}

/// The command to run on the demo host: the one that was named, or what is shown without one. If it cannot be
/// understood, or only its help was wanted, all is said already.
fn inner(command: Vec<OsString>, global: GlobalArguments) -> Result<Result<Arguments, Outcome>, Trouble> {
    if command.is_empty() {
        return Ok(Ok(Arguments { global, command: None }));
    }
    let words = std::iter::once(OsString::from("sandkeeper")).chain(command);
    match Arguments::try_parse_from(words) {
        Ok(Arguments { command: Some(Command::Demo(_)), .. }) => {
            Err(Trouble::DemoUsage("does not contain another demo"))
        }
        Ok(inner) => Ok(Ok(Arguments { global: over(inner.global, global), ..inner })),
        Err(error) => Ok(Err(super::not_understood(&error))),
    }
}

/// What was said behind the command counts more than what was said before it.
fn over(behind: GlobalArguments, before: GlobalArguments) -> GlobalArguments {
    GlobalArguments {
        profiles: if behind.profiles.is_empty() { before.profiles } else { behind.profiles },
        expected_hashes: [before.expected_hashes, behind.expected_hashes].concat(),
        instance: behind.instance.or(before.instance),
        min_age: behind.min_age.or(before.min_age),
        timeout: behind.timeout.or(before.timeout),
        interval: behind.interval.or(before.interval),
        theme: behind.theme.or(before.theme),
        read_only: behind.read_only || before.read_only,
        ..behind
    }
}

/// From here on a signal ends the command and not the process, so that the folder is removed. Commands that do not
/// listen end by themselves soon enough; for one that does not, patience ends as well.
fn survive_signals() -> Result<(), Trouble> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let guard = runtime.enter();
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [interrupt, terminate, hang_up] = kinds.map(signal);
    let (mut interrupt, mut terminate, mut hang_up) = (interrupt?, terminate?, hang_up?);
    drop(guard);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            tokio::time::sleep(LAST_PATIENCE).await;
        });
        complain("error: the demo did not end when it was asked to; its folder is left behind");
        std::process::exit(1);
    })?;
    Ok(())
}
