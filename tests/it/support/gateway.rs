//! A gateway in a process of its own, with the SQLite that Debian's Python has: it opens, writes, checkpoints, closes and comes
//! back as it is told.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};

/// The owner of a session database of the built-in contract.
pub(crate) struct Gateway {
    path: PathBuf,
    process: Mutex<Process>,
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Gateway {
    /// A gateway that has its database open, in WAL mode.
    pub(crate) fn start(path: impl Into<PathBuf>) -> Self {
        let gateway = Self::idle(path);
        gateway.ask("open", &[]);
        gateway
    }

    /// A gateway that has not opened its database yet.
    pub(crate) fn idle(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let process = Mutex::new(Process::start(&path));
        Self { path, process }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes are in its log.
    pub(crate) fn log_size(&self) -> u64 {
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        std::fs::metadata(log).map_or(0, |log| log.len())
    }

    /// Does one thing and says what came of it.
    #[track_caller]
    pub(crate) fn ask(&self, command: &str, arguments: &[&str]) -> Value {
        let mut line = vec![command];
        line.extend(arguments);
        let mut process = self.process.lock().unwrap();
        writeln!(process.input, "{}", json!(line)).unwrap();
        let mut answer = String::new();
        process.output.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| {
            panic!("the gateway did not answer {line:?} ({error}): {answer}");
        });
        assert!(answer.get("said").is_some(), "the gateway failed: {answer}");
        answer["said"].clone()
    }

    pub(crate) fn begin(&self, session: &str, workspace: &str) {
        self.ask("begin", &[session, workspace]);
    }

    pub(crate) fn end(&self, session: &str) {
        self.ask("end", &[session]);
    }

    /// Closes its database; says how many bytes of the log that left behind.
    pub(crate) fn close(&self) -> u64 {
        self.ask("close", &[]).as_u64().unwrap()
    }

    pub(crate) fn open(&self) {
        self.ask("open", &[]);
    }

    pub(crate) fn restart(&self) {
        self.close();
        self.open();
    }

    /// Ends without closing anything, and comes back.
    pub(crate) fn crash_and_come_back(&self) {
        let mut process = self.process.lock().unwrap();
        writeln!(process.input, "[\"crash\"]").unwrap();
        process.child.wait().unwrap();
        *process = Process::start(&self.path);
        drop(process);
        self.open();
    }

    /// The sessions that it takes for live.
    pub(crate) fn live(&self) -> Vec<String> {
        let ids = self.ask("live", &[]);
        ids.as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    }
}

impl Process {
    fn start(path: &Path) -> Self {
        let _one = super::one_process_at_a_time();
        let mut child = Command::new(python())
            .args(["-c", include_str!("gateway.py")])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run python3: {error}"));
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The system's own, with the system's own SQLite. What else is called so may be a wrapper that takes longer than the gateway.
fn python() -> &'static str {
    let own = "/usr/bin/python3";
    if Path::new(own).exists() { own } else { "python3" }
}
