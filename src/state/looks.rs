//! stub
use super::*;
use crate::domain::{ContainerId, Status};
use jiff::Timestamp;
#[derive(Clone, Debug)]
pub struct Seen {
    pub id: ContainerId,
    pub name: String,
    pub status: Option<Status>,
    pub reason: String,
}
#[derive(Clone, Debug)]
pub struct StatusChange {
    pub at: Timestamp,
    pub status: Option<Status>,
    pub reason: String,
}
#[derive(Clone, Debug)]
pub struct PastAction {
    pub at: Timestamp,
    pub who: String,
    pub action: String,
    pub outcome: String,
}
impl State {
    pub fn history_of(&self, _: &str, _: &ContainerId) -> Result<Vec<StatusChange>, StateFault> {
        Ok(vec![])
    }
    pub fn actions_on(&self, _: &str, _: &ContainerId) -> Result<Vec<PastAction>, StateFault> {
        Ok(vec![])
    }
    pub fn record_changes(&mut self, _: &str, _: Timestamp, _: &[Seen]) -> Result<(), StateFault> {
        Ok(())
    }
    pub fn set_last_look(&mut self, _: &str, _: Timestamp) -> Result<(), StateFault> {
        Ok(())
    }
    pub fn last_look(&self, _: &str) -> Result<Option<Timestamp>, StateFault> {
        Ok(None)
    }
    pub fn last_statuses(&self, _: &str) -> Result<Vec<(ContainerId, Status)>, StateFault> {
        Ok(vec![])
    }
}
