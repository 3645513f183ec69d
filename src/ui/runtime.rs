//! The one loop: input or news in, `update`, one frame out. Only here are there channels, tasks and a clock.

mod acts;
mod judge;
mod looks;
mod memory;
mod record;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crossterm::event::{Event, KeyEventKind, MouseButton, MouseEventKind};
use futures_util::{FutureExt, Stream, StreamExt};
use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::message::{Effect, Message};
use super::model::{Layer, Model};
use super::surface::{Screen, Surface};
use super::update::update;
use super::view::view;
use crate::domain::Policy;
use crate::engine::EngineView;
use crate::watch::{Watch, WatchedSystem};

pub use acts::Hands;
use memory::Memory;

/// How often the time is told.
const TICK: Duration = Duration::from_secs(1);
/// How long the selection must rest before facts about it are fetched.
const REST: Duration = Duration::from_millis(120);
/// How long after the last change of size everything is drawn once more.
const REST_AFTER_RESIZE: Duration = Duration::from_millis(300);
/// The clean-up at the end waits this long for tasks that only look.
const PATIENCE_AT_THE_END: Duration = Duration::from_millis(500);

/// What the dashboard stands on.
pub struct World {
    /// The running watch over the host.
    pub watch: Watch,
    /// What it takes to act; `None` in read-only mode, where nothing exists that could.
    pub hands: Option<Hands>,
    /// Where our own state is.
    pub state_folder: PathBuf,
    /// The operator's rules.
    pub policy: Policy,
    /// How long one question to the engine may take.
    pub timeout: Duration,
    /// The shortest time between two frames.
    pub frame_floor: Duration,
}

/// Makes the systems anew for each plan, each with stores of its own to read.
pub type Systems = Box<dyn Fn() -> Result<Vec<WatchedSystem>, String> + Send + Sync>;

/// Runs the dashboard until the operator ends it.
pub async fn run<S, E>(screen: &mut Screen<S>, input: E, mut model: Model, world: World) -> io::Result<()>
where
    S: Surface,
    E: Stream<Item = io::Result<Event>> + Unpin,
{
    let (messages, inbox) = mpsc::channel(1024);
    let tasks = TaskTracker::new();
    let stop = CancellationToken::new();
    judge::spawn(&world, &tasks, &stop, messages.clone())?;
    record::spawn(&world, &tasks, &stop);
    let memory = Memory::begin(&world, &tasks, messages.clone());
    let work = CancellationToken::new();
    let mut runner = Runner { world, messages, tasks, stop, memory, log: None, work, over: false };
    let result = runner.turn(screen, input, inbox, &mut model).await;
    // The operator has looked until now.
    runner.memory.remember(Vec::new());
    drop(runner.memory);
    runner.stop.cancel();
    if let Some(log) = runner.log.take() {
        log.abort();
    }
    runner.tasks.close();
    // Reads that hang keep nobody waiting; whatever acts has been waited for before.
    let _ = tokio::time::timeout(PATIENCE_AT_THE_END, runner.tasks.wait()).await;
    result
}

/// What runs beside the loop.
struct Runner {
    world: World,
    messages: mpsc::Sender<Message>,
    tasks: TaskTracker,
    stop: CancellationToken,
    memory: Memory,
    log: Option<AbortHandle>,
    work: CancellationToken,
    over: bool,
}

/// Signals that end the program, the one that says that it was away, and the one that says that its window changed.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    continued: Signal,
    resized: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        // The number is the same on every Linux but MIPS, where resuming then waits for the next key.
        const CONTINUE: i32 = 18;
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            continued: signal(SignalKind::from_raw(CONTINUE))?,
            resized: signal(SignalKind::window_change())?,
        })
    }
}

impl Runner {
    async fn turn<S, E>(
        &mut self,
        screen: &mut Screen<S>,
        mut input: E,
        mut inbox: mpsc::Receiver<Message>,
        model: &mut Model,
    ) -> io::Result<()>
    where
        S: Surface,
        E: Stream<Item = io::Result<Event>> + Unpin,
    {
        let mut signals = Signals::listen()?;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_frame = Instant::now() - self.world.frame_floor;
        let mut input_open = true;
        let mut rest: Option<Instant> = None;
        let mut dirty = true;
        while !self.over {
            let frame_due = last_frame + self.world.frame_floor;
            if dirty && Instant::now() >= frame_due {
                if unseen_plan(model) {
                    discard_typed(screen.surface(), &mut input).await;
                }
                let drawn =
                    screen.draw((model.width, model.height), |area, buffer| view(model, area, buffer));
                if drawn.is_err() {
                    // Nobody can look any more. What is in flight is still finished.
                    self.take(screen, model, Message::HungUp);
                } else {
                    self.take(screen, model, Message::Drawn);
                }
                last_frame = Instant::now();
                dirty = false;
            }
            let message = tokio::select! {
                biased;
                event = input.next(), if input_open => if let Some(Ok(event)) = event {
                    heard(event)
                } else {
                    // A terminal that cannot be read any more is gone.
                    input_open = false;
                    Some(Message::HungUp)
                },
                Some(message) = inbox.recv() => Some(message),
                _ = signals.interrupt.recv() => Some(Message::AskedToEnd),
                _ = signals.terminate.recv() => Some(Message::AskedToEnd),
                _ = signals.hang_up.recv() => Some(Message::HungUp),
                _ = signals.resized.recv() => {
                    // Back to the size it had, too: what was cut off in between is gone.
                    screen.forget();
                    rest = Some(Instant::now() + REST_AFTER_RESIZE);
                    let size = screen.surface().size().ok();
                    size.map(|size| Message::Resize { width: size.width, height: size.height })
                }
                _ = signals.continued.recv() => {
                    // A terminal that hangs up says this as well. It cannot be taken again, and what is in flight is
                    // still finished.
                    let taken = screen.surface().resume();
                    screen.forget();
                    taken.is_err().then_some(Message::HungUp)
                }
                _ = tick.tick() => {
                    let gone = screen.surface().is_gone();
                    Some(if gone { Message::HungUp } else { Message::Tick(Timestamp::now()) })
                }
                () = tokio::time::sleep_until(frame_due), if dirty => continue,
                () = tokio::time::sleep_until(rest.unwrap_or(frame_due)), if rest.is_some() => {
                    // A terminal may still have been moving its lines about while the first picture was drawn.
                    rest = None;
                    screen.forget();
                    None
                }
            };
            dirty = true;
            if let Some(message) = message {
                self.take(screen, model, message);
            }
            // Everything that waits is taken in before the next frame.
            while !self.over
                && let Ok(message) = inbox.try_recv()
            {
                self.take(screen, model, message);
            }
        }
        Ok(())
    }

    fn take<S: Surface>(&mut self, screen: &mut Screen<S>, model: &mut Model, message: Message) {
        for effect in update(model, message) {
            self.perform(screen, effect);
        }
    }

    /// Nothing here can fail: whatever is wrong with the terminal, steps in flight are still finished.
    fn perform<S: Surface>(&mut self, screen: &mut Screen<S>, effect: Effect) {
        match effect {
            Effect::Quit => self.over = true,
            Effect::Suspend => {
                // Whether the terminal is gone shows with the next tick.
                drop(screen.surface().suspend());
                screen.forget();
            }
            Effect::Refresh => self.world.watch.refresh(),
            Effect::Settle(generation) => {
                let messages = self.messages.clone();
                self.tasks.spawn(async move {
                    tokio::time::sleep(REST).await;
                    let _ = messages.send(Message::Settled(generation)).await;
                });
            }
            Effect::CarryOut(confirmed) => self.carry_out(confirmed),
            Effect::CancelWork => self.work.cancel(),
            Effect::Undrain(verdicts) => self.undrain(verdicts),
            // A terminal without a clipboard loses nothing but the copy.
            Effect::Copy(text) => drop(screen.surface().copy(&text)),
            Effect::Mouse(on) => drop(screen.surface().mouse(on)),
            Effect::Logs(id) => self.follow_log(id),
            Effect::Inspect(id) => self.inspect(id),
            Effect::Recall(id) => self.recall(id),
            Effect::Sample(id) => self.sample(id),
            Effect::Weigh(containers) => self.weigh(containers),
            Effect::Remember(changes) => self.memory.remember(changes),
        }
    }

    /// A view of the engine that answers, if one does.
    fn engine(&self) -> Option<EngineView> {
        Some(EngineView::new(self.world.watch.endpoint()?, self.world.timeout))
    }
}

/// What an event of the terminal means.
fn heard(event: Event) -> Option<Message> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(Message::Key(key)),
        Event::Paste(text) => Some(Message::Paste(text)),
        Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                Some(Message::Click { column: mouse.column, row: mouse.row })
            }
            MouseEventKind::ScrollDown => Some(Message::Wheel(3)),
            MouseEventKind::ScrollUp => Some(Message::Wheel(-3)),
            _ => None,
        },
        // Changes of size are told by their signal: input may be waiting in the middle of a key just then.
        Event::Key(_) | Event::FocusGained | Event::FocusLost | Event::Resize(..) => None,
    }
}

/// Forgets what was typed up to now.
async fn discard_typed<S, E>(surface: &S, input: &mut E)
where
    S: Surface,
    E: Stream<Item = io::Result<Event>> + Unpin,
{
    // What is typed is read by another thread, which may need a moment.
    let patience = Instant::now() + REST;
    while surface.has_unread() && Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while let Some(Some(_)) = input.next().now_or_never() {}
}

/// Whether a plan is about to be seen for the first time. What was typed before that was not meant for it.
fn unseen_plan(model: &Model) -> bool {
    matches!(model.layers.last(), Some(Layer::Preview(preview)) if !preview.is_drawn())
}
