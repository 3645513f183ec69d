//! What runs in a container, and what that says: that somebody is at work in it, that somebody may be, or nothing.
//!
//! A container's own program says nothing, whatever it does. If it only waits, everything else was put there by somebody.
//! If it is a server or the like, it has processes of its own, and only some of the others are told from them: what the
//! engine itself started, what a command has left behind, and what began long after the container.

mod waiting;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::domain::container::{Container, ContainerState, Inspection, Process, ProcessList, Processes};
use crate::domain::evidence::Evidence;
use crate::domain::profile::Profile;
use waiting::{is_init, is_interactive_shell, is_shell, is_waiting_script, waits};

/// What begins with a container begins within this time.
const BEGINNING: Duration = Duration::from_mins(1);

/// Nobody puts more of them before a program.
const MOST_INITS: usize = 8;

/// A sign that somebody is at work in the container.
pub(crate) fn life(profile: &Profile, container: &Container) -> Option<Evidence> {
    let at_work = findings(profile, container)?.life;
    let program = at_work.first()?.program().to_owned();
    Some(Evidence::AtWork { count: at_work.len(), program })
}

/// Why what runs in the container does not allow the finding that nobody is in it.
pub(crate) fn doubt(profile: &Profile, container: &Container) -> Option<Evidence> {
    if !container.state.shows_processes() {
        return None;
    }
    match container.inspection().map(|inspection| &inspection.processes) {
        Some(Processes::Listed(_)) => findings(profile, container)?.doubt(),
        Some(Processes::Failed(why)) => Some(Evidence::ProcessesUnreadable(why.clone())),
        // Some engines do not list what is paused.
        Some(Processes::NotAsked) | None if container.state == ContainerState::Paused => None,
        Some(Processes::NotAsked) | None => {
            Some(Evidence::ProcessesUnreadable("the engine was not asked".to_owned()))
        }
    }
}

/// What the processes of a container say.
#[derive(Debug, Default)]
struct Findings<'a> {
    /// Somebody's work.
    life: Vec<&'a Process>,
    /// What a command has left behind, as far as can be told.
    strays: Vec<&'a Process>,
    /// What began long after the container's own program.
    late: Vec<&'a Process>,
    /// A shell on a terminal.
    shell: Option<&'a Process>,
    /// What reads from whoever started the container.
    attached: Option<&'a Process>,
}

impl Findings<'_> {
    fn doubt(&self) -> Option<Evidence> {
        let may_be = |processes: &[&Process], stray: bool| {
            let program = processes.first()?.program().to_owned();
            Some(Evidence::MayBeWork { count: processes.len(), program, stray })
        };
        may_be(&self.strays, true)
            .or_else(|| may_be(&self.late, false))
            .or_else(|| self.shell.map(|shell| Evidence::ShellOnTerminal(shell.program().to_owned())))
            .or_else(|| self.attached.map(|main| Evidence::MayBeAttached(main.program().to_owned())))
    }
}

fn findings<'a>(profile: &Profile, container: &'a Container) -> Option<Findings<'a>> {
    let inspection = container.inspection()?;
    match &inspection.processes {
        Processes::Listed(list) if container.state.shows_processes() => Some(find(profile, inspection, list)),
        _ => None,
    }
}

fn find<'a>(profile: &Profile, inspection: &Inspection, list: &'a ProcessList) -> Findings<'a> {
    let own = Own::of(list);
    let main = own.main();
    let named = |process: &Process| profile.rests(&process.command);
    let idle = named(main) || waits(&main.command) || is_waiting_script(&main.command);
    let mut found = Findings::default();
    if inspection.terminal && is_interactive_shell(&main.command) && !named(main) {
        found.shell = Some(main);
    }
    if inspection.attached && !idle {
        found.attached = Some(main);
    }

    // Commands that the engine runs. After a restart it may have forgotten those that ran before.
    let commands: Vec<&Process> = list.others.iter().filter(|process| own.is_command(process)).collect();
    let started = own.with_descendants(&commands);
    if commands.len() > inspection.running_execs {
        found.life.extend(&commands);
    }

    let rest = list.others.iter().filter(|process| !own.has(process) && !started.contains(&process.pid));
    for process in rest.filter(|process| !named(process) && !own.is_part_of_main(process)) {
        if idle {
            found.life.push(process);
        } else if own.is_stray(process) || own.is_detached(process) || own.was_typed(process) {
            found.strays.push(process);
        } else if process.began.is_none_or(|after| after > BEGINNING) {
            found.late.push(process);
        }
    }
    found
}

/// The container's own program, and the inits before it.
struct Own<'a> {
    list: &'a ProcessList,
    /// There may be tens of thousands.
    by_pid: HashMap<u32, &'a Process>,
    /// The first process; while that is an init, the one it was given to run, and so on.
    chain: Vec<&'a Process>,
}

impl<'a> Own<'a> {
    fn of(list: &'a ProcessList) -> Self {
        let by_pid = list.others.iter().chain([&list.first]).map(|process| (process.pid, process)).collect();
        let mut own = Self { list, by_pid, chain: vec![&list.first] };
        while is_init(&own.main().command) && own.chain.len() < MOST_INITS {
            let init = own.main().pid;
            let children =
                list.others.iter().filter(|process| process.parent == Some(init) && !own.has(process));
            // An init ends with its program, and runs it before anything else. What it was left with came later.
            let oldest = children
                .min_by_key(|child| (own.is_stray(child), child.began.unwrap_or(Duration::MAX), child.pid));
            let Some(oldest) = oldest else { break };
            own.chain.push(oldest);
        }
        own
    }

    fn main(&self) -> &'a Process {
        self.chain.last().copied().unwrap_or(&self.list.first)
    }

    fn has(&self, process: &Process) -> bool {
        self.chain.iter().any(|own| own.pid == process.pid)
    }

    fn parent_of(&self, process: &Process) -> Option<&'a Process> {
        process.parent.and_then(|parent| self.find(parent))
    }

    /// Whether the engine itself runs it: then its parent is outside.
    fn is_command(&self, process: &Process) -> bool {
        process.pid != self.list.first.pid && self.parent_of(process).is_none()
    }

    /// These, and all that they have started.
    fn with_descendants(&self, ancestors: &[&Process]) -> HashSet<u32> {
        let mut found: HashSet<u32> = HashSet::new();
        let mut next: Vec<u32> = ancestors.iter().map(|process| process.pid).collect();
        if next.is_empty() {
            return found;
        }
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for process in &self.list.others {
            children.entry(process.parent.unwrap_or_default()).or_default().push(process.pid);
        }
        while let Some(pid) = next.pop() {
            if found.insert(pid) {
                next.extend(children.get(&pid).into_iter().flatten());
            }
        }
        found
    }

    fn find(&self, pid: u32) -> Option<&'a Process> {
        self.by_pid.get(&pid).copied()
    }

    /// Whether whoever led its session has ended and was not one of the container's own, as with what a command leaves behind.
    fn is_stray(&self, process: &Process) -> bool {
        let Some(leader) = process.leader else { return false };
        let is_own = self.chain.iter().any(|own| own.leader == Some(leader));
        !is_own && self.find(leader).is_none()
    }

    /// Whether it was left to the container's first process and leads a session of its own, as what a command detaches does.
    /// So do the processes of some servers; but a command may have been run in the first second, so only a profile tells them.
    fn is_detached(&self, process: &Process) -> bool {
        process.parent == Some(self.list.first.pid) && process.leader == Some(process.pid)
    }

    /// Whether a shell that reads its commands from somebody runs it: such a shell starts nothing by itself.
    fn was_typed(&self, process: &Process) -> bool {
        let main = self.main();
        process.parent == Some(main.pid) && is_interactive_shell(&main.command)
    }

    /// Whether the main program waits by means of it: a script's `sleep`, and the copy of a shell that is about to become one.
    fn is_part_of_main(&self, process: &Process) -> bool {
        let main = self.main();
        is_shell(&main.command)
            && process.parent == Some(main.pid)
            && process.leader.is_some()
            && process.leader == main.leader
            && (waits(&process.command) || process.command == main.command)
    }
}
