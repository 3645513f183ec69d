//! The gate as a program of its own, and a plain client for its socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use super::answer::Answer;
use super::program::{Home, Running};

const PATIENCE: Duration = Duration::from_mins(3);

/// A gate that runs until it is dropped.
pub(crate) struct GateProcess {
    running: Option<Running>,
    socket: PathBuf,
}

impl GateProcess {
    /// Starts a gate for the engine at `endpoint`, and waits until it listens.
    #[track_caller]
    pub(crate) fn start(home: &Home, endpoint: &str, arguments: &[&str]) -> Self {
        let socket = home.path().join("gate.sock");
        let place = socket.display().to_string();
        let program = home.sandkeeper(["gate", "--listen", &place, "--host", endpoint]).args(arguments);
        let running = program.spawn();
        running.line_where("that it listens", |line| line.starts_with("listening on"));
        Self { running: Some(running), socket }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    pub(crate) fn id(&self) -> u32 {
        self.running.as_ref().unwrap().id()
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        self.running.as_ref().unwrap().errors_so_far()
    }

    /// `GET target`.
    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target)
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, target: &str) -> Answer {
        ask(&self.socket, method, target)
    }

    /// Opens a stream and reads its head.
    #[track_caller]
    pub(crate) fn open(&self, target: &str) -> BufReader<UnixStream> {
        let mut stream = connect(&self.socket);
        write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let (status, _) = read_head(&mut reader).expect("an answer");
        assert_eq!(status, 200, "{target}");
        reader
    }

    /// The docker command line on the gate's socket.
    pub(crate) fn docker(&self, arguments: &[&str]) -> Output {
        docker_command(&self.endpoint(), arguments).output().unwrap()
    }

    /// How many bytes of memory it holds.
    pub(crate) fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }

    /// How many file handles it holds.
    pub(crate) fn handles(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    /// Ends it as systemd would, and expects it to leave nothing behind.
    #[track_caller]
    pub(crate) fn end(mut self) {
        let running = self.running.take().unwrap();
        running.signal("TERM");
        running.wait().expect_exit(0);
        assert!(!self.socket.exists(), "the socket outlives its gate");
    }
}

pub(crate) fn docker_command(endpoint: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("docker");
    command.args(["-H", endpoint]).args(arguments).env("DOCKER_BUILDKIT", "0");
    for name in ["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_API_VERSION", "DOCKER_TLS_VERIFY"] {
        command.env_remove(name);
    }
    command
}

#[track_caller]
pub(crate) fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[track_caller]
pub(crate) fn ask(socket: &Path, method: &str, target: &str) -> Answer {
    let mut stream = connect(socket);
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let (status, headers) = read_head(&mut reader).expect("an answer");
    let mut body = Vec::new();
    if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
        while let Some(chunk) = read_chunk(&mut reader) {
            body.extend_from_slice(&chunk);
        }
    } else {
        reader.read_to_end(&mut body).unwrap();
    }
    Answer { status, headers, body }
}

/// The status and headers of an answer; `None` if the connection ended instead.
pub(crate) fn read_head(reader: &mut impl BufRead) -> Option<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.trim().parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => return Some((status, headers)),
        }
    }
}

/// The next piece of a streamed answer; `None` at its end.
pub(crate) fn read_chunk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut size = String::new();
    reader.read_line(&mut size).ok()?;
    let size = usize::from_str_radix(size.trim(), 16).ok().filter(|size| *size > 0)?;
    let mut chunk = vec![0; size + 2];
    reader.read_exact(&mut chunk).ok()?;
    chunk.truncate(size);
    Some(chunk)
}
