//! The simulated engine's clock: the wall's, or one that a test turns by hand; either may go wrong by some amount.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

/// A clock that everybody who holds a copy shares.
#[derive(Clone, Debug)]
pub struct SimClock {
    hands: Hands,
    skew_milliseconds: Arc<AtomicI64>,
}

#[derive(Clone, Debug)]
enum Hands {
    Wall,
    Manual(Arc<watch::Sender<Timestamp>>),
}

impl SimClock {
    /// The wall clock.
    pub fn wall() -> Self {
        Self { hands: Hands::Wall, skew_milliseconds: Arc::default() }
    }

    /// A clock that stands still until it is told to [`advance`](Self::advance).
    pub fn manual(start: Timestamp) -> Self {
        let (hands, _) = watch::channel(start);
        Self { hands: Hands::Manual(Arc::new(hands)), skew_milliseconds: Arc::default() }
    }

    /// What the engine believes the time to be.
    pub fn now(&self) -> Timestamp {
        let right = match &self.hands {
            Hands::Wall => Timestamp::now(),
            Hands::Manual(hands) => *hands.borrow(),
        };
        let skew = SignedDuration::from_millis(self.skew_milliseconds.load(Ordering::Relaxed));
        right.checked_add(skew).unwrap_or(right)
    }

    /// Turns a manual clock forward. The wall clock goes by itself.
    pub fn advance(&self, by: Duration) {
        if let Hands::Manual(hands) = &self.hands {
            hands.send_modify(|now| *now = now.checked_add(by).unwrap_or(*now));
        }
    }

    /// Makes it wrong by this much from now on.
    pub fn set_skew(&self, skew: SignedDuration) {
        let milliseconds = i64::try_from(skew.as_millis()).unwrap_or_default();
        self.skew_milliseconds.store(milliseconds, Ordering::Relaxed);
    }

    /// Waits until the clock shows this time.
    pub(super) async fn sleep_until(&self, due: Timestamp) {
        match &self.hands {
            Hands::Wall => loop {
                match Duration::try_from(due.duration_since(self.now())) {
                    Ok(left) if !left.is_zero() => tokio::time::sleep(left).await,
                    _ => return,
                }
            },
            Hands::Manual(hands) => {
                let mut hands = hands.subscribe();
                // The clock lives as long as somebody holds it, and this is somebody.
                let _ = hands.wait_for(|_| self.now() >= due).await;
            }
        }
    }
}
