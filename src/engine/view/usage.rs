//! What a container uses: one reading of its counters. A rate takes two.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::EngineView;
use crate::domain::container::ContainerId;
use crate::engine::fault::EngineFault;

/// One reading of a container's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// When the engine read them.
    pub at: Timestamp,
    /// Processor time since the container started, of all processors together.
    pub cpu_nanoseconds: u64,
    /// Memory in use, without the part of the page cache that can be dropped at any time.
    pub memory_bytes: u64,
    /// How much it may use; the host's memory when nobody said.
    pub memory_limit: Option<u64>,
}

impl Usage {
    /// Processor time per time since an earlier reading, where one busy processor is 100. `None` when the two
    /// readings do not allow to say: taken at once, or the container was started anew in between.
    pub fn cpu_percent_since(&self, earlier: &Usage) -> Option<f64> {
        // Not the engine's count of the host's processor time: Podman puts something else there.
        let elapsed = self.at.duration_since(earlier.at);
        let used = i64::try_from(self.cpu_nanoseconds.checked_sub(earlier.cpu_nanoseconds)?).ok()?;
        (elapsed > SignedDuration::ZERO)
            .then(|| SignedDuration::from_nanos(used).as_secs_f64() / elapsed.as_secs_f64() * 100.0)
    }
}

impl EngineView {
    /// Reads a running container's counters once. The engine keeps no sampling going for it.
    pub async fn usage(&self, id: &ContainerId) -> Result<Usage, EngineFault> {
        let path = format!("/containers/{id}/stats?stream=false&one-shot=true");
        decode(&self.transport.get(&path, self.timeout).await?, id)
    }
}

#[derive(Deserialize)]
struct Answer {
    id: Option<String>,
    read: Option<Timestamp>,
    #[serde(default)]
    cpu_stats: Cpu,
    #[serde(default)]
    memory_stats: Memory,
}

#[derive(Default, Deserialize)]
struct Cpu {
    #[serde(default)]
    cpu_usage: CpuUsage,
}

#[derive(Default, Deserialize)]
struct CpuUsage {
    total_usage: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Memory {
    usage: Option<u64>,
    limit: Option<u64>,
    #[serde(default)]
    stats: Value,
}

impl Memory {
    /// What the docker command line counts. Version 1 of the control groups names it otherwise than version 2.
    fn without_cache(&self) -> Option<u64> {
        let usage = self.usage?;
        let count = |name: &str| self.stats.get(name).and_then(Value::as_u64);
        let cache = count("total_inactive_file").or_else(|| count("inactive_file")).unwrap_or_default();
        Some(usage.checked_sub(cache).unwrap_or(usage))
    }
}

fn decode(body: &[u8], id: &ContainerId) -> Result<Usage, EngineFault> {
    let stats: Answer =
        serde_json::from_slice(body).map_err(|error| EngineFault::Unintelligible(error.to_string()))?;
    // An id that the engine no longer knows may be somebody's name.
    if stats.id.is_some_and(|answered| answered != id.as_str()) {
        return Err(EngineFault::Status { status: 404, message: format!("no container has the id {id}") });
    }
    // Of a container that does not run the engine says nothing, at a time that never was.
    let measured = stats.read.filter(|at| *at > Timestamp::UNIX_EPOCH).and_then(|at| {
        let cpu_nanoseconds = stats.cpu_stats.cpu_usage.total_usage?;
        let memory_bytes = stats.memory_stats.without_cache()?;
        Some(Usage {
            at,
            cpu_nanoseconds,
            memory_bytes,
            memory_limit: stats.memory_stats.limit.filter(|limit| *limit > 0),
        })
    });
    measured.ok_or_else(|| EngineFault::Unintelligible("it counts nothing for this container".to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id() -> ContainerId {
        ContainerId::parse(&"ab".repeat(32)).unwrap()
    }

    fn decoded(stats: &Value) -> Result<Usage, EngineFault> {
        decode(stats.to_string().as_bytes(), &id())
    }

    fn docker(inactive: &str) -> Value {
        json!({
            "read": "2024-05-06T07:08:09.5Z", "preread": "0001-01-01T00:00:00Z", "name": "/x", "id": id().as_str(),
            "cpu_stats": {
                "cpu_usage": { "total_usage": 3_000_000_000_u64, "percpu_usage": [1, 2] },
                "system_cpu_usage": 900_000_000_000_u64, "online_cpus": 2, "throttling_data": {},
            },
            "memory_stats": { "usage": 1000, "limit": 8000, "stats": { "active_file": 1, inactive: 400 } },
            "networks": { "eth0": { "rx_bytes": 1 } },
        })
    }

    #[test]
    fn memory_counts_without_the_page_cache_on_both_kinds_of_control_groups() {
        for name in ["inactive_file", "total_inactive_file"] {
            let usage = decoded(&docker(name)).unwrap();
            assert_eq!((usage.memory_bytes, usage.memory_limit), (600, Some(8000)));
        }
        let mut more_cache_than_use = docker("inactive_file");
        more_cache_than_use["memory_stats"]["usage"] = json!(300);
        assert_eq!(decoded(&more_cache_than_use).unwrap().memory_bytes, 300);
    }

    #[test]
    fn podman_leaves_the_details_of_memory_out() {
        let mut stats = docker("inactive_file");
        stats["memory_stats"] = json!({ "usage": 1000, "limit": 8000, "stats": null });
        stats["cpu_stats"]["system_cpu_usage"] = json!(7);
        assert_eq!(decoded(&stats).unwrap().memory_bytes, 1000);
    }

    #[test]
    fn a_busy_processor_is_a_hundred_percent() {
        let earlier = decoded(&docker("inactive_file")).unwrap();
        let after = |milliseconds: i64, used: u64| Usage {
            at: earlier.at + SignedDuration::from_millis(milliseconds),
            cpu_nanoseconds: earlier.cpu_nanoseconds + used,
            ..earlier
        };
        let percent = |later: Usage| later.cpu_percent_since(&earlier);
        assert_eq!(percent(after(2000, 2_000_000_000)), Some(100.0));
        assert_eq!(percent(after(2000, 0)), Some(0.0));
        assert_eq!(percent(after(500, 1_000_000_000)), Some(200.0));
        assert_eq!(percent(after(0, 5)), None, "no time passed");
        assert_eq!(percent(after(-1000, 5)), None, "the clock went back");
        assert_eq!(earlier.cpu_percent_since(&after(-1000, 5)), None, "it was started anew");
    }

    #[test]
    fn a_container_that_does_not_run_or_is_another_has_no_usage() {
        let stopped = json!({
            "read": "0001-01-01T00:00:00Z", "id": id().as_str(), "memory_stats": {},
            "cpu_stats": { "cpu_usage": { "total_usage": 0 } },
        });
        assert!(matches!(decoded(&stopped), Err(EngineFault::Unintelligible(_))));
        let mut another = docker("inactive_file");
        another["id"] = json!("cd".repeat(32));
        assert!(decoded(&another).unwrap_err().is_not_found());
    }
}
