//! Session stores: what they say, how they fail, what happens when one is replaced.

mod http_store;
mod store_faults;
mod store_replaced;
