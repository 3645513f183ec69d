//! Session stores: what they say, how they fail, what happens when one is replaced, and that their owners notice nothing.

mod http_store;
mod store_faults;
mod store_owners;
mod store_replaced;
