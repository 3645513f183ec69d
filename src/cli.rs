//! The command line: what can be asked, and what every command has in common. One file per command, each thin.

mod accept;
mod act;
mod dashboard;
mod demo;
mod dirs;
mod doctor;
mod gate;
mod house;
mod log;
mod manual;
mod may_start;
mod output;
mod profiles;
mod progress;
mod reconcile;
mod recover;
mod report;
mod status;
mod table;
mod targets;
mod try_profile;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use thiserror::Error;

use dashboard::Showing;
use house::House;

use crate::config::{Addressed, ConfigError, Flags, Settings};
use crate::domain::span::parse_span;
use crate::engine::EndpointFault;
use crate::environment::Environment;
use crate::folders::FolderFault;
use crate::keeper::KeeperFault;
use crate::privileges::refuse_lent;
use crate::profiles::{Library, NoSuchProfile};

/// How many files are read at once. Those that hang on a dead disk keep their threads, and the others go on; but SQLite keeps
/// memory for every thread that ever read.
const READS_AT_ONCE: usize = 4;

/// The name under which the program can only look, whatever it is told: a link to it is enough.
const VIEWER: &str = "sandkeeper-view";

/// How a command ended. The numbers are the program's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is done and all evidence was good.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// It was called wrongly.
    Usage = 2,
    /// Some items failed, or were skipped because something had changed.
    Partial = 3,
    /// Some evidence was unavailable.
    Unavailable = 4,
    /// `may-start` says: draining.
    Draining = 5,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

/// A terminal console for the sandbox containers that agent systems leave on a host.
///
/// Watches labelled containers and the application's session database side by side, says for every container whether
/// a session still needs it and why, and says `unknown` whenever it cannot know.
#[derive(Debug, Parser)]
#[command(name = "sandkeeper", version = env!("SANDKEEPER_VERSION"), propagate_version = true, arg_required_else_help = false)]
struct Arguments {
    #[command(flatten)]
    global: GlobalArguments,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct GlobalArguments {
    /// The engine: `unix:///path/to.sock` or `tcp://host:port` [default: the environment's, the Docker context's, the
    /// usual sockets]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "context")]
    host: Option<String>,
    /// The Docker context whose engine to use
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Look for this system only; may be repeated [default: every system of which there is a trace]
    #[arg(long = "profile", global = true, value_name = "NAME")]
    profiles: Vec<String>,
    /// The session database, or the `http://` address of the application, in place of where the profile looks; may be
    /// repeated
    #[arg(long = "db", global = true, value_name = "[SYSTEM=]PATH")]
    stores: Vec<String>,
    /// The current config hash [default: the newest container's]
    #[arg(long = "expect-hash", global = true, value_name = "[SYSTEM=]HASH")]
    expected_hashes: Vec<String>,
    /// Which installation is ours, where several share an engine
    #[arg(long, global = true, value_name = "NAME")]
    instance: Option<String>,
    /// Containers made or started less than this ago are never stopped or removed, not even by force [default: 60s]
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_span)]
    min_age: Option<Duration>,
    /// How long one look may take [default: 3s]
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_span)]
    timeout: Option<Duration>,
    /// How often to look while the engine sends no events [default: 2s]
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_span)]
    interval: Option<Duration>,
    /// The config file [default: `config.toml` in `$XDG_CONFIG_HOME/sandkeeper`]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How the dashboard looks: dark, light, high-contrast, deuteranopia, none, or a theme of your own
    #[arg(long, global = true, value_name = "NAME")]
    theme: Option<String>,
    /// How often the dashboard may draw in a second, for slow connections [default: 30]
    #[arg(long, global = true, value_name = "COUNT")]
    max_fps: Option<u32>,
    /// Never change anything, whatever is asked [always under the name `sandkeeper-view`]
    #[arg(long, global = true)]
    read_only: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show every sandbox with its status and the reasons for it
    ///
    /// Exit code: 0 when all evidence was good, 4 when some was unavailable (what depends on it is `unknown`), 1 when
    /// nothing could be shown.
    Status(status::StatusArguments),
    /// Clean up what nobody needs: preview, confirm, stop gracefully, remove
    ///
    /// Removes stale containers, orphans in which nothing runs, and drained containers whose sessions have all ended. Every
    /// container is checked again right before each step; what a session needs by then is left alone.
    Reconcile(reconcile::ReconcileArguments),
    /// Stop containers gracefully
    Stop(targets::StopArguments),
    /// Remove containers: stop them gracefully, then remove them
    Rm(targets::RemoveArguments),
    /// Mark containers for eviction: each goes when all of its sessions have ended
    Drain(targets::DrainArguments),
    /// Take the mark for eviction away again
    Undrain(targets::DrainArguments),
    /// Bring back what is lost: a container that is gone, has ended under a live session, or is in quarantine
    ///
    /// If another container has taken its place, that one is adopted. Else it is made again as it was recorded, under a
    /// temporary name until it runs. A failure leaves things as they were.
    Recreate(recover::RecreateArguments),
    /// Take back what sandkeeper removed or put aside: the last time, or the containers named
    Undo(recover::UndoArguments),
    /// Bring lost containers back while their sessions are live, for systems that allow it (`recovery.heal`)
    Heal(recover::HealArguments),
    /// Ask whether a new session may start in a workspace: exit code 0 for yes, 5 while it is draining
    MayStart(may_start::MayStartArguments),
    /// Say that a session store is the right one, although it no longer has sessions that it had
    ///
    /// What it no longer has then counts as ended. A store is also believed when what is missing is back, or after a while.
    Accept(accept::AcceptArguments),
    /// Show what was done here: by whom, when, why, and what came of it
    Log(log::LogArguments),
    /// List the folders that sandboxes left behind, and move them to a trash folder beside them
    Dirs(dirs::DirsArguments),
    /// Check engine, profiles, session databases, rights and terminal, one line each, with the fix
    Doctor(doctor::DoctorArguments),
    /// Let questions pass to the engine and nothing else: a socket for people who may only look
    ///
    /// Whoever can open the socket at PATH can list, inspect, follow logs and events, with secrets taken out, and cannot
    /// change anything: `sandkeeper --read-only --host unix://PATH` and the docker command line both work on it. It runs until
    /// TERM or Ctrl-C, writes one line for every request it refuses, and removes its socket when it ends.
    Gate(gate::GateArguments),
    /// List, show and check the profiles of the systems sandkeeper understands
    Profiles(profiles::ProfilesArguments),
    /// Try everything on a made-up host, without an engine: four systems, every status, every action
    ///
    /// The host lives in a temporary folder that is removed at the end; nothing else is touched. With a command, such as
    /// `demo status` or `demo reconcile --dry-run`, that command is run there instead.
    Demo(demo::DemoArguments),
    /// Print a script that completes sandkeeper's commands in a shell
    Completions(manual::CompletionsArguments),
    /// Print the manual page of the program or of a command
    Man(manual::ManArguments),
}

/// Why a command could not even begin.
#[derive(Debug, Error)]
enum Trouble {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Profile(#[from] NoSuchProfile),
    #[error(transparent)]
    Endpoint(#[from] EndpointFault),
    #[error("`{option}` names the system `{system}`, which is not looked for; {fix}")]
    System { option: &'static str, system: String, fix: String },
    #[error("the program cannot start: {0}")]
    Runtime(#[from] std::io::Error),
    #[error(transparent)]
    Keeper(#[from] KeeperFault),
    #[error(transparent)]
    Theme(#[from] crate::ui::theme::ThemeFault),
    #[error("the keys of the config file cannot be used: {0}")]
    Keys(#[from] crate::ui::KeymapFault),
    #[error(transparent)]
    Demo(#[from] crate::demo::DemoFault),
    #[error("the demo {0}")]
    DemoUsage(&'static str),
    #[error("there is no command `{0}`; `sandkeeper help` lists them")]
    NoSuchCommand(String),
    #[error(transparent)]
    Accept(#[from] accept::AcceptFault),
    #[error(transparent)]
    Target(#[from] targets::TargetFault),
    #[error(transparent)]
    Folders(#[from] FolderFault),
    #[error(transparent)]
    Gate(#[from] crate::gate::GateFault),
    #[error("there is no group `{0}`; make it with `groupadd --system {0}`, or name another with `--group`")]
    NoSuchGroup(String),
    #[error("no engine answers: {0}; start one, or name one with `--host`")]
    NoEngine(String),
    #[error("{0} changes things, and this is read-only; leave `--read-only` away")]
    ReadOnly(&'static str),
    #[error(
        "nothing was done: {0} needs a confirmation, and there is no terminal to show the plan on; preview with `--dry-run`, then add `--yes`"
    )]
    Unconfirmed(&'static str),
    #[error("--db {0} does not say which system answers there; write `--db SYSTEM={0}`")]
    WhoseAddress(String),
    #[error("nothing was done: {0} deletes for good, so it asks on a terminal, and there is none")]
    TypedOnly(&'static str),
}

impl Trouble {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Keeper(KeeperFault::NoEvidence(_) | KeeperFault::Engine(_)) | Self::NoEngine(_) => {
                Outcome::Unavailable
            }
            Self::Runtime(_)
            | Self::Gate(_)
            | Self::ReadOnly(_)
            | Self::Keeper(_)
            | Self::Folders(FolderFault::NotAFolder(_) | FolderFault::Unreadable { .. })
            | Self::Demo(_)
            | Self::Accept(_)
            | Self::Target(targets::TargetFault::NotFound { .. }) => Outcome::Failed,
            _ => Outcome::Usage,
        }
    }
}

/// Runs the program with these arguments.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Err(fault) = refuse_lent() {
        output::complain(&format!("error: {fault}"));
        return Outcome::Failed.into();
    }
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let only_looks =
        arguments.first().and_then(|name| Path::new(name).file_name()).is_some_and(|it| it == VIEWER);
    let mut arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return not_understood(&error).into(),
    };
    arguments.global.read_only |= only_looks;
    match run(arguments) {
        // Whoever relies on the answer must not take half of it for all.
        Ok(Outcome::Done) if output::was_cut_short() => Outcome::Failed.into(),
        Ok(outcome) => outcome.into(),
        Err(trouble) => {
            output::complain(&format!("error: {trouble}"));
            trouble.outcome().into()
        }
    }
}

/// Says what is wrong with the arguments, or helps if that was asked for.
fn not_understood(error: &clap::Error) -> Outcome {
    // Help and version are no errors; clap knows which stream each belongs on.
    if !error.use_stderr() {
        let _ = error.print();
        return Outcome::Done;
    }
    // The message repeats what was typed, whatever that was.
    error.render().to_string().lines().for_each(output::complain);
    Outcome::Usage
}

fn run(arguments: Arguments) -> Result<Outcome, Trouble> {
    match arguments.command {
        Some(Command::Demo(demo)) => demo::run(demo, arguments.global),
        Some(Command::Completions(arguments)) => Ok(manual::completions(&arguments)),
        Some(Command::Man(arguments)) => manual::man(&arguments),
        _ => run_in(arguments, Environment::of_process(), None),
    }
}

/// Runs a command in these surroundings: the process's own, or the demo's.
fn run_in(
    arguments: Arguments,
    environment: Environment,
    demo: Option<demo::Tour>,
) -> Result<Outcome, Trouble> {
    let settings = Settings::load(arguments.global.into(), &environment)?;
    let library = Library::load(Some(&settings.profile_folder));
    let tried = match &arguments.command {
        Some(Command::Profiles(arguments)) => match arguments.tried() {
            None => return Ok(profiles::run(arguments, &library)),
            tried => tried.map(ToOwned::to_owned),
        },
        _ => None,
    };
    let house = House { environment, settings, library, demo };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(READS_AT_ONCE)
        .enable_all()
        .build()?;
    if let Some(name) = tried {
        let outcome = runtime.block_on(try_profile::run(&name, house));
        runtime.shutdown_background();
        return outcome;
    }
    let command = match (arguments.command, dashboard::can_be_shown(&house)) {
        (Some(command), _) => command,
        (None, Showing::Here) => {
            let outcome = runtime.block_on(dashboard::run(&house));
            runtime.shutdown_background();
            return outcome;
        }
        (None, Showing::PlainOnly) => Command::Status(status::StatusArguments::watching()),
        (None, Showing::Nowhere) => Command::Status(status::StatusArguments::default()),
    };
    let outcome = match &command {
        Command::Status(arguments) => runtime.block_on(status::run(arguments, &house)),
        Command::Dirs(arguments) => runtime.block_on(dirs::run(arguments, &house)),
        Command::Doctor(arguments) => runtime.block_on(doctor::run(arguments, &house)),
        Command::Gate(arguments) => runtime.block_on(gate::run(arguments, &house)),
        Command::Reconcile(arguments) => runtime.block_on(reconcile::run(arguments, &house)),
        Command::Stop(arguments) => runtime.block_on(targets::stop(arguments, &house)),
        Command::Rm(arguments) => runtime.block_on(targets::remove(arguments, &house)),
        Command::Drain(arguments) => runtime.block_on(targets::drain(arguments, &house)),
        Command::Undrain(arguments) => runtime.block_on(targets::undrain(arguments, &house)),
        Command::Recreate(arguments) => runtime.block_on(recover::recreate(arguments, &house)),
        Command::Undo(arguments) => runtime.block_on(recover::undo(arguments, &house)),
        Command::Heal(arguments) => runtime.block_on(recover::heal(arguments, &house)),
        Command::MayStart(arguments) => runtime.block_on(may_start::run(arguments, &house)),
        Command::Accept(arguments) => runtime.block_on(accept::run(arguments, &house)),
        Command::Log(arguments) => log::run(arguments, &house),
        // These were answered above, for they need no host.
        Command::Profiles(_) | Command::Demo(_) | Command::Completions(_) | Command::Man(_) => {
            Ok(Outcome::Done)
        }
    };
    // A read that hangs on a dead disk must not keep the program from ending.
    runtime.shutdown_background();
    outcome
}

impl From<GlobalArguments> for Flags {
    fn from(arguments: GlobalArguments) -> Self {
        let addressed = |texts: Vec<String>| texts.iter().map(|text| Addressed::parse(text)).collect();
        Self {
            config: arguments.config,
            host: arguments.host,
            context: arguments.context,
            profiles: arguments.profiles,
            stores: addressed(arguments.stores),
            expected_hashes: addressed(arguments.expected_hashes),
            instance: arguments.instance,
            min_age: arguments.min_age,
            timeout: arguments.timeout,
            interval: arguments.interval,
            theme: arguments.theme,
            max_fps: arguments.max_fps,
            read_only: arguments.read_only,
        }
    }
}
