//! Just enough HTTP/1.1 for the scripted engine: one request in, one answer out, over a unix socket.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::json;

use super::STEP;
use super::scripted::Request;

/// How many bytes a padded row adds to a huge list.
const PADDING: usize = 8 * 1024;

/// The next request; `None` once the client has closed the connection.
pub(crate) fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let Some(first) = read_line(reader)? else { return Ok(None) };
    let mut words = first.split(' ').map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::Error::new(ErrorKind::InvalidData, first));
    };
    let mut length = 0;
    let mut chunked = false;
    while let Some(line) = read_line(reader)? {
        if line.is_empty() {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
    }
    let body = if chunked { read_chunks(reader)? } else { read_exactly(reader, length)? };
    let mut path = unversioned(target.split('?').next().unwrap_or_default()).to_owned();
    if target.contains("/json?size=") {
        // Asked for to be recorded or weighed, and not to be judged: no part of the protocol under test.
        path.push_str("/recorded");
    }
    Ok(Some(Request { method, target, path, body }))
}

fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let count = reader.read_line(&mut line)?;
    Ok((count > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
}

fn read_exactly(reader: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(line) = read_line(reader)? {
        let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        body.extend(read_exactly(reader, length)?);
        read_line(reader)?;
        if length == 0 {
            break;
        }
    }
    Ok(body)
}

/// `/v1.41/containers/json` is `/containers/json`.
fn unversioned(path: &str) -> &str {
    let Some((version, _)) = path.strip_prefix("/v").and_then(|rest| rest.split_once('/')) else {
        return path;
    };
    let numeric = version.starts_with(|first: char| first.is_ascii_digit())
        && version.chars().all(|each| each.is_ascii_digit() || each == '.');
    if numeric { &path["/v".len() + version.len()..] } else { path }
}

/// The status line and headers; `framing` says how the body is delimited.
pub(crate) fn head(status: u16, content_type: &str, framing: &str) -> String {
    // These answers have no body, and may not announce one.
    let framing = if matches!(status, 204 | 304) { String::new() } else { format!("{framing}\r\n") };
    format!(
        "HTTP/1.1 {status} Scripted\r\nApi-Version: 1.41\r\nServer: Docker/20.10.24 (linux)\r\n\
         Content-Type: {content_type}\r\n{framing}\r\n"
    )
}

pub(crate) fn write_chunk(mut stream: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    stream.write_all(&chunk)
}

/// A list of at least `total` bytes whose rows are well-formed and heavy.
pub(crate) fn write_huge(mut stream: &UnixStream, total: usize) -> io::Result<()> {
    stream.write_all(head(200, "application/json", "Transfer-Encoding: chunked").as_bytes())?;
    let padding = "x".repeat(PADDING);
    let mut sent = 0;
    let mut count = 0;
    while sent < total {
        let row = super::rows::row(&format!("huge-{count}")).label("padding", &padding).listed();
        let text = format!("{}{row}", if count == 0 { '[' } else { ',' });
        write_chunk(stream, text.as_bytes())?;
        sent += text.len();
        count += 1;
    }
    write_chunk(stream, if count == 0 { b"[]" } else { b"]" })?;
    write_chunk(stream, b"")
}

/// Looks for one step whether the other side is still there.
pub(crate) fn gone(mut stream: &UnixStream) -> io::Result<bool> {
    stream.set_read_timeout(Some(STEP))?;
    match stream.read(&mut [0]) {
        Ok(count) => Ok(count == 0),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What an engine says when it refuses.
pub(crate) fn error_body(message: &str) -> String {
    json!({ "message": message }).to_string()
}
