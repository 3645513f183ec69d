//! A plain HTTP client for an engine's socket: whole answers, and streams read piece by piece.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::answer::Answer;

/// How long an engine may be silent.
const PATIENCE: Duration = Duration::from_mins(3);

#[derive(Clone, Debug)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    pub(crate) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Asks and waits for the whole answer.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> Answer {
        let mut stream = self.open(method, target, body);
        let mut whole = Vec::new();
        if method != "HEAD" && ![204, 304].contains(&stream.status) {
            while let Some(piece) = stream.next_piece() {
                whole.extend(piece);
            }
        }
        Answer { status: stream.status, headers: stream.headers, body: whole }
    }

    /// Asks and reads only the head; the rest is read by the caller.
    #[track_caller]
    pub(crate) fn open(&self, method: &str, target: &str, body: Option<&Value>) -> Stream {
        let connection = UnixStream::connect(&self.socket).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        let content = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n{content}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        (&connection).write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(connection);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("{method} {target}: no status in {line:?}"));
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let header =
            |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let left = if header("transfer-encoding") == Some("chunked") {
            Left::Chunks
        } else {
            header("content-length").map_or(Left::UntilClosed, |length| Left::Bytes(length.parse().unwrap()))
        };
        Stream { status, headers, reader, left }
    }
}

enum Left {
    Chunks,
    Bytes(usize),
    UntilClosed,
}

/// An answer that is read piece by piece.
pub(crate) struct Stream {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    reader: BufReader<UnixStream>,
    left: Left,
}

impl Stream {
    /// The next piece, or `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Option<Vec<u8>> {
        let length = match self.left {
            Left::Chunks => {
                let mut line = String::new();
                self.reader.read_line(&mut line).unwrap();
                usize::from_str_radix(line.trim(), 16).unwrap()
            }
            Left::Bytes(left) => {
                self.left = Left::Bytes(0);
                left
            }
            Left::UntilClosed => {
                let mut rest = Vec::new();
                self.reader.read_to_end(&mut rest).unwrap();
                self.left = Left::Bytes(0);
                return Some(rest);
            }
        };
        let mut piece = vec![0; length];
        self.reader.read_exact(&mut piece).unwrap();
        if matches!(self.left, Left::Chunks) {
            let mut end = String::new();
            self.reader.read_line(&mut end).unwrap();
        }
        (length > 0).then_some(piece)
    }

    /// Reads JSON lines until there are so many.
    #[track_caller]
    pub(crate) fn json_lines(&mut self, count: usize) -> Vec<Value> {
        let mut text = String::new();
        loop {
            let whole: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            if whole.len() >= count {
                return whole;
            }
            let piece = self.next_piece().unwrap_or_else(|| panic!("the stream ended early: {text}"));
            text.push_str(&String::from_utf8(piece).unwrap());
        }
    }
}
