//! Acting: the only place of the dashboard that can make a keeper. It exists only for as long as a plan takes, so that
//! others can act meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Runner, Systems};
use crate::domain::{Policy, Verdict};
use crate::engine::Endpoint;
use crate::keeper::{ItemOutcome, Keeper, KeeperFault, KeeperLock, Manner, Seat};
use crate::state::{State, obeyed_marks};
use crate::ui::message::Message;
use crate::ui::preview::Confirmed;

/// How long to wait for another keeper.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// What it takes to act.
pub struct Hands {
    /// Makes the systems anew for each plan.
    pub systems: Systems,
    /// Who is at the keyboard.
    pub who: String,
}

/// What a task takes along to make a keeper.
struct Kit {
    endpoint: Endpoint,
    state_folder: PathBuf,
    who: String,
    policy: Policy,
    timeout: Duration,
    messages: mpsc::Sender<Message>,
}

impl Kit {
    async fn keeper(&self) -> Result<Keeper, KeeperFault> {
        let folder = &self.state_folder;
        let seat = Seat::of(&self.endpoint, self.timeout).await;
        let messages = self.messages.clone();
        let told = move |held: &crate::keeper::LockFault| {
            // Whoever waits is told why; a full inbox only costs the explanation.
            let _ = messages.try_send(Message::Unfinished(format!("waiting: {held}")));
        };
        State::refuse_strangers(folder)?;
        let lock = KeeperLock::wait(folder, &seat, &self.who, LOCK_PATIENCE, told).await?;
        let keeper =
            Keeper::new(lock, folder, &self.endpoint, self.who.clone(), self.policy.clone(), self.timeout)?;
        for leftover in keeper.leftovers(folder).await? {
            let _ = self.messages.send(Message::Unfinished(leftover.sentence.clone())).await;
            keeper.close(leftover).await?;
        }
        Ok(keeper)
    }
}

impl Runner {
    fn kit(&self) -> Result<(Kit, &super::acts::Hands), String> {
        let hands = self.world.hands.as_ref().ok_or("this is read-only")?;
        let endpoint = self.world.watch.endpoint().ok_or("the engine has not answered yet")?;
        let kit = Kit {
            endpoint,
            state_folder: self.world.state_folder.clone(),
            who: hands.who.clone(),
            policy: self.world.policy.clone(),
            timeout: self.world.timeout,
            messages: self.messages.clone(),
        };
        Ok((kit, hands))
    }

    pub(super) fn carry_out(&mut self, confirmed: Confirmed) {
        let begun = self.kit().and_then(|(kit, hands)| Ok((kit, (hands.systems)()?)));
        let messages = self.messages.clone();
        self.work = CancellationToken::new();
        let cancel = self.work.clone();
        let work = apart(async move {
            let (kit, systems) = begun?;
            carry_out(&kit, confirmed, systems, &cancel).await.map_err(|fault| fault.to_string())
        });
        self.tasks.spawn(async move {
            // Whatever happens to the work, the dashboard must hear that it is over.
            let result = work.await.unwrap_or_else(|_| {
                Err("a bug in sandkeeper ended it half-way; `sandkeeper log` shows how far it came"
                    .to_owned())
            });
            let _ = messages.send(Message::WorkEnded(result)).await;
        });
    }

    pub(super) fn undrain(&mut self, verdicts: Vec<Verdict>) {
        let kit = self.kit().map(|(kit, _)| kit);
        let messages = self.messages.clone();
        self.tasks.spawn(async move {
            let result = match kit {
                Err(why) => Err(why),
                Ok(kit) => undrain(&kit, &verdicts).await.map_err(|fault| fault.to_string()),
            };
            let _ = messages.send(Message::Undrained(result)).await;
        });
    }
}

/// Runs on a thread of its own: a terminal that takes no more bytes must not hold up a keeper between a check and its
/// step. A panic in there is the end of the answer's sender.
fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> oneshot::Receiver<T> {
    let (answer, result) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Without a thread the sender is dropped, which tells as much.
    drop(std::thread::Builder::new().name("keeper".to_owned()).spawn(move || {
        if let Ok(runtime) = runtime {
            let _ = answer.send(runtime.block_on(work));
            // A read that hangs on a dead disk must not keep the thread from ending.
            runtime.shutdown_background();
        }
    }));
    result
}

async fn carry_out(
    kit: &Kit,
    confirmed: Confirmed,
    systems: Vec<crate::watch::WatchedSystem>,
    cancel: &CancellationToken,
) -> Result<Vec<ItemOutcome>, KeeperFault> {
    let keeper = kit.keeper().await?;
    let (plan, snapshot) = confirmed.into_parts();
    let mut snapshot = Arc::unwrap_or_clone(snapshot);
    // A mark may have been taken away while this waited for the lock; nobody can change marks without it.
    snapshot.drains = obeyed_marks(&kit.state_folder, &kit.endpoint.address.identity())?;
    let (progress, mut events) = mpsc::channel(256);
    let messages = kit.messages.clone();
    let forward = async move {
        while let Some(event) = events.recv().await {
            let _ = messages.send(Message::Progress(event)).await;
        }
    };
    let work = keeper.carry_out(plan, &snapshot, systems, Manner::default(), progress, cancel);
    let (outcomes, ()) = tokio::join!(work, forward);
    outcomes
}

async fn undrain(kit: &Kit, verdicts: &[Verdict]) -> Result<usize, KeeperFault> {
    let keeper = kit.keeper().await?;
    let mut cleared = 0;
    for verdict in verdicts {
        cleared += usize::from(keeper.undrain(verdict).await?);
    }
    Ok(cleared)
}
