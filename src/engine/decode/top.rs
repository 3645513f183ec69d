//! The list of processes that run in a container.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::Deserialize;

use super::unintelligible;
use crate::domain::container::{HealthCheck, Process, ProcessList, program_of};
use crate::engine::fault::EngineFault;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Top {
    titles: Vec<String>,
    processes: Option<Vec<Vec<String>>>,
}

/// One row that runs.
struct Listed {
    pid: u32,
    /// As the engine's host counts.
    host_pid: u32,
    parent: u32,
    leader: Option<u32>,
    elapsed: Option<Duration>,
    command: String,
}

/// What is known of a container before its processes are listed.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Known<'a> {
    /// Its first process, as the engine's host counts.
    pub(in crate::engine) first: u32,
    pub(in crate::engine) health_check: Option<&'a HealthCheck>,
    /// Processes of health checks that run, counted likewise.
    pub(in crate::engine) checking: &'a [u32],
}

/// A list, and whether something in it is about to begin: the runtime itself, or a fork, stands where a program will be.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) struct Answer {
    /// `None` if the first process is not among them, or is not itself yet.
    pub(in crate::engine) list: Option<ProcessList>,
    pub(in crate::engine) settled: bool,
}

/// Reads `GET /containers/{id}/top`. What has ended and waits to be noticed runs no more.
pub(in crate::engine) fn top(body: &[u8], known: Known<'_>) -> Result<Answer, EngineFault> {
    let rows = rows(body)?;
    let rows = without_health_checks(rows, known);
    let settled = !rows.iter().any(|row| is_runtime(&row.command) || is_fork(row, &rows));
    let first = rows.iter().position(|row| row.host_pid == known.first && !is_runtime(&row.command));
    let Some(first) = first else { return Ok(Answer { list: None, settled: false }) };
    let age = rows[first].elapsed;
    let listed: HashSet<u32> = rows.iter().map(|row| row.pid).collect();
    let mut others: Vec<Process> = rows
        .into_iter()
        .map(|row| Process {
            pid: row.pid,
            parent: listed.contains(&row.parent).then_some(row.parent),
            leader: row.leader,
            began: age.zip(row.elapsed).map(|(first, own)| first.saturating_sub(own)),
            command: row.command,
        })
        .collect();
    let first = others.remove(first);
    Ok(Answer { list: Some(ProcessList { first, others }), settled })
}

fn rows(body: &[u8]) -> Result<Vec<Listed>, EngineFault> {
    let top: Top = serde_json::from_slice(body).map_err(|error| unintelligible(&error, body))?;
    let strange = || EngineFault::Unintelligible("the processes are not in columns".to_owned());
    let column =
        |names: &[&str]| names.iter().find_map(|name| top.titles.iter().position(|title| title == name));
    let pid = column(&["PID"]).ok_or_else(strange)?;
    let parent = column(&["PPID"]).ok_or_else(strange)?;
    let command = column(&["COMMAND", "CMD"]).ok_or_else(strange)?;
    let host_pid = column(&["HPID"]).unwrap_or(pid);
    let (leader, state) = (column(&["SID", "SESS", "PGID"]), column(&["S", "STAT", "STATE"]));
    let elapsed = column(&["ELAPSED"]);
    let mut rows = Vec::new();
    for mut row in top.processes.unwrap_or_default() {
        if row.len() != top.titles.len() {
            return Err(strange());
        }
        if state.is_some_and(|state| row[state].starts_with('Z')) {
            continue;
        }
        let number = |column: usize| row[column].trim().parse::<u32>().map_err(|_| strange());
        rows.push(Listed {
            pid: number(pid)?,
            host_pid: number(host_pid)?,
            parent: number(parent)?,
            leader: leader.map(number).transpose()?,
            elapsed: elapsed.and_then(|elapsed| length(row[elapsed].trim())),
            command: row.swap_remove(command),
        });
    }
    Ok(rows)
}

/// Leaves out the container's health checks, and whatever they have started.
fn without_health_checks(rows: Vec<Listed>, known: Known<'_>) -> Vec<Listed> {
    let is_check = |row: &Listed| {
        row.host_pid != known.first
            && (known.checking.contains(&row.host_pid)
                || known.health_check.is_some_and(|check| check.is(&row.command)))
    };
    let mut next: Vec<u32> = rows.iter().filter(|row| is_check(row)).map(|row| row.pid).collect();
    if next.is_empty() {
        return rows;
    }
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for row in &rows {
        children.entry(row.parent).or_default().push(row.pid);
    }
    let mut checks = HashSet::new();
    while let Some(pid) = next.pop() {
        if checks.insert(pid) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    rows.into_iter().filter(|row| !checks.contains(&row.pid)).collect()
}

/// Whether this is the runtime, about to become a program.
fn is_runtime(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_named = matches!(program_of(first), "runc" | "crun" | "youki") || first == "/proc/self/exe";
    first.starts_with("runc:[") || is_named && words.next() == Some("init")
}

/// A process that was forked this long ago and is not itself by now is meant to be what it is.
const FORKING: Duration = Duration::from_secs(3);

/// Whether this was forked a moment ago and still goes by its parent's command line: a script that sleeps in a loop is
/// seen twice then, for an instant.
fn is_fork(row: &Listed, rows: &[Listed]) -> bool {
    row.elapsed.is_some_and(|elapsed| elapsed < FORKING)
        && rows.iter().any(|other| other.pid == row.parent && other.command == row.command)
}

/// How long it has run: `[[days-]hours:]minutes:seconds` or, in other engines' words, `2h5m1.5s`, `3h05`, `2d03`.
fn length(text: &str) -> Option<Duration> {
    let seconds = if text.contains(':') {
        let (days, clock) = text.split_once('-').unwrap_or(("0", text));
        let clock = clock.split(':').try_fold(0.0, |sum: f64, part| Some(sum * 60.0 + number(part)?))?;
        number(days)? * 86_400.0 + clock
    } else {
        let (mut sum, mut next_unit, mut rest) = (0.0, None, text);
        while !rest.is_empty() {
            let end =
                rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
            let (value, after) = rest.split_at(end);
            let end = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            let (factor, next) = match unit {
                "d" => (86_400.0, Some(3600.0)),
                "h" => (3600.0, Some(60.0)),
                "m" => (60.0, None),
                "s" => (1.0, None),
                "ms" => (1e-3, None),
                "us" | "µs" => (1e-6, None),
                "ns" => (1e-9, None),
                "" => (next_unit?, None),
                _ => return None,
            };
            sum += number(value)? * factor;
            (next_unit, rest) = (next, after);
        }
        (!text.is_empty()).then_some(sum)?
    };
    Duration::try_from_secs_f64(seconds).ok()
}

fn number(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// In the columns that Docker is asked for.
    fn docker(rows: &[[&str; 6]]) -> Vec<u8> {
        let titles = ["PID", "PPID", "SID", "STAT", "ELAPSED", "COMMAND"];
        json!({ "Titles": titles, "Processes": rows }).to_string().into_bytes()
    }

    fn known(first: u32) -> Known<'static> {
        Known { first, health_check: None, checking: &[] }
    }

    fn commands(answer: &Answer) -> Vec<&str> {
        let list = answer.list.as_ref().unwrap();
        std::iter::once(&list.first).chain(&list.others).map(|process| process.command.as_str()).collect()
    }

    #[test]
    fn a_list_tells_who_is_first_whose_child_each_is_and_when_it_began() {
        let body = docker(&[
            ["442", "219", "442", "Ss", "00:05", "sleep 500"],
            ["239", "219", "239", "Ss", "01:00:05", "sleep 1000"],
            ["393", "239", "387", "S", "30:05", "sh -c work"],
            ["394", "393", "387", "Z", "30:05", "[sh] <defunct>"],
        ]);
        let list = top(&body, known(239)).unwrap().list.unwrap();
        assert_eq!((list.first.pid, list.first.parent, list.first.began), (239, None, Some(Duration::ZERO)));
        let [command, work] = list.others.as_slice() else { panic!("{list:?}") };
        assert_eq!((command.parent, command.leader), (None, Some(442)));
        assert_eq!((work.parent, work.leader), (Some(239), Some(387)));
        assert_eq!(work.began, Some(Duration::from_mins(30)));
    }

    #[test]
    fn a_fork_that_is_not_itself_yet_is_looked_at_again() {
        let forked = |elapsed, command| {
            let script = "sh -c while :; do sleep 1; done";
            let body = docker(&[
                ["10", "9", "10", "Ss", "01:00:00", script],
                ["11", "10", "10", "S", elapsed, command],
            ]);
            top(&body, known(10)).unwrap().settled
        };
        assert!(!forked("00:00", "sh -c while :; do sleep 1; done"));
        assert!(forked("00:00", "sleep 1"));
        assert!(forked("00:05", "sh -c while :; do sleep 1; done"), "a subshell at work");
    }

    #[test]
    fn podman_counts_from_one_inside_and_tells_the_hosts_numbers_too() {
        let titles = ["PID", "PPID", "HPID", "PGID", "STATE", "ELAPSED", "COMMAND"];
        let body = json!({ "Titles": titles, "Processes": [
            ["1", "0", "533", "1", "S", "1m2.8s", "sleep 1000"],
            ["13", "0", "635", "13", "S", "1.8s", "sleep 500"],
        ]});
        let list = top(body.to_string().as_bytes(), known(533)).unwrap().list.unwrap();
        assert_eq!((list.first.pid, list.others[0].pid, list.others[0].parent), (1, 13, None));
        assert_eq!(list.others[0].began, Some(Duration::from_secs(61)));
    }

    #[test]
    fn health_checks_are_left_out_with_all_they_started() {
        let check = HealthCheck::of(&["CMD-SHELL".to_owned(), "probe || exit 1".to_owned()]);
        let body = docker(&[
            ["10", "9", "10", "S", "00:05", "serve"],
            ["20", "9", "20", "S", "00:01", "/bin/sh -c probe || exit 1"],
            ["21", "20", "20", "S", "00:01", "probe"],
            ["30", "9", "30", "S", "00:01", "probe -v"],
            ["31", "30", "30", "S", "00:01", "curl"],
            ["40", "9", "40", "S", "00:01", "make"],
        ]);
        let known = Known { first: 10, health_check: check.as_ref(), checking: &[30] };
        assert_eq!(commands(&top(&body, known).unwrap()), ["serve", "make"]);
    }

    #[test]
    fn a_list_without_the_first_process_or_with_the_runtime_in_its_place_is_none() {
        let none = Answer { list: None, settled: false };
        assert_eq!(top(&docker(&[]), known(7)).unwrap(), none);
        assert_eq!(top(&docker(&[["8", "1", "8", "S", "00:00", "sleep 1"]]), known(7)).unwrap(), none);
        for runtime in ["runc init", "/usr/bin/runc init", "runc:[2:INIT]", "/proc/self/exe init"] {
            assert_eq!(top(&docker(&[["7", "1", "7", "S", "00:00", runtime]]), known(7)).unwrap(), none);
            let body =
                docker(&[["7", "1", "7", "S", "00:00", "sleep 1"], ["8", "1", "8", "S", "00:00", runtime]]);
            let answer = top(&body, known(7)).unwrap();
            assert!(answer.list.is_some() && !answer.settled, "{runtime}");
        }
    }

    #[rstest]
    #[case(json!({}))]
    #[case(json!({ "Titles": ["PID", "COMMAND"], "Processes": [["7", "sleep"]] }))]
    #[case(json!({ "Titles": ["PID", "PPID", "COMMAND"], "Processes": [["7", "1"]] }))]
    #[case(json!({ "Titles": ["PID", "PPID", "COMMAND"], "Processes": [["seven", "1", "sleep"]] }))]
    fn what_is_no_list_is_a_fault(#[case] body: Value) {
        assert!(top(body.to_string().as_bytes(), known(7)).is_err());
    }

    #[rstest]
    #[case("00:07", 7.0)]
    #[case("12:34:56", 45_296.0)]
    #[case("2-03:04:05", 183_845.0)]
    #[case("9.175356438s", 9.175_356_438)]
    #[case("1h2m3.5s", 3723.5)]
    #[case("250ms", 0.25)]
    #[case("3h05", 11_100.0)]
    #[case("2d03", 183_600.0)]
    fn a_length_is_read_in_every_engines_words(#[case] text: &str, #[case] seconds: f64) {
        assert_eq!(length(text), Some(Duration::from_secs_f64(seconds)), "{text}");
    }

    #[test]
    fn what_is_no_length_is_none() {
        for text in ["", "soon", "5", "1:x", "-", "1.2.3s", "3w", "99999999999999999999999-00:00"] {
            assert_eq!(length(text), None, "{text}");
        }
    }
}
