//! The engine's side of a snapshot: list, inspect what an inspect can change the verdict of, ask about images.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use super::images::{ImageCache, is_image_id};
use super::place::Place;
use super::{Backoff, Cadence, paths};
use crate::domain::container::{Container, ContainerId, ContainerState, Inspected, Joins, Processes, Row};
use crate::domain::processes;
use crate::domain::profile::{Match, Profile};
use crate::domain::recovery::{Departure, Happening};
use crate::domain::snapshot::{Host, Images, Obstacle, PathFact, Reading, Tried};
use crate::engine::{Address, Attempt, Endpoint, EngineEvent, EngineFault, EngineInfo, EngineView};

/// Of how many it is asked at most, in one look, how they ended.
const MOST_ASKED_FOR: usize = 32;
const QUESTIONS_AT_ONCE: usize = 16;
/// Running containers are inspected again after this long even if no event spoke of them; sooner those in which something runs,
/// or may begin to without an event.
const INSPECTION_LIFETIME: Duration = Duration::from_mins(5);
const LIFETIME_OF_THE_BUSY: Duration = Duration::from_secs(30);
/// Engines count from whole seconds.
const NOT_EXACT: Duration = Duration::from_secs(2);
/// Events come in bursts; one look serves the whole burst.
const BURST: Duration = Duration::from_millis(50);

/// What the engine said.
#[derive(Clone, Debug, Default)]
pub struct EngineFacts {
    /// Which host.
    pub host: Host,
    /// Where it answers; `None` until it has.
    pub endpoint: Option<Endpoint>,
    /// Where its files are.
    pub(super) place: Place,
    /// Its containers.
    pub rows: Reading<Vec<Row>>,
    /// Its images.
    pub images: Images,
    /// What is at the host paths that verdicts depend on.
    pub paths: HashMap<String, PathFact>,
    /// How containers ended or went, as events told.
    pub departures: HashMap<ContainerId, Departure>,
}

/// As many ends are remembered; more than these happen only where nobody needs to know how.
const MOST_DEPARTURES: usize = 2_000;

impl EngineFacts {
    /// Takes note of an event.
    fn turned(&mut self, id: ContainerId, happening: Happening, at: Timestamp) {
        if self.departures.len() > MOST_DEPARTURES {
            self.departures.clear();
        }
        let known = self.departures.remove(&id);
        if let Some(departure) = Departure::after(known, happening, at) {
            self.departures.insert(id, departure);
        }
    }
}

/// A container as it was inspected.
#[derive(Clone, Debug)]
struct Known {
    at: Instant,
    /// How long that holds without an event.
    lifetime: Duration,
    container: Arc<Container>,
}

#[derive(Debug)]
pub(super) struct EngineWatcher {
    endpoints: Vec<Endpoint>,
    profiles: Vec<Arc<Profile>>,
    budget: Duration,
    connected: Option<EngineView>,
    attempts: Vec<Attempt>,
    facts: EngineFacts,
    images: ImageCache,
    inspections: HashMap<ContainerId, Known>,
    /// Whether inspections can be relied on until an event says otherwise.
    events_flow: bool,
    distrust_emptiness: bool,
}

impl EngineWatcher {
    pub(super) fn new(endpoints: Vec<Endpoint>, profiles: Vec<Arc<Profile>>, budget: Duration) -> Self {
        let host = endpoints.first().map(|endpoint| host(&endpoint.address, None)).unwrap_or_default();
        Self {
            endpoints,
            profiles,
            budget,
            connected: None,
            attempts: Vec::new(),
            facts: EngineFacts { host, ..EngineFacts::default() },
            images: ImageCache::default(),
            inspections: HashMap::new(),
            events_flow: false,
            distrust_emptiness: true,
        }
    }

    pub(super) fn failed_attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Finds the engine that answers.
    pub(super) async fn reach(&mut self) -> Result<Endpoint, String> {
        let deadline = Instant::now() + self.budget;
        Ok(self.connect(deadline).await?.endpoint().clone())
    }

    /// Looks once. A failure keeps the last good answer and says why it is old.
    pub(super) async fn observe(&mut self) -> EngineFacts {
        let deadline = Instant::now() + self.budget;
        match self.look(deadline).await {
            Ok((rows, images, paths)) => {
                // Whoever has looked at the same list before need not do so again.
                let value = &self.facts.rows.value;
                let value = if rows == **value { Arc::clone(value) } else { Arc::new(rows) };
                self.facts.rows = Reading { value, at: Some(Timestamp::now()), fault: None };
                self.facts.images = images;
                self.facts.paths = paths;
            }
            Err(fault) => {
                self.connected = None;
                self.inspections.clear();
                self.facts.rows = self.facts.rows.with_fault(fault);
            }
        }
        self.facts.clone()
    }

    async fn look(
        &mut self,
        deadline: Instant,
    ) -> Result<(Vec<Row>, Images, HashMap<String, PathFact>), String> {
        let engine = self.connect(deadline).await?;
        let sentence = |fault: EngineFault| format!("{fault}; {}", fault.hint());
        let mut rows =
            engine.within(remaining(deadline)).list_again(&self.facts.rows.value).await.map_err(sentence)?;
        let before = self.facts.rows.value.len();
        if rows.is_empty() && before > 0 && std::mem::take(&mut self.distrust_emptiness) {
            return Err(format!(
                "the engine lists nothing where {before} containers were; looking a second time"
            ));
        }
        self.distrust_emptiness = true;
        // One container that cannot be inspected must leave time to ask for the images of all the others.
        let inspected_by = Instant::now() + remaining(deadline) * 2 / 3;
        self.inspect_where_needed(&engine, &mut rows, inspected_by).await;
        ask_joins(&engine, &mut rows, inspected_by).await;
        if !self.events_flow {
            self.ask_how_they_ended(&engine, &rows, inspected_by).await;
        }
        let ours = self.ours(&rows);
        let containers = || ours.iter().map(|(_, container)| container.as_ref());
        let place = &self.facts.place;
        let paths = paths::look_up(place, self.profiles.iter(), containers(), remaining(deadline) / 2);
        let images = self.images.look_up(&engine, deadline, containers());
        let (images, paths) = tokio::join!(images, paths);
        Ok((rows, images, paths))
    }

    async fn connect(&mut self, deadline: Instant) -> Result<EngineView, String> {
        if let Some(engine) = &self.connected {
            return Ok(engine.clone());
        }
        match EngineView::first_that_answers(&self.endpoints, remaining(deadline)).await {
            Ok((engine, info)) => {
                self.attempts.clear();
                self.facts.host = host(&engine.endpoint().address, Some(&info));
                self.facts.endpoint = Some(engine.endpoint().clone());
                let address = &engine.endpoint().address;
                self.facts.place = if info.gate_is_beside {
                    Place::behind_gate(address).await
                } else {
                    Place::of(address).await
                };
                self.connected = Some(engine.clone());
                // Another engine that answers while this one is down would look like this one with all containers gone.
                self.endpoints = vec![engine.endpoint().clone()];
                Ok(engine)
            }
            Err(attempts) => {
                let nowhere = |attempt: &&Attempt| matches!(attempt.fault, EngineFault::NoSocket(_));
                // An engine that is there and fails tells more than a place where none is.
                let telling = attempts.iter().find(|attempt| !nowhere(attempt)).or(attempts.first());
                let hint = telling.map(|attempt| attempt.fault.hint()).unwrap_or_default();
                let tried: Vec<String> = attempts.iter().map(ToString::to_string).collect();
                self.facts.host.tried = attempts.iter().map(tried_at).collect();
                self.attempts = attempts;
                Err(format!("{}; {hint}", tried.join("; ")))
            }
        }
    }

    /// The rows that are some profile's, each with its place in the list.
    fn ours(&self, rows: &[Row]) -> Vec<(usize, Arc<Container>)> {
        let known = |container: &Container| {
            self.profiles.iter().any(|profile| !matches!(profile.recognise(container), Match::Foreign))
        };
        let containers = rows.iter().enumerate().filter_map(|(index, row)| match row {
            Row::Container(container) if known(container) => Some((index, Arc::clone(container))),
            _ => None,
        });
        containers.collect()
    }

    async fn inspect_where_needed(&mut self, engine: &EngineView, rows: &mut Vec<Row>, deadline: Instant) {
        let ours = self.ours(rows);
        let tied = self.tied_for_newest(&ours);
        let mut known = HashMap::new();
        let mut questions = Vec::new();
        for (index, listed) in ours {
            let needed = listed.state.holds_processes()
                || is_image_id(&listed.image)
                || tied.contains(&listed.id)
                || self.may_be_healed(&listed);
            if !needed {
                continue;
            }
            match self.inspections.get(&listed.id) {
                Some(inspected) if self.still_holds(inspected, &listed) => {
                    rows[index] = Row::Container(Arc::clone(&inspected.container));
                    known.insert(listed.id.clone(), inspected.clone());
                }
                _ => questions.push((index, listed)),
            }
        }
        let profiles = &self.profiles;
        let answers = questions.into_iter().map(|(index, listed)| {
            let engine = engine.within(remaining(deadline));
            async move { (index, inspect(&engine, profiles.iter(), &listed.id).await, listed) }
        });
        let answers: Vec<_> =
            futures_util::stream::iter(answers).buffer_unordered(QUESTIONS_AT_ONCE).collect().await;
        let mut gone = HashSet::new();
        for (index, answer, listed) in answers {
            match answer {
                Ok(Some(mut inspected)) => {
                    if let Some(inspected) = Arc::get_mut(&mut inspected) {
                        inspected.share(&listed);
                    }
                    let container = Arc::clone(&inspected);
                    let lifetime = self.lifetime_of(&container);
                    known.insert(listed.id.clone(), Known { at: Instant::now(), lifetime, container });
                    rows[index] = Row::Container(inspected);
                }
                Ok(None) => {
                    gone.insert(listed.id.clone());
                }
                Err(fault) => {
                    let inspected = Inspected::Failed(fault.to_string());
                    rows[index] = Row::Container(Arc::new(Container { inspected, ..(*listed).clone() }));
                }
            }
        }
        self.inspections = known;
        if !gone.is_empty() {
            rows.retain(|row| !matches!(row, Row::Container(container) if gone.contains(&container.id)));
        }
    }

    /// Whether it matters how it ended: a lasting container that is started again without anybody asking.
    fn may_be_healed(&self, listed: &Container) -> bool {
        let ended = matches!(listed.state, ContainerState::Exited | ContainerState::Dead);
        ended
            && self.profiles.iter().any(|profile| {
                profile.recovery.heal
                    && matches!(profile.recognise(listed), Match::Ours(_))
                    && profile.persistence_of(listed) == Ok(true)
            })
    }

    /// Whoever does not listen to events asks for those that tell a kill from a stop. What the engine does not remember,
    /// or does not say, stays unknown.
    async fn ask_how_they_ended(&mut self, engine: &EngineView, rows: &[Row], deadline: Instant) {
        let ended = self.ours(rows).into_iter().filter(|(_, container)| self.may_be_healed(container));
        let ended: Vec<_> = ended
            .filter_map(|(_, container)| {
                let inspection = container.inspection()?;
                let ended_at = inspection.finished_at.filter(|_| inspection.exit_code != Some(0))?;
                let known = self.facts.departures.get(&container.id);
                // That an end was asked for is told after the end itself.
                let is_new = known.is_none_or(|known| known.at < ended_at || !known.is_ordinary());
                is_new.then(|| (container.id.clone(), ended_at))
            })
            .take(MOST_ASKED_FOR)
            .collect();
        for (id, ended_at) in ended {
            self.facts.departures.remove(&id);
            let told = engine.within(remaining(deadline)).departure(&id, ended_at).await;
            if let Ok(Some(departure)) = told {
                self.facts.departures.insert(id, departure);
            }
        }
    }

    fn still_holds(&self, known: &Known, listed: &Container) -> bool {
        self.events_flow
            && known.at.elapsed() < known.lifetime
            && known.container.state == listed.state
            && known.container.name == listed.name
    }

    /// How long an inspection holds. What runs in a container ends without an event.
    fn lifetime_of(&self, container: &Container) -> Duration {
        let runs_a_command = container.inspection().is_none_or(|inspection| inspection.running_execs > 0);
        let mut owners = self.profiles.iter().filter(|profile| is_of(container, profile));
        let is_busy = |profile: &Arc<Profile>| {
            processes::life(profile, container).or_else(|| processes::doubt(profile, container)).is_some()
        };
        if runs_a_command || owners.any(is_busy) { LIFETIME_OF_THE_BUSY } else { INSPECTION_LIFETIME }
    }

    /// The list counts in whole seconds. Where the newest containers of a system were made in the same one and carry
    /// different hashes, an inspect tells which is newer.
    fn tied_for_newest(&self, ours: &[(usize, Arc<Container>)]) -> HashSet<ContainerId> {
        let mut tied = HashSet::new();
        for rule in self.profiles.iter().filter_map(|profile| profile.config_hash.as_ref()) {
            let hashed = ours.iter().filter_map(|(_, container)| {
                Some((container.created_at.as_second(), container.labels.get(&rule.label)?, &container.id))
            });
            let Some(newest) = hashed.clone().map(|(second, _, _)| second).max() else { continue };
            let last: Vec<_> = hashed.filter(|(second, _, _)| *second == newest).collect();
            if last.iter().any(|(_, hash, _)| *hash != last[0].1) {
                tied.extend(last.into_iter().map(|(_, _, id)| id.clone()));
            }
        }
        tied
    }

    /// Looks for ever: when something happened, when somebody asks, and from time to time in any case.
    pub(super) async fn run(
        mut self,
        cadence: Cadence,
        mut refreshes: mpsc::Receiver<()>,
        out: watch::Sender<EngineFacts>,
    ) {
        let mut backoff = Backoff::default();
        let mut events = None;
        // Until then everything that happened was heard of.
        let mut heard = Timestamp::now();
        loop {
            if events.is_none()
                && let Some(engine) = &self.connected
            {
                // What happened while nobody listened tells how something went that is missed now.
                events = engine.events_since(heard.checked_sub(NOT_EXACT).ok()).await.ok().map(Box::pin);
            }
            self.events_flow = events.is_some();
            if events.is_some() {
                heard = Timestamp::now();
            }
            let facts = self.observe().await;
            let success = facts.rows.fault.is_none();
            if out.send(facts).is_err() {
                return;
            }
            if !success {
                events = None;
            }
            let usual = if events.is_some() { cadence.with_events } else { cadence.without_events };
            let mut until = tokio::time::Instant::now() + backoff.after(success, usual);
            loop {
                let next_event = async {
                    match &mut events {
                        Some(stream) => stream.next().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = tokio::time::sleep_until(until) => break,
                    asked = refreshes.recv() => match asked {
                        Some(()) => break,
                        None => return,
                    },
                    event = next_event => {
                        match event {
                            Some(Ok(EngineEvent::Container(id))) => { self.inspections.remove(&id); }
                            Some(Ok(EngineEvent::Turned(id, happening, at))) => {
                                self.inspections.remove(&id);
                                self.facts.turned(id, happening, at);
                            }
                            Some(Ok(EngineEvent::Image)) => self.images.forget_tags(),
                            Some(Err(_)) | None => events = None,
                        }
                        until = until.min(tokio::time::Instant::now() + BURST);
                    }
                }
            }
        }
    }
}

fn is_of(container: &Container, profile: &Profile) -> bool {
    !matches!(profile.recognise(container), Match::Foreign)
}

/// Asks those that run in whose namespaces they do, as far as nobody knows. It never changes, so each is asked once.
pub(crate) async fn ask_joins(engine: &EngineView, rows: &mut [Row], deadline: Instant) {
    let unasked = rows.iter().enumerate().filter_map(|(index, row)| match row {
        Row::Container(container)
            if container.state.holds_processes() && !matches!(container.joins, Joins::Known(_)) =>
        {
            Some((index, container.id.clone()))
        }
        _ => None,
    });
    let questions = unasked.collect::<Vec<_>>().into_iter().map(|(index, id)| {
        let engine = engine.within(remaining(deadline));
        async move { (index, engine.joins(&id).await) }
    });
    let answers: Vec<_> =
        futures_util::stream::iter(questions).buffer_unordered(QUESTIONS_AT_ONCE).collect().await;
    for (index, answer) in answers {
        if let Row::Container(container) = &mut rows[index] {
            // What has gone in between shares nothing any more.
            let joins = answer.map_or(Joins::Failed, |joins| joins.unwrap_or(Joins::Known(Vec::new())));
            Arc::make_mut(container).joins = joins;
        }
    }
}

/// Inspects a container, and looks at what runs in it if it is some system's.
pub(crate) async fn inspect(
    engine: &EngineView,
    profiles: impl Iterator<Item = &Arc<Profile>>,
    id: &ContainerId,
) -> Result<Option<Arc<Container>>, EngineFault> {
    let Some(container) = engine.inspect(id).await? else { return Ok(None) };
    let mut owners = profiles.filter(|profile| is_of(&container, profile));
    if owners.next().is_none() || !container.state.shows_processes() {
        return Ok(Some(container));
    }
    let listed = engine.with_processes(&container).await;
    if !listed.inspection().is_some_and(|inspection| matches!(inspection.processes, Processes::Failed(_))) {
        return Ok(Some(listed));
    }
    // It may have ended, or begun anew, between the two questions.
    match engine.inspect(id).await? {
        Some(again) if again.state.shows_processes() => Ok(Some(engine.with_processes(&again).await)),
        again => Ok(again),
    }
}

fn host(address: &Address, engine: Option<&EngineInfo>) -> Host {
    Host {
        endpoint: address.to_string(),
        identity: address.identity(),
        engine: engine.map(ToString::to_string),
        guarded: engine.is_some_and(|engine| engine.guarded),
        tried: Vec::new(),
    }
}

fn tried_at(attempt: &Attempt) -> Tried {
    let place = match &attempt.endpoint.address {
        Address::Unix(path) => path.display().to_string(),
        address @ Address::Tcp(_) => address.to_string(),
    };
    let obstacle = match attempt.fault {
        EngineFault::NoSocket(_) => Obstacle::NobodyThere,
        EngineFault::PermissionDenied(_) => Obstacle::Forbidden,
        _ => Obstacle::Failing,
    };
    Tried { place, sentence: attempt.to_string(), obstacle }
}

pub(super) fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
