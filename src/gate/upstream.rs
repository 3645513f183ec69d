//! The gate's side towards the engine: one connection per question, which ends with the answer. Only what
//! [`Asked`] can say is sent, and no header of the client's.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::task::AbortOnDropHandle;

use super::request::Asked;
use crate::engine::Address;

/// How long the engine may take to begin its answer; some lists take long.
const PATIENCE: Duration = Duration::from_mins(1);
/// The same for an answer that begins with the first news, as Podman's does.
const PATIENCE_FOR_NEWS: Duration = Duration::from_hours(1);

/// An answer, and the connection that ends with it.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) connection: AbortOnDropHandle<()>,
}

/// Why there is no answer, as a sentence and a status.
pub(super) struct NoAnswer {
    pub(super) status: u16,
    pub(super) sentence: String,
}

impl NoAnswer {
    pub(super) fn new(status: u16, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into() }
    }
}

pub(super) async fn ask(engine: &Address, asked: &Asked) -> Result<Answer, NoAnswer> {
    let late = |_| NoAnswer::new(504, "the engine did not answer in time");
    let patience = if asked.may_wait_for_news() { PATIENCE_FOR_NEWS } else { PATIENCE };
    tokio::time::timeout(patience, connect_and_ask(engine, asked)).await.map_err(late)?
}

async fn connect_and_ask(engine: &Address, asked: &Asked) -> Result<Answer, NoAnswer> {
    let away = |error: std::io::Error| NoAnswer::new(502, format!("the engine cannot be reached: {error}"));
    match engine {
        Address::Unix(path) => send(UnixStream::connect(path).await.map_err(away)?, asked).await,
        Address::Tcp(authority) => send(TcpStream::connect(authority).await.map_err(away)?, asked).await,
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    asked: &Asked,
) -> Result<Answer, NoAnswer> {
    let failed = |error: hyper::Error| NoAnswer::new(502, format!("the engine did not answer: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Whatever goes wrong on the connection shows at the answer.
    let connection = AbortOnDropHandle::new(tokio::spawn(async move {
        let _ = connection.await;
    }));
    let request = Request::builder()
        .method(asked.method())
        .uri(asked.target())
        .header("host", "engine")
        .header("user-agent", "sandkeeper-gate")
        .body(Empty::<Bytes>::new())
        .map_err(|error| NoAnswer::new(500, error.to_string()))?;
    let response = sender.send_request(request).await.map_err(failed)?;
    if response.status().is_informational() || response.status().is_redirection() {
        return Err(NoAnswer::new(502, format!("the engine answered {}", response.status())));
    }
    Ok(Answer { response, connection })
}
