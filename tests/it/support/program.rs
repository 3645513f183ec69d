//! Runs the sandkeeper binary in an environment of its own.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long the pipes of an ended program may stay open.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A person's home directory, with the XDG directories inside. Commands run from it share its state.
pub(crate) struct Home {
    directory: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("sandkeeper-home.").tempdir().unwrap();
        let home = Self { directory };
        for each in [home.config(), home.data(), home.state(), home.runtime()] {
            fs::create_dir_all(&each).unwrap();
        }
        fs::set_permissions(home.runtime(), fs::Permissions::from_mode(0o700)).unwrap();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// `$XDG_CONFIG_HOME`
    pub(crate) fn config(&self) -> PathBuf {
        self.path().join(".config")
    }

    /// `$XDG_DATA_HOME`
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join(".local/share")
    }

    /// `$XDG_STATE_HOME`
    pub(crate) fn state(&self) -> PathBuf {
        self.path().join(".local/state")
    }

    /// `$XDG_RUNTIME_DIR`
    pub(crate) fn runtime(&self) -> PathBuf {
        self.path().join("run")
    }

    /// Where the built-in contract expects its session database.
    pub(crate) fn native_store(&self) -> PathBuf {
        self.data().join("sandkeeper/sessions.db")
    }

    /// Writes a file, its directories included, and returns its path. `place` is relative to the home.
    pub(crate) fn write(&self, place: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Prepares `sandkeeper ARGUMENTS`; nothing runs before [`Program::run`] or [`Program::spawn`].
    pub(crate) fn sandkeeper<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Program<'_> {
        Program {
            home: self,
            arguments: arguments.into_iter().map(|each| each.as_ref().to_owned()).collect(),
            environment: Vec::new(),
            input: None,
            user: None,
            terminal: false,
        }
    }

    /// Gives the home to another user, and the program a place that user can reach.
    fn hand_over(&self, user: u32, group: u32) -> PathBuf {
        let program = self.path().join("sandkeeper");
        let built = env!("CARGO_BIN_EXE_sandkeeper");
        if !program.exists() && fs::hard_link(built, &program).is_err() {
            fs::copy(built, &program).unwrap();
        }
        let mut left = vec![self.path().to_owned()];
        while let Some(path) = left.pop() {
            if path == program {
                continue;
            }
            lchown(&path, Some(user), Some(group)).unwrap();
            if path.symlink_metadata().unwrap().is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        program
    }
}

/// A command about to run.
#[must_use = "nothing runs before `run` or `spawn`"]
pub(crate) struct Program<'home> {
    home: &'home Home,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    input: Option<PathBuf>,
    user: Option<(u32, u32)>,
    terminal: bool,
}

impl Program<'_> {
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|each| each.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((key.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Sets a variable unless the test did.
    pub(crate) fn env_default(self, key: &str, value: &str) -> Self {
        let said = self.environment.iter().any(|(said, _)| said == key);
        if said { self } else { self.env(key, value) }
    }

    pub(crate) fn without_env(mut self, key: impl AsRef<OsStr>) -> Self {
        self.environment.push((key.as_ref().to_owned(), None));
        self
    }

    /// Reads standard input from a file; it is empty otherwise.
    pub(crate) fn input(mut self, file: impl Into<PathBuf>) -> Self {
        self.input = Some(file.into());
        self
    }

    /// Runs on a terminal on which somebody has already typed this. Everything comes out on standard output.
    pub(crate) fn typing(mut self, text: &str) -> Self {
        self.terminal = true;
        let typed = self.home.write("typed", text);
        self.input(typed)
    }

    /// Runs as another user without further groups, and makes the home theirs. Needs root.
    pub(crate) fn user(mut self, user: u32, group: u32) -> Self {
        self.user = Some((user, group));
        self
    }

    /// Runs to the end. Kills the program and panics, showing what it said, when it hangs.
    #[track_caller]
    pub(crate) fn run(self) -> Finished {
        self.spawn().wait()
    }

    /// Starts a program that stays, such as `status --watch`.
    #[track_caller]
    pub(crate) fn spawn(self) -> Running {
        let mut command = self.command();
        let shown = format!("sandkeeper {}", self.arguments.join(OsStr::new(" ")).display());
        let began = Instant::now();
        let making = super::one_process_at_a_time();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run `{shown}`: {error}"));
        drop(making);
        let (sender, lines) = mpsc::channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            let mut line = Vec::new();
            while let Ok(1..) = stdout.read_until(b'\n', &mut line) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let errors = Arc::new(Mutex::new(Vec::new()));
        let (open, errors_ended) = mpsc::channel::<()>();
        let mut stderr = child.stderr.take().unwrap();
        let heard = Arc::clone(&errors);
        thread::spawn(move || {
            let _open = open;
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut buffer) {
                heard.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Running { child, shown, began, lines, said: RefCell::default(), errors, errors_ended }
    }

    /// The command itself, for whoever runs it in another way.
    pub(crate) fn into_command(self) -> Command {
        assert!(self.user.is_none() && self.input.is_none(), "neither can be told from a command");
        self.command()
    }

    fn command(&self) -> Command {
        let home = self.home;
        let program = self.user.map_or_else(
            || env!("CARGO_BIN_EXE_sandkeeper").into(),
            |(user, group)| home.hand_over(user, group),
        );
        let mut command = if self.terminal {
            let quote = |word: &OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
            let words =
                [program.as_os_str()].into_iter().chain(self.arguments.iter().map(OsString::as_os_str));
            let line: Vec<String> = words.map(quote).collect();
            let mut script = Command::new("script");
            script.args([
                "--quiet",
                "--return",
                "--echo",
                "never",
                "--command",
                &line.join(" "),
                "/dev/null",
            ]);
            script
        } else {
            let mut plain = Command::new(program);
            plain.args(&self.arguments);
            plain
        };
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("HOME", home.path())
            .env("XDG_CONFIG_HOME", home.config())
            .env("XDG_DATA_HOME", home.data())
            .env("XDG_STATE_HOME", home.state())
            .env("XDG_RUNTIME_DIR", home.runtime())
            // On a busy machine an answer that comes late is still a good one.
            .env("SANDKEEPER_TIMEOUT", "2m")
            // Stories are older than the machine they are told on is up, and begin with a home that remembers nothing.
            .env("SANDKEEPER_COUNT_DOWNTIME", "1")
            .env("SANDKEEPER_NEW_STORE_WAIT", "0s")
            .current_dir(home.path())
            .stdin(self.input.as_ref().map_or_else(Stdio::null, |file| fs::File::open(file).unwrap().into()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (key, value) in &self.environment {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }
}

/// A program that is running; killed when dropped.
pub(crate) struct Running {
    child: Child,
    shown: String,
    began: Instant,
    lines: Receiver<Vec<u8>>,
    said: RefCell<Vec<u8>>,
    errors: Arc<Mutex<Vec<u8>>>,
    errors_ended: Receiver<()>,
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output; `None` once the program has closed it.
    #[track_caller]
    pub(crate) fn next_line(&self) -> Option<String> {
        match self.lines.recv_timeout(super::hang_limit()) {
            Ok(line) => {
                self.said.borrow_mut().extend_from_slice(&line);
                let line = utf8(&line, "standard output");
                Some(line.strip_suffix('\n').map_or(line.clone(), str::to_owned))
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("`{}` printed no line\n{}", self.shown, self.so_far())
            }
        }
    }

    /// Reads lines until one fits, and returns it.
    #[track_caller]
    pub(crate) fn line_where(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        loop {
            match self.next_line() {
                Some(line) if fits(&line) => return line,
                Some(_) => {}
                None => panic!("`{}` ended before it printed {what}\n{}", self.shown, self.so_far()),
            }
        }
    }

    /// The next line, read as JSON.
    #[track_caller]
    pub(crate) fn next_json(&self) -> Value {
        let Some(line) = self.next_line() else {
            panic!("`{}` ended before it printed a line\n{}", self.shown, self.so_far());
        };
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}"))
    }

    /// What it has written to standard error until now.
    pub(crate) fn errors_so_far(&self) -> String {
        String::from_utf8_lossy(&self.errors.lock().unwrap()).into_owned()
    }

    /// Sends a signal by its short name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.id())).status().unwrap();
        assert!(sent.success(), "cannot send {name} to `{}`", self.shown);
    }

    /// Waits for the end; kills the program and panics when it hangs.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Finished {
        // Reading goes on in the background, so a full pipe cannot keep the program from ending.
        let waiting = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if waiting.elapsed() >= super::hang_limit() {
                let _ = self.child.kill();
                let _ = self.child.wait();
                self.listen_to_the_end();
                panic!("`{}` did not end\n{}", self.shown, self.so_far());
            }
            thread::sleep(super::STEP);
        };
        let elapsed = self.began.elapsed();
        self.listen_to_the_end();
        Finished {
            command: self.shown.clone(),
            status: status.code(),
            signal: status.signal(),
            stdout: utf8(&self.said.borrow(), "standard output"),
            stderr: utf8(&self.errors.lock().unwrap(), "standard error"),
            elapsed,
        }
    }

    fn listen_to_the_end(&self) {
        let mut said = self.said.borrow_mut();
        while let Ok(line) = self.lines.recv_timeout(LAST_WORDS) {
            said.extend_from_slice(&line);
        }
        let _ = self.errors_ended.recv_timeout(LAST_WORDS);
    }

    fn so_far(&self) -> String {
        show(&self.said.borrow(), &self.errors.lock().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that has ended, and everything it said.
pub(crate) struct Finished {
    command: String,
    /// The exit code; `None` when a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) elapsed: Duration,
}

impl Finished {
    #[track_caller]
    pub(crate) fn expect_exit(self, code: i32) -> Self {
        assert_eq!(self.status, Some(code), "the exit code of {self}");
        self
    }

    #[track_caller]
    pub(crate) fn expect_stdout(self, part: &str) -> Self {
        assert!(self.stdout.contains(part), "standard output lacks {part:?}: {self}");
        self
    }

    #[track_caller]
    pub(crate) fn expect_stderr(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "standard error lacks {part:?}: {self}");
        self
    }

    /// Standard output, read as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {self}"))
    }

    /// Standard output, read as one JSON value per line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let read =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): {self}"));
        self.stdout.lines().map(read).collect()
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, status, signal, stdout, stderr, elapsed } = self;
        writeln!(f, "`{command}` (exit {status:?}, signal {signal:?}, {elapsed:?})")?;
        f.write_str(&show(stdout.as_bytes(), stderr.as_bytes()))
    }
}

fn show(stdout: &[u8], stderr: &[u8]) -> String {
    format!(
        "--- standard output\n{}\n--- standard error\n{}\n---",
        String::from_utf8_lossy(stdout),
        String::from_utf8_lossy(stderr)
    )
}

/// Whatever the engine sends, what sandkeeper prints is valid UTF-8.
#[track_caller]
fn utf8(bytes: &[u8], what: &str) -> String {
    String::from_utf8(bytes.to_vec())
        .unwrap_or_else(|error| panic!("{what} is not UTF-8: {error}: {bytes:?}"))
}
