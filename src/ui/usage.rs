//! What visible containers use, over the last minutes: short traces for the sparklines.

use std::collections::{HashMap, VecDeque};

use crate::domain::ContainerId;
use crate::engine::Usage;

/// How many samples a trace keeps; as many as a sparkline shows.
pub(super) const TRACE: usize = 12;

/// The traces of containers that were on screen.
#[derive(Clone, Debug, Default)]
pub struct Usages {
    traces: HashMap<ContainerId, Trace>,
}

/// What one container used, the newest sample last.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    last: Option<Usage>,
    cpu: VecDeque<u16>,
    memory: VecDeque<u64>,
}

impl Usages {
    /// Takes a sample in.
    pub fn add(&mut self, id: ContainerId, usage: Usage) {
        let trace = self.traces.entry(id).or_default();
        let percent = trace.last.as_ref().and_then(|earlier| usage.cpu_percent_since(earlier));
        if let Some(percent) = percent {
            // Ten per mille steps are enough to see, and a processor is never used by less than nothing.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
            let permille = (percent * 10.0).clamp(0.0, 60_000.0) as u16;
            push(&mut trace.cpu, permille);
        }
        push(&mut trace.memory, usage.memory_bytes);
        trace.last = Some(usage);
    }

    /// The trace of a container, if it has one.
    pub fn of(&self, id: &ContainerId) -> Option<&Trace> {
        self.traces.get(id)
    }

    /// Forgets containers that are gone.
    pub fn keep(&mut self, present: impl Fn(&ContainerId) -> bool) {
        self.traces.retain(|id, _| present(id));
    }
}

fn push<T>(samples: &mut VecDeque<T>, sample: T) {
    if samples.len() == TRACE {
        samples.pop_front();
    }
    samples.push_back(sample);
}

impl Trace {
    /// The newest share of a processor, in thousandths.
    pub fn cpu_permille(&self) -> Option<i64> {
        self.cpu.back().map(|permille| i64::from(*permille))
    }

    /// The newest memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.back().copied().unwrap_or_default()
    }

    /// Processor samples, each from 0 to 8 eighths of a cell; a whole processor fills the cell.
    pub fn cpu_levels(&self) -> Vec<u8> {
        self.cpu.iter().map(|permille| level(u64::from(*permille), 1000)).collect()
    }

    /// Memory samples, each from 0 to 8 eighths of a cell; the largest of them fills the cell.
    pub fn memory_levels(&self) -> Vec<u8> {
        let largest = self.memory.iter().copied().max().unwrap_or_default();
        self.memory.iter().map(|bytes| level(*bytes, largest)).collect()
    }
}

fn level(value: u64, full: u64) -> u8 {
    if full == 0 || value == 0 {
        return 0;
    }
    u8::try_from((value.saturating_mul(8)).div_ceil(full).clamp(1, 8)).unwrap_or(8)
}
