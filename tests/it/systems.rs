//! The systems whose containers are kept: their profiles, on stores and containers as they make them.

mod config_and_profiles;
mod detection;
mod hermes_on_docker;
mod kojuto_on_docker;
mod other_systems;
mod parachute_on_docker;
mod try_profile;
