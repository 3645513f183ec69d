//! The dashboard without a terminal: keys and news in, effects and cells out.

#![expect(clippy::unwrap_used, reason = "in tests a surprise should end the test")]

mod facts;

#[path = "dashboard/acting.rs"]
mod acting;
#[path = "dashboard/changes.rs"]
mod changes;
#[path = "support/corpus.rs"]
mod corpus;
#[path = "dashboard/desk.rs"]
mod desk;
#[path = "dashboard/hostile.rs"]
mod hostile;
#[path = "dashboard/moving.rs"]
mod moving;
#[path = "dashboard/properties.rs"]
mod properties;
#[path = "dashboard/widgets.rs"]
mod widgets;
