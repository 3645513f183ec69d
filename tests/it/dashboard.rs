//! The dashboard: keys and news in, effects and cells out; then the same on a terminal, with an engine.

mod acting;
mod acts;
mod changes;
mod chaos;
mod desk;
mod hostile;
mod hostile_dashboard;
mod manners;
mod moving;
mod on_engine;
mod outage;
mod properties;
mod screenshots;
mod watch_on_terminal;
mod widgets;
