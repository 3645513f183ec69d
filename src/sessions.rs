//! Session stores: reading the application's own record of who is working, in its database or by asking it. Read-only,
//! always.
//!
//! A store that cannot be read is a [`StoreFault`] with its own sentence and hint; it never looks like a store
//! without sessions.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod fault;
mod files;
mod http;
mod known;
mod locate;
mod record;
mod set;
mod setting;
mod sqlite;
mod time;

pub use fault::StoreFault;
pub use set::{NamedStore, StoreSet, is_url};
pub(crate) use sqlite::keeps_log;
pub use sqlite::{Answer, Limits, QueryFault, SqliteReader, check_query};
