//! The dashboard, in model, update and view: [`update()`] turns messages into a changed [`Model`] and into effects and
//! touches nothing else; [`view()`] draws a model; [`run`] is the only part with channels, tasks and a clock.

mod command;
mod detail;
mod filter;
mod glyphs;
mod input;
mod keymap;
mod layout;
mod list;
mod message;
mod model;
mod palette;
mod picture;
mod preview;
mod runtime;
mod surface;
pub mod terminal;
pub mod theme;
mod timeline;
mod update;
mod usage;
mod view;
mod work;

pub use command::{Command, TABLE};
pub use glyphs::Glyphs;
pub use input::Input;
pub use keymap::{Chord, Keymap, KeymapFault};
pub use message::{Effect, LastLook, Message, Observation, Past};
pub use model::{Layer, Model, Setup};
pub use picture::{animation, svg};
pub use preview::Confirmed;
pub use runtime::{Hands, Systems, World, run};
pub use surface::{Screen, Surface};
pub use update::update;
pub use view::view;
