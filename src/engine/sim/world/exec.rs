//! Commands that run in a container beside its own program.

use jiff::Timestamp;

use super::container::LeftBehind;
use super::{Phase, Refusal, World};
use crate::engine::sim::program::Program;

/// A command.
#[derive(Clone, Debug)]
pub struct SimExec {
    /// Its id.
    pub id: String,
    /// The container it is for.
    pub container: String,
    pub(in crate::engine::sim) command: Vec<String>,
    pub(in crate::engine::sim) progress: Progress,
    program: Option<Program>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::sim) enum Progress {
    Waiting,
    Running { pid: u32, began: Timestamp },
    Ended { pid: u32, code: i32 },
}

impl SimExec {
    /// When it ends by itself, and how.
    fn ends(&self) -> Option<(Timestamp, i32)> {
        let Progress::Running { began, .. } = self.progress else { return None };
        let Some(program) = &self.program else { return Some((began, 126)) };
        Some((began.checked_add(program.runs_for()?).ok()?, program.exit_code))
    }
}

impl World {
    /// Prepares a command; says its id.
    pub fn create_exec(
        &mut self,
        now: Timestamp,
        reference: &str,
        command: Vec<String>,
    ) -> Result<String, Refusal> {
        if command.is_empty() {
            return Err(Refusal::new(400, "No exec command specified"));
        }
        let container = self.find(reference)?.id.clone();
        self.must_run_commands(&container)?;
        let id = self.dice.hex(64);
        let told = format!("exec_create: {}", command.join(" "));
        if let Some(found) = self.containers.get_mut(&container) {
            found.exec_ids.insert(id.clone());
        }
        let exec = SimExec {
            id: id.clone(),
            container: container.clone(),
            program: Program::of_command(&command),
            command,
            progress: Progress::Waiting,
        };
        self.execs.insert(id.clone(), exec);
        self.emit(now, &container, &told, &[("execID", id.clone())]);
        Ok(id)
    }

    /// Starts a command that was prepared.
    pub fn start_exec(&mut self, now: Timestamp, id: &str) -> Result<(), Refusal> {
        let exec = self.exec(id)?;
        let problem = match exec.progress {
            Progress::Waiting => None,
            Progress::Running { .. } => Some("is already running"),
            Progress::Ended { .. } => Some("has already run"),
        };
        if let Some(problem) = problem {
            return Err(Refusal::new(409, format!("Error: Exec command {id} {problem}")));
        }
        let (container, told) = (exec.container.clone(), format!("exec_start: {}", exec.command.join(" ")));
        self.must_run_commands(&container)?;
        let pid = self.pid();
        if let Some(exec) = self.execs.get_mut(id) {
            exec.progress = Progress::Running { pid, began: now };
        }
        self.emit(now, &container, &told, &[("execID", id.to_owned())]);
        Ok(())
    }

    /// Runs a command that does what `program` says, whatever it is called. Says its id.
    pub fn run_exec(
        &mut self,
        now: Timestamp,
        reference: &str,
        command: Vec<String>,
        program: Program,
    ) -> Result<String, Refusal> {
        let id = self.create_exec(now, reference, command)?;
        if let Some(exec) = self.execs.get_mut(&id) {
            exec.program = Some(program);
        }
        self.start_exec(now, &id)?;
        Ok(id)
    }

    /// Leaves a process in a container that a command has put into the background.
    pub fn leave_behind(
        &mut self,
        now: Timestamp,
        reference: &str,
        command: Vec<String>,
    ) -> Result<(), Refusal> {
        let container = self.find(reference)?.id.clone();
        self.must_run_commands(&container)?;
        // The command itself, and what it started.
        let pid = self.pid().max(self.pid());
        let left = LeftBehind { pid, began: now, command, is_command: false };
        self.find_mut(&container)?.left_behind.push(left);
        Ok(())
    }

    /// Ends everything in a container of which the engine knows nothing.
    pub fn end_what_was_left(&mut self, reference: &str) -> Result<(), Refusal> {
        self.find_mut(reference)?.left_behind.clear();
        Ok(())
    }

    /// The engine forgets all commands, as one does that is restarted and lets containers go on. They run on.
    pub fn forget_commands(&mut self) {
        for exec in std::mem::take(&mut self.execs).into_values() {
            let Some(container) = self.containers.get_mut(&exec.container) else { continue };
            container.exec_ids.remove(&exec.id);
            if let Progress::Running { pid, began } = exec.progress {
                let left = LeftBehind { pid, began, command: exec.command, is_command: true };
                container.left_behind.push(left);
            }
        }
    }

    /// A command by its id.
    pub fn exec(&self, id: &str) -> Result<&SimExec, Refusal> {
        self.execs.get(id).ok_or_else(|| Refusal::new(404, format!("No such exec instance: {id}")))
    }

    /// The commands of a container, those that wait or have ended included.
    pub fn execs_of<'a>(&'a self, container: &'a str) -> impl Iterator<Item = &'a SimExec> {
        self.execs.values().filter(move |exec| exec.container == container)
    }

    /// Ends a command.
    pub fn end_exec(&mut self, now: Timestamp, id: &str, code: i32) {
        let Some(exec) = self.execs.get_mut(id) else { return };
        let Progress::Running { pid, .. } = exec.progress else { return };
        exec.progress = Progress::Ended { pid, code };
        let container = exec.container.clone();
        if let Some(found) = self.containers.get_mut(&container) {
            found.exec_ids.remove(id);
        }
        self.emit(now, &container, "exec_die", &[("execID", id.to_owned()), ("exitCode", code.to_string())]);
    }

    /// The commands that will end by themselves, each with its time.
    pub(super) fn ending_execs(&self) -> impl Iterator<Item = (Timestamp, &str, i32)> {
        self.execs.values().filter_map(|exec| exec.ends().map(|(at, code)| (at, exec.id.as_str(), code)))
    }

    fn must_run_commands(&self, container: &str) -> Result<(), Refusal> {
        let problem = match &self.find(container)?.phase {
            Phase::Running(_) => return Ok(()),
            Phase::Paused(..) => "is paused, unpause the container before exec",
            Phase::Restarting(_) => "is restarting, wait until the container is running",
            _ => "is not running",
        };
        Err(Refusal::new(409, format!("Container {container} {problem}")))
    }
}
