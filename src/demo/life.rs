//! Plays the scene: the first minute by the script, and after that by chance, so that something always happens and the
//! host stays about as full as it was.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::script::{self, Part, SessionPart, SessionState};
use super::stage::Stage;
use super::{DemoFault, crowd};
use crate::state::{ItemRecord, PlanRecord, State, Step};

/// How often it is looked whether anybody is there.
const CURTAIN: Duration = Duration::from_millis(50);
/// Between two beats of the host's heart.
const BEAT: Duration = Duration::from_secs(2);
/// What happens by chance happens in one of so many beats.
const BEATS_PER_EVENT: u32 = 3;
/// How many live sessions chance keeps there.
const LIVE: std::ops::Range<usize> = 6..14;

/// A stage with what is still to come.
struct Play {
    stage: Stage,
    /// When it began; the script counts from there.
    began: Instant,
    next_step: usize,
    beats: u32,
    /// Tables that come back: when, of which system and store.
    hidden: Option<(Instant, String, String)>,
    made: usize,
    /// No more containers than this by chance.
    most: usize,
}

/// Plays until somebody says stop, or lets go of the other end. It begins once there are spectators: whoever lists the
/// containers a second time has had a look at everything as it was.
pub(super) fn play(stage: Stage, stop: &Receiver<()>) {
    while stage.engine.lists() < 2 {
        match stop.recv_timeout(CURTAIN) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
    let most = stage.engine.look(|world, _| world.len()) + 3;
    let mut play = Play { stage, began: Instant::now(), next_step: 0, beats: 0, hidden: None, made: 0, most };
    loop {
        let due = play.next_due();
        match stop.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        // The operator may have removed what the script wants to use. The show goes on.
        let _ = play.happen();
    }
}

impl Play {
    fn scaled(&self, time: Duration) -> Duration {
        time.div_f64(self.stage.speed)
    }

    fn step_due(&self) -> Option<Instant> {
        let step = self.stage.script.steps.get(self.next_step)?;
        Some(self.began + self.scaled(step.at))
    }

    fn beat_due(&self) -> Instant {
        self.began + self.scaled(BEAT) * (self.beats + 1)
    }

    fn next_due(&self) -> Instant {
        let back = self.hidden.as_ref().map(|(at, ..)| *at);
        let dues = [Some(self.beat_due()), self.step_due(), back];
        dues.into_iter().flatten().min().unwrap_or_else(|| self.beat_due())
    }

    fn happen(&mut self) -> Result<(), DemoFault> {
        let now = Instant::now();
        if self.hidden.as_ref().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, system, store)) = self.hidden.take()
            && let Some(store) = self.stage.store(&system, &store)
        {
            store.show()?;
        }
        if self.step_due().is_some_and(|due| due <= now) {
            let step = self.stage.script.steps.get(self.next_step).cloned();
            self.next_step += 1;
            if let Some(step) = step {
                self.do_deed(&step.deed)?;
            }
        }
        if self.beat_due() <= now {
            self.beats += 1;
            self.work()?;
            let scripted = self.next_step < self.stage.script.steps.len();
            if !scripted && self.beats.is_multiple_of(BEATS_PER_EVENT) {
                self.improvise()?;
            }
        }
        Ok(())
    }

    fn do_deed(&mut self, deed: &script::Deed) -> Result<(), DemoFault> {
        match deed {
            script::Deed::StartSession { container, session } => {
                let part = self.stage.part(container).cloned();
                if let Some(part) = part.filter(|part| self.runs(&part.name)) {
                    self.set_load(&part.name, 30);
                    self.stage.admit(&part, session)?;
                }
            }
            script::Deed::EndSession { session } => self.end_session(session)?,
            script::Deed::ForgetSession { session } => self.forget_session(session)?,
            script::Deed::LoseContainer { container } => self.remove(container),
            script::Deed::Evict { container } => self.evict(container)?,
            script::Deed::EndScan { container } => self.end_scan(container),
            script::Deed::Migrate { system, store, time } => {
                if let Some(found) = self.stage.store(system, store) {
                    found.hide()?;
                    self.hidden = Some((Instant::now() + self.scaled(*time), system.clone(), store.clone()));
                }
            }
        }
        Ok(())
    }

    /// Live sessions do something, and their containers are more or less busy.
    fn work(&mut self) -> Result<(), DemoFault> {
        let now = self.stage.engine.clock().now();
        let live: Vec<_> = self.stage.sessions.iter().filter(|session| session.live).cloned().collect();
        for session in live {
            let hidden = self.hidden.as_ref();
            if hidden.is_some_and(|(_, system, store)| *system == session.system && *store == session.store) {
                continue;
            }
            // The crowd breathes more slowly, for there may be thousands.
            if !self.stage.dice.happens(if session.id.starts_with("crowd") { 3 } else { 40 }) {
                continue;
            }
            let load = u32::try_from(5 + self.stage.dice.below(80)).unwrap_or_default();
            self.set_load(&session.container, load);
            if let Some(store) = self.stage.store(&session.system, &session.store) {
                store.touch(&session.id, now)?;
            }
        }
        Ok(())
    }

    /// Something that chance decides.
    fn improvise(&mut self) -> Result<(), DemoFault> {
        let live = self.stage.sessions.iter().filter(|session| session.live).count();
        let crowded = self.stage.engine.look(|world, _| world.len()) >= self.most;
        match self.stage.dice.below(10) {
            0..3 if live < LIVE.end => self.start_somewhere(),
            3..5 if live >= LIVE.start => {
                let players: Vec<_> =
                    self.stage.sessions.iter().filter(|session| session.live).cloned().collect();
                let chosen = self.stage.dice.pick(&players).map(|session| session.id.clone());
                chosen.map_or(Ok(()), |id| self.end_session(&id))
            }
            5 => {
                let quiet: Vec<_> =
                    self.stage.sessions.iter().filter(|session| !session.live).cloned().collect();
                let chosen = self.stage.dice.pick(&quiet).map(|session| session.id.clone());
                chosen.map_or(Ok(()), |id| self.forget_session(&id))
            }
            6 | 7 if !crowded => self.new_sandbox(),
            8 if !crowded => {
                self.new_scan();
                Ok(())
            }
            9 => {
                self.some_scan_ends();
                Ok(())
            }
            _ => self.start_somewhere(),
        }
    }

    /// A session begins in a container that runs and is not draining.
    fn start_somewhere(&mut self) -> Result<(), DemoFault> {
        let draining = self.draining();
        let up: HashSet<String> = self.stage.engine.look(|world, _| {
            let up =
                world.containers().filter(|it| it.phase.word() == "running" && !draining.contains(&it.id));
            up.map(|it| it.name.clone()).collect()
        });
        let parts: Vec<Part> = self
            .stage
            .script
            .containers
            .iter()
            .filter(|part| ["native", "parachute"].contains(&part.system.as_str()) && up.contains(&part.name))
            .cloned()
            .collect();
        let Some(part) = self.stage.dice.pick(&parts).cloned() else { return Ok(()) };
        let session = self.new_session(&part);
        self.stage.admit(&part, &session)
    }

    fn new_session(&mut self, part: &Part) -> SessionPart {
        self.made += 1;
        SessionPart {
            id: format!("at-9{:03x}", self.made),
            title: crowd::title(part.workspace.as_deref().unwrap_or("the project"), &mut self.stage.dice),
            state: SessionState::Live,
            age: Duration::ZERO,
            quiet: Duration::ZERO,
        }
    }

    fn new_sandbox(&mut self) -> Result<(), DemoFault> {
        self.made += 1;
        let mut part = crowd::parts(1, &mut self.stage.dice).remove(0);
        part.name = format!("{}-{}", part.name.trim_end_matches("-0"), self.made);
        "running".clone_into(&mut part.state);
        part.age = Duration::ZERO;
        part.hash = None;
        part.sessions.clear();
        part.says = vec!["cloning the repository".to_owned(), "thinking".to_owned()];
        let session = self.new_session(&part);
        self.stage.enter(part.clone());
        self.stage.admit(&part, &session)
    }

    fn new_scan(&mut self) {
        self.made += 1;
        let mut part = Part::plain("kojuto", &format!("scan_{:02}", self.made));
        part.exec = vec!["pip".to_owned(), "install".to_owned(), "reqeusts".to_owned()];
        part.stubborn = true;
        self.stage.enter(part);
    }

    fn some_scan_ends(&mut self) {
        let scans: Vec<String> = self
            .stage
            .script
            .containers
            .iter()
            .filter(|part| !part.exec.is_empty())
            .map(|part| part.name.clone())
            .collect();
        if let Some(name) = self.stage.dice.pick(&scans).cloned() {
            self.end_scan(&name);
        }
    }

    fn end_session(&mut self, id: &str) -> Result<(), DemoFault> {
        let now = self.stage.engine.clock().now();
        let Some(index) = self.stage.sessions.iter().position(|session| session.id == id) else {
            return Ok(());
        };
        self.stage.sessions[index].live = false;
        let session = self.stage.sessions[index].clone();
        if !self.stage.sessions.iter().any(|other| other.live && other.container == session.container) {
            self.set_load(&session.container, 0);
        }
        self.stage.store(&session.system, &session.store).map_or(Ok(()), |store| store.end(id, now))
    }

    fn forget_session(&mut self, id: &str) -> Result<(), DemoFault> {
        let Some(index) = self.stage.sessions.iter().position(|session| session.id == id) else {
            return Ok(());
        };
        let session = self.stage.sessions.remove(index);
        self.stage.store(&session.system, &session.store).map_or(Ok(()), |store| store.forget(id))
    }

    /// The gateway's timer takes away what was drained and is free, and writes down that it did.
    fn evict(&mut self, name: &str) -> Result<(), DemoFault> {
        let busy = self.stage.sessions.iter().any(|session| session.live && session.container == name);
        let found = self.stage.engine.look(|world, _| {
            world.find(name).ok().map(|container| (container.id.clone(), container.started_at))
        });
        let (Some((id, started_at)), false, Some(part)) = (found, busy, self.stage.part(name).cloned())
        else {
            return Ok(());
        };
        let host = self.stage.host();
        let mut state = State::open(&self.stage.places.state)?;
        let Some(mark) = state.marks(&host)?.into_iter().find(|mark| mark.container.as_str() == id) else {
            return Ok(());
        };
        let plan = PlanRecord {
            host: host.clone(),
            who: "atelier's timer".to_owned(),
            intent: "reconcile".to_owned(),
        };
        let item = ItemRecord {
            container: id,
            name: part.name,
            system: Some(part.system),
            workspace: part.workspace,
            status: "draining".to_owned(),
            action: "stop, then remove".to_owned(),
            reason: "drained: its sessions have ended".to_owned(),
            started_at,
        };
        let numbers = state.begin(&plan, &[item])?;
        self.remove(name);
        let outcome = "removed: its sessions have ended".to_owned();
        let steps: Vec<_> =
            numbers.into_iter().map(|number| (number, Step::Outcome, outcome.clone())).collect();
        state.write_steps(&steps)?;
        state.clear_mark(&host, &mark.container)?;
        Ok(())
    }

    /// The ids of containers that are marked for eviction.
    fn draining(&self) -> HashSet<String> {
        let marks = State::open_to_read(&self.stage.places.state).ok().flatten();
        let marks = marks.and_then(|state| state.marks(&self.stage.host()).ok()).unwrap_or_default();
        marks.into_iter().map(|mark| mark.container.as_str().to_owned()).collect()
    }

    fn end_scan(&self, name: &str) {
        self.stage.engine.act(|world, now| {
            let Ok(container) = world.find(name) else { return };
            let id = container.id.clone();
            let execs: Vec<String> = world.execs_of(&id).map(|exec| exec.id.clone()).collect();
            for exec in execs {
                world.end_exec(now, &exec, 1);
            }
            // It was killed with its scan; if it has gone meanwhile, so much the better.
            let _ = world.signal(now, &id, crate::engine::sim::Signal::KILL);
        });
    }

    fn remove(&self, name: &str) {
        // Somebody may have been faster.
        let _ = self.stage.engine.act(|world, now| world.remove(now, name, true));
    }

    fn set_load(&self, name: &str, percent: u32) {
        let _ = self.stage.engine.act(|world, now| world.set_load(now, name, percent));
    }

    fn runs(&self, name: &str) -> bool {
        self.stage.engine.look(|world, _| world.find(name).is_ok_and(|it| it.phase.word() == "running"))
    }
}
