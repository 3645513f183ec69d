//! The processes of a simulated container, as the host's `ps` shows them: its own, those of commands, and what commands have
//! left behind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::world::{Progress, Refusal, SimContainer, World};

/// Whose children the first process of a container and the commands in it are. It is in none.
const RUNTIME: u32 = 1;

struct Row {
    pid: u32,
    parent: u32,
    leader: u32,
    began: Timestamp,
    command: String,
}

/// Answers in the columns that are asked for; in those of `ps -ef` if none are.
pub(super) fn top(
    world: &World,
    container: &SimContainer,
    asked: Option<&str>,
    now: Timestamp,
) -> Result<Value, Refusal> {
    let asked = asked.filter(|asked| !asked.is_empty()).unwrap_or("-eo uid,pid,ppid,c,stime,tty,time,cmd");
    let refusal = || Refusal::new(500, format!("ps: exit status 1: error: {asked} is not known here"));
    let columns: Vec<&str> = asked.strip_prefix("-eo ").ok_or_else(refusal)?.split(',').collect();
    let titles: Option<Vec<&str>> = columns.iter().map(|column| title(column)).collect();
    let rows = rows(world, container);
    let rows = rows.iter().map(|row| columns.iter().map(|column| cell(row, column, now)).collect());
    let rows: Vec<Vec<String>> = rows.collect();
    Ok(json!({ "Processes": rows, "Titles": titles.ok_or_else(refusal)? }))
}

fn rows(world: &World, container: &SimContainer) -> Vec<Row> {
    let first = container.phase.pid();
    if first == 0 {
        return Vec::new();
    }
    let command = container.command.join(" ");
    let began = container.started_at.unwrap_or(container.created_at);
    let own = Row { pid: first, parent: RUNTIME, leader: first, began, command };
    let commands = world.execs_of(&container.id).filter_map(|exec| match exec.progress {
        Progress::Running { pid, began } => {
            Some(Row { pid, parent: RUNTIME, leader: pid, began, command: exec.command.join(" ") })
        }
        _ => None,
    });
    let left = container.left_behind.iter().map(|left| Row {
        pid: left.pid,
        parent: if left.is_command { RUNTIME } else { first },
        // Whoever started it led its session, and is gone.
        leader: if left.is_command { left.pid } else { left.pid - 1 },
        began: left.began,
        command: left.command.join(" "),
    });
    std::iter::once(own).chain(commands).chain(left).collect()
}

fn title(column: &str) -> Option<&'static str> {
    Some(match column {
        "uid" => "UID",
        "pid" => "PID",
        "ppid" => "PPID",
        "sid" => "SID",
        "c" => "C",
        "stime" => "STIME",
        "stat" => "STAT",
        "etime" => "ELAPSED",
        "tty" => "TTY",
        "time" => "TIME",
        "cmd" => "CMD",
        "args" => "COMMAND",
        _ => return None,
    })
}

fn cell(row: &Row, column: &str, now: Timestamp) -> String {
    match column {
        "uid" => "root".to_owned(),
        "pid" => row.pid.to_string(),
        "ppid" => row.parent.to_string(),
        "sid" => row.leader.to_string(),
        "c" => "0".to_owned(),
        "stime" => "09:00".to_owned(),
        "stat" if row.pid == row.leader => "Ss".to_owned(),
        "stat" => "S".to_owned(),
        "etime" => elapsed(now.duration_since(row.began).as_secs().max(0)),
        "tty" => "?".to_owned(),
        "time" => "00:00:00".to_owned(),
        _ => row.command.clone(),
    }
}

/// `[[days-]hours:]minutes:seconds`.
fn elapsed(seconds: i64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let rest = format!("{minutes:02}:{:02}", seconds % 60);
    match (days, hours) {
        (0, 0) => rest,
        (0, hours) => format!("{hours:02}:{rest}"),
        (days, hours) => format!("{days}-{hours:02}:{rest}"),
    }
}
