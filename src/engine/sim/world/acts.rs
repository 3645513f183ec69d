//! What can be asked of the simulated host: make, start, stop, signal, pause, rename, remove.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::container::{Placed, Run, SimContainer, Stopping};
use super::images::with_version;
use super::{Phase, Refusal, World};
use crate::engine::sim::program::{Program, Signal};

/// How a stop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::sim) enum Stop {
    /// It waits until the container is down.
    Waits,
    /// There was nothing to stop.
    NothingRuns,
}

impl World {
    /// Puts a container there in whatever state, without a word to anybody. Says its id.
    pub fn place(&mut self, mut placed: Placed) -> String {
        let id = self.dice.hex(64);
        if let Some(image) = self.image(&placed.image) {
            let (inherited, image_id) = (image.labels.clone(), image.id.clone());
            if placed.image_id.is_empty() {
                placed.image_id = image_id;
            }
            placed.labels = inherited.into_iter().chain(placed.labels).collect();
        }
        let began = placed.started_at.unwrap_or(placed.created_at);
        let run = Run { began, pid: self.pid(), dies: None };
        let phase = match placed.state.as_str() {
            "created" => Phase::Created,
            "running" => Phase::Running(run),
            "paused" => Phase::Paused(run, began),
            "exited" => Phase::Exited,
            "dead" => Phase::Dead,
            strange => Phase::Strange(strange.to_owned()),
        };
        if Program::of_command(&placed.command).is_none() && !self.commands.contains_key(&placed.command) {
            self.commands.insert(placed.command.clone(), placed.program.clone());
        }
        let program = Some(placed.program.clone());
        self.keep(SimContainer::new(id.clone(), placed, phase, program));
        id
    }

    /// Makes a container as `POST /containers/create` asks for it. Says its id.
    pub fn create(&mut self, now: Timestamp, name: Option<&str>, body: &Value) -> Result<String, Refusal> {
        let object = |key: &str| body.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        let image = body.get("Image").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(found) = self.image(&image) else {
            return Err(Refusal::new(404, format!("No such image: {}", with_version(&image))));
        };
        let (image_id, inherited) = (found.id.clone(), found.labels.clone());
        let command = [words(body.get("Entrypoint")), words(body.get("Cmd"))].concat();
        if command.is_empty() {
            return Err(Refusal::new(400, "No command specified"));
        }
        let name = match name.filter(|name| !name.is_empty()) {
            Some(name) => name.strip_prefix('/').unwrap_or(name).to_owned(),
            None => format!("nameless_{}", self.dice.hex(8)),
        };
        if !is_name(&name) {
            return Err(invalid_name(&name));
        }
        self.must_be_free(&name)?;
        let labels = object("Labels").into_iter();
        let labels = labels.filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())));
        let labels: BTreeMap<String, String> = inherited.into_iter().chain(labels).collect();
        let mut config: Map<String, Value> = body.as_object().cloned().unwrap_or_default();
        for elsewhere in ["HostConfig", "NetworkingConfig", "Labels", "Image"] {
            config.remove(elsewhere);
        }
        let program = Program::of_command(&command).or_else(|| self.commands.get(&command).cloned());
        let id = self.dice.hex(64);
        let placed = Placed {
            name,
            image,
            image_id,
            labels,
            command,
            config,
            host_config: object("HostConfig"),
            created_at: now,
            ..Placed::default()
        };
        self.keep(SimContainer::new(id.clone(), placed, Phase::Created, program));
        self.emit(now, &id, "create", &[]);
        Ok(id)
    }

    fn keep(&mut self, container: SimContainer) {
        self.names.insert(container.name.clone(), container.id.clone());
        self.containers.insert(container.id.clone(), container);
    }

    /// Starts a container.
    pub fn start(&mut self, now: Timestamp, reference: &str) -> Result<(), Refusal> {
        let container = self.find_mut(reference)?;
        let refusal = match container.phase {
            Phase::Paused(..) => {
                Some(Refusal::new(409, "cannot start a paused container, try unpause instead"))
            }
            Phase::Running(_) | Phase::Restarting(_) => Some(Refusal::not_modified()),
            Phase::Dead => Some(Refusal::new(409, "container is marked for removal and cannot be started")),
            Phase::Created | Phase::Exited | Phase::Strange(_) => None,
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        if container.program.is_none() {
            let name = container.command.first().cloned().unwrap_or_default();
            let error = format!(
                "failed to create shim task: OCI runtime create failed: runc create failed: unable to start \
                 container process: exec: \"{name}\": executable file not found in $PATH: unknown"
            );
            container.error.clone_from(&error);
            container.exit_code = 127;
            return Err(Refusal::new(400, error));
        }
        container.manually_stopped = false;
        container.restart_count = 0;
        container.back_off = Duration::ZERO;
        let id = container.id.clone();
        self.run(now, &id);
        Ok(())
    }

    /// Asks a container to end, and ends it by force after the grace; without one, never.
    pub(in crate::engine::sim) fn stop(
        &mut self,
        now: Timestamp,
        reference: &str,
        grace: Option<Duration>,
    ) -> Result<Stop, Refusal> {
        let container = self.find_mut(reference)?;
        if !container.phase.is_up() {
            return Ok(Stop::NothingRuns);
        }
        let id = container.id.clone();
        let signal = container.config.get("StopSignal").and_then(Value::as_str).and_then(Signal::parse);
        let earlier = container.stopping.take();
        let askers = earlier.as_ref().map_or(0, |stopping| stopping.askers) + 1;
        let kill_at = grace.and_then(|grace| now.checked_add(grace).ok());
        let kill_at = earlier.and_then(|stopping| stopping.kill_at).into_iter().chain(kill_at).min();
        container.stopping = Some(Stopping { kill_at, askers });
        self.signal(now, &id, signal.unwrap_or(Signal::TERM))?;
        Ok(Stop::Waits)
    }

    /// Sends a signal.
    pub fn signal(&mut self, now: Timestamp, reference: &str, signal: Signal) -> Result<(), Refusal> {
        let container = self.find_mut(reference)?;
        let id = container.id.clone();
        if !container.phase.is_up() {
            let message = format!("Cannot kill container: {reference}: Container {id} is not running");
            return Err(Refusal::new(409, message));
        }
        container.manually_stopped = true;
        if matches!(container.phase, Phase::Restarting(_)) {
            // Nothing runs that could be told; it just does not run again.
            container.phase = Phase::Exited;
            let stopping = container.stopping.take();
            for _ in 0..stopping.map_or(0, |stopping| stopping.askers) {
                self.emit(now, &id, "stop", &[]);
            }
            return Ok(());
        }
        self.emit(now, &id, "kill", &[("signal", signal.0.to_string())]);
        self.wake(now, &id);
        if signal == Signal::KILL {
            self.end(now, &id, signal.exit_code());
            return Ok(());
        }
        let (deaf, dying) = (self.quirks.ignore_signals, self.quirks.dying);
        let container = self.find_mut(&id)?;
        let death = container.program.as_ref().filter(|_| !deaf).and_then(|program| {
            let code = *program.obeys.get(&signal)?;
            Some((now.checked_add(program.dying + dying).ok()?, code))
        });
        if let (Phase::Running(run), Some(death)) = (&mut container.phase, death) {
            run.dies = Some(run.dies.map_or(death, |earlier| earlier.min(death)));
        }
        // Whoever ends at once has ended before the answer.
        self.stir();
        self.tick(now);
        Ok(())
    }

    /// Freezes a container.
    pub fn pause(&mut self, now: Timestamp, reference: &str) -> Result<(), Refusal> {
        let container = self.find_mut(reference)?;
        let id = container.id.clone();
        let problem = match &container.phase {
            Phase::Running(run) => {
                container.phase = Phase::Paused(run.clone(), now);
                self.emit(now, &id, "pause", &[]);
                return Ok(());
            }
            Phase::Paused(..) => "is already paused",
            Phase::Restarting(_) => "is restarting, wait until the container is running",
            _ => "is not running",
        };
        Err(Refusal::new(409, format!("Container {id} {problem}")))
    }

    /// Lets a frozen container run on.
    pub fn unpause(&mut self, now: Timestamp, reference: &str) -> Result<(), Refusal> {
        let id = self.find(reference)?.id.clone();
        if self.wake(now, &id) {
            return Ok(());
        }
        Err(Refusal::new(500, format!("Container {id} is not paused")))
    }

    fn wake(&mut self, now: Timestamp, id: &str) -> bool {
        let Some(container) = self.containers.get_mut(id) else { return false };
        let Phase::Paused(run, since) = &container.phase else { return false };
        let mut run = run.clone();
        // Time stood still for it.
        run.began = run.began.checked_add(now.duration_since(*since)).unwrap_or(run.began);
        container.phase = Phase::Running(run);
        self.emit(now, id, "unpause", &[]);
        true
    }

    /// Gives a container another name.
    pub fn rename(&mut self, now: Timestamp, reference: &str, name: &str) -> Result<(), Refusal> {
        let name = name.strip_prefix('/').unwrap_or(name);
        if name.is_empty() {
            return Err(Refusal::new(400, "Neither old nor new names may be empty"));
        }
        let container = self.find(reference)?;
        let (id, old) = (container.id.clone(), container.name.clone());
        if old == name {
            return Err(Refusal::new(400, "Renaming a container with the same name as its current name"));
        }
        let explain = |refusal: Refusal| {
            Refusal::new(refusal.status, format!("Error when allocating new name: {}", refusal.message))
        };
        if !is_name(name) {
            return Err(explain(invalid_name(&format!("/{name}"))));
        }
        self.must_be_free(name).map_err(explain)?;
        self.names.remove(&old);
        self.names.insert(name.to_owned(), id.clone());
        if let Some(container) = self.containers.get_mut(&id) {
            name.clone_into(&mut container.name);
        }
        self.emit(now, &id, "rename", &[("oldName", format!("/{old}"))]);
        Ok(())
    }

    /// Removes a container; by force even one that runs.
    pub fn remove(&mut self, now: Timestamp, reference: &str, force: bool) -> Result<(), Refusal> {
        let container = self.find_mut(reference)?;
        let id = container.id.clone();
        if container.phase.is_up() && !force {
            let (state, first) = match container.phase {
                Phase::Paused(..) => ("paused", "Unpause and then stop"),
                Phase::Restarting(_) => ("restarting", "Stop"),
                _ => ("running", "Stop"),
            };
            let message = format!(
                "You cannot remove a {state} container {id}. {first} the container before attempting removal or \
                 force remove"
            );
            return Err(Refusal::new(409, message));
        }
        if container.phase.is_up() {
            container.removal_waits = true;
            self.signal(now, &id, Signal::KILL)?;
        }
        self.forget(now, &id);
        Ok(())
    }

    /// Takes a container away, whatever it was doing.
    pub(super) fn forget(&mut self, now: Timestamp, id: &str) {
        if !self.containers.contains_key(id) {
            return;
        }
        self.emit(now, id, "destroy", &[]);
        if let Some(container) = self.containers.remove(id) {
            self.names.remove(&container.name);
        }
        self.execs.retain(|_, exec| exec.container != id);
    }

    /// Somebody looked at what runs in it; the engine tells everybody.
    pub(in crate::engine::sim) fn looked_at_processes(&mut self, now: Timestamp, id: &str) {
        self.emit(now, id, "top", &[]);
    }

    fn must_be_free(&self, name: &str) -> Result<(), Refusal> {
        let Some(owner) = self.names.get(name) else { return Ok(()) };
        let message = format!(
            "Conflict. The container name \"/{name}\" is already in use by container \"{owner}\". You have to \
             remove (or rename) that container to be able to reuse that name."
        );
        Err(Refusal::new(409, message))
    }
}

fn words(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(word)) => vec![word.clone()],
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn is_name(name: &str) -> bool {
    let mut letters = name.bytes();
    let rest = |letter: u8| letter.is_ascii_alphanumeric() || b"_.-".contains(&letter);
    letters.next().is_some_and(|first| first.is_ascii_alphanumeric()) && name.len() > 1 && letters.all(rest)
}

fn invalid_name(name: &str) -> Refusal {
    Refusal::new(400, format!("Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"))
}
