//! What happens by itself as time goes by: programs end, patience ends, restarts begin.

use std::time::Duration;

use jiff::Timestamp;

use super::container::{Restart, Run};
use super::{Phase, World};
use crate::engine::sim::program::Signal;

/// The first pause before a restart; it doubles with each, and starts over after a long run.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const LONG_RUN: Duration = Duration::from_secs(10);

enum Due {
    End { container: String, code: i32 },
    Kill { container: String },
    Restart { container: String },
    ExecEnd { exec: String, code: i32 },
}

impl World {
    /// When something happens next by itself.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.dues().map(|(at, _)| at).min()
    }

    /// Lets everything happen that is due by now, in order, each at its own time.
    pub fn tick(&mut self, now: Timestamp) {
        // Nearly always nothing is due, and with ten thousand containers it takes a while to see that.
        if self.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        loop {
            let first = self.dues().min_by_key(|(at, _)| *at);
            let (at, due) = match first {
                Some((at, due)) if at <= now => (at, due),
                first => {
                    self.quiet_until = Some(first.map_or(Timestamp::MAX, |(at, _)| at));
                    return;
                }
            };
            match due {
                Due::End { container, code } => self.end(at, &container, code),
                Due::Kill { container } => self.kill_by_force(at, &container),
                Due::Restart { container } => self.run(at, &container),
                Due::ExecEnd { exec, code } => self.end_exec(at, &exec, code),
            }
        }
    }

    /// Something was changed: what is due must be looked for again.
    pub(in crate::engine::sim) fn stir(&mut self) {
        self.quiet_until = None;
    }

    fn dues(&self) -> impl Iterator<Item = (Timestamp, Due)> {
        let of_containers = self.containers.values().flat_map(|found| {
            let container = || found.id.clone();
            let end = found.ends().map(|(at, code)| (at, Due::End { container: container(), code }));
            let patience = found.stopping.as_ref().and_then(|stopping| stopping.kill_at);
            let kill = patience
                .filter(|_| found.phase.run().is_some())
                .map(|at| (at, Due::Kill { container: container() }));
            let restart = match found.phase {
                Phase::Restarting(at) => Some((at, Due::Restart { container: container() })),
                _ => None,
            };
            end.into_iter().chain(kill).chain(restart)
        });
        let of_execs =
            self.ending_execs().map(|(at, exec, code)| (at, Due::ExecEnd { exec: exec.to_owned(), code }));
        of_containers.chain(of_execs)
    }

    /// Begins a run of a container's program.
    pub(super) fn run(&mut self, now: Timestamp, id: &str) {
        let pid = self.pid();
        if let Some(container) = self.containers.get_mut(id) {
            container.phase = Phase::Running(Run { began: now, pid, dies: None });
            container.started_at = Some(now);
            container.exit_code = 0;
            container.error.clear();
            container.use_processor(now, 0);
        }
        self.emit(now, id, "start", &[]);
    }

    /// A program's end, and what follows from it.
    pub(super) fn end(&mut self, now: Timestamp, id: &str, code: i32) {
        let execs: Vec<String> = self.execs_of(id).map(|exec| exec.id.clone()).collect();
        for exec in execs {
            self.end_exec(now, &exec, Signal::KILL.exit_code());
        }
        let Some(container) = self.containers.get_mut(id) else { return };
        container.keep_log(now);
        container.use_processor(now, 0);
        container.exec_ids.clear();
        container.left_behind.clear();
        let ran = container.started_at.map(|at| now.duration_since(at).unsigned_abs()).unwrap_or_default();
        container.finished_at = Some(now);
        container.exit_code = code;
        container.back_off = match container.back_off {
            pause if pause.is_zero() || ran >= LONG_RUN => FIRST_PAUSE,
            pause => (pause * 2).min(LONGEST_PAUSE),
        };
        let again = !container.manually_stopped
            && match container.restart_rule() {
                Restart::Never => false,
                Restart::Always | Restart::UnlessStopped => true,
                Restart::OnFailure { most } => code != 0 && (most == 0 || container.restart_count < most),
            };
        container.phase = if again {
            container.restart_count += 1;
            Phase::Restarting(now.checked_add(container.back_off).unwrap_or(now))
        } else {
            Phase::Exited
        };
        let stopping = if again { None } else { container.stopping.take() };
        let removed = container.removal_waits || (container.auto_remove() && !again);
        self.emit(now, id, "die", &[("exitCode", code.to_string())]);
        for _ in 0..stopping.map_or(0, |stopping| stopping.askers) {
            self.emit(now, id, "stop", &[]);
        }
        if removed {
            self.forget(now, id);
        }
    }

    fn kill_by_force(&mut self, now: Timestamp, id: &str) {
        self.emit(now, id, "kill", &[("signal", Signal::KILL.0.to_string())]);
        self.end(now, id, Signal::KILL.exit_code());
    }

    pub(super) fn pid(&mut self) -> u32 {
        self.next_pid += 1;
        self.next_pid
    }

    /// The engine ends and begins anew: everything that ran is ended, what restarts by itself is started, and nobody
    /// remembers an event or a command.
    pub fn restart_daemon(&mut self, now: Timestamp) {
        let up = self.containers().filter(|container| container.phase.is_up());
        let up: Vec<String> = up.map(|container| container.id.clone()).collect();
        for id in up {
            let mut starts_again = false;
            if let Some(container) = self.containers.get_mut(&id) {
                let revived = matches!(container.restart_rule(), Restart::Always | Restart::UnlessStopped);
                starts_again = revived && !container.manually_stopped;
                container.manually_stopped = true;
            }
            self.end(now, &id, Signal::KILL.exit_code());
            if starts_again {
                if let Some(container) = self.containers.get_mut(&id) {
                    container.manually_stopped = false;
                }
                self.run(now, &id);
            }
        }
        self.execs.clear();
        self.events.forget();
    }
}
