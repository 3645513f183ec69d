//! HTTP to the engine, over a unix socket or TCP. The one place where requests leave the process.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::{BollardRequest, Docker};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use hyperlocal::UnixConnector;

use super::endpoint::Address;
use super::fault::{EngineFault, chain};

/// No answer we ask for is larger on any real host; 10,000 containers list in about 10 MiB.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// bollard's own time-out counts whole seconds and does not cover a stalled body. Ours do; its never fires first.
const BOLLARD_TIMEOUT_SECONDS: u64 = 24 * 60 * 60;

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// What may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// `GET` and `HEAD` only.
    Look,
    /// Anything.
    Act,
}

/// A pooled client for one engine.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    route: Arc<Route>,
    access: Access,
}

#[derive(Debug)]
enum Route {
    Unix { path: PathBuf, authority: String, client: Client<UnixConnector, Body> },
    Tcp { authority: String, client: Client<HttpConnector, Body> },
}

impl Transport {
    pub(super) fn new(address: &Address, access: Access) -> Self {
        let builder = Client::builder(TokioExecutor::new());
        let route = match address {
            Address::Unix(path) => Route::Unix {
                authority: format!("{}:0", hex(path)),
                path: path.clone(),
                client: builder.build(UnixConnector),
            },
            Address::Tcp(authority) => {
                Route::Tcp { authority: authority.clone(), client: builder.build(HttpConnector::new()) }
            }
        };
        Self { route: Arc::new(route), access }
    }

    /// bollard on top of this transport, so that its requests pass the same gate.
    pub(super) fn bollard(&self) -> Result<Docker, EngineFault> {
        let transport = self.clone();
        let send = move |request: BollardRequest| {
            let transport = transport.clone();
            async move {
                let request = request.map(BodyExt::boxed_unsync);
                transport.send(request).await.map_err(|fault| io::Error::other(fault).into())
            }
        };
        let version = bollard::API_DEFAULT_VERSION;
        let docker = Docker::connect_with_custom_transport(
            send,
            Some("http://engine"),
            BOLLARD_TIMEOUT_SECONDS,
            version,
        )?;
        Ok(docker)
    }

    /// Fetches a JSON document whole, within `timeout` from the first byte sent to the last byte read.
    pub(super) async fn get(&self, path_and_query: &str, timeout: Duration) -> Result<Bytes, EngineFault> {
        Ok(self.answer(path_and_query, timeout).await?.into_body())
    }

    /// Fetches a document that is too large to be held, and hands it on as it arrives.
    pub(super) async fn get_in_pieces(
        &self,
        path_and_query: &str,
        timeout: Duration,
        mut each: impl FnMut(&[u8]) -> Result<(), EngineFault>,
    ) -> Result<(), EngineFault> {
        let fetch = async {
            let mut body = Limited::new(self.open(path_and_query).await?, LARGEST_ANSWER);
            while let Some(frame) = body.frame().await {
                if let Ok(piece) = frame.map_err(|error| broken_off(error.as_ref()))?.into_data() {
                    each(&piece)?;
                }
            }
            Ok(())
        };
        tokio::time::timeout(timeout, fetch).await.map_err(|_| EngineFault::TimedOut(timeout))?
    }

    /// The same, with its headers.
    pub(super) async fn answer(
        &self,
        path_and_query: &str,
        timeout: Duration,
    ) -> Result<Response<Bytes>, EngineFault> {
        let fetch = async {
            let (head, body) = self.ask(path_and_query).await?.into_parts();
            Ok(Response::from_parts(head, whole(body).await?))
        };
        tokio::time::timeout(timeout, fetch).await.map_err(|_| EngineFault::TimedOut(timeout))?
    }

    /// Sends a document and fetches the answer whole.
    pub(super) async fn post(
        &self,
        path_and_query: &str,
        document: &serde_json::Value,
        timeout: Duration,
    ) -> Result<Bytes, EngineFault> {
        let body = http_body_util::Full::new(Bytes::from(document.to_string()));
        let body = body.map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder().method(Method::POST).uri(path_and_query);
        let request = request.header(hyper::header::CONTENT_TYPE, "application/json").body(body);
        let request = request.map_err(|error| EngineFault::Unintelligible(error.to_string()))?;
        let answer = async { whole(self.accepted(request).await?.into_body()).await };
        tokio::time::timeout(timeout, answer).await.map_err(|_| EngineFault::TimedOut(timeout))?
    }

    /// Asks for something and leaves the body of the answer to be read. Nothing limits how long either takes.
    pub(super) async fn open(&self, path_and_query: &str) -> Result<Incoming, EngineFault> {
        Ok(self.ask(path_and_query).await?.into_body())
    }

    /// Asks for something; an answer that is a refusal is a fault.
    async fn ask(&self, path_and_query: &str) -> Result<Response<Incoming>, EngineFault> {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder().method(Method::GET).uri(path_and_query).body(body);
        let request = request.map_err(|error| EngineFault::Unintelligible(error.to_string()))?;
        self.accepted(request).await
    }

    /// Sends a request; an answer that is a refusal is a fault.
    async fn accepted(&self, request: Request<Body>) -> Result<Response<Incoming>, EngineFault> {
        let response = self.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let message = message_of(&whole(response.into_body()).await?);
        Err(EngineFault::Status { status: status.as_u16(), message })
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, EngineFault> {
        let looks = matches!(*request.method(), Method::GET | Method::HEAD);
        if self.access == Access::Look && !looks {
            return Err(EngineFault::ReadOnly(request.method().to_string()));
        }
        let (scheme, authority) = match &*self.route {
            Route::Unix { authority, .. } => ("unix", authority),
            Route::Tcp { authority, .. } => ("http", authority),
        };
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let uri = Uri::builder().scheme(scheme).authority(authority.as_str()).path_and_query(path).build();
        *request.uri_mut() = uri.map_err(|error| EngineFault::Unintelligible(error.to_string()))?;
        // A unix socket has no host name; engines only want the header to be there.
        let host = hyper::header::HeaderValue::from_static("engine");
        request.headers_mut().insert(hyper::header::HOST, host);
        match &*self.route {
            Route::Unix { path, client, .. } => {
                client.request(request).await.map_err(|error| explain(&error, &path.display().to_string()))
            }
            Route::Tcp { authority, client } => {
                client.request(request).await.map_err(|error| explain(&error, authority))
            }
        }
    }
}

async fn whole(body: Incoming) -> Result<Bytes, EngineFault> {
    let body = Limited::new(body, LARGEST_ANSWER).collect().await;
    Ok(body.map_err(|error| broken_off(error.as_ref()))?.to_bytes())
}

fn broken_off(error: &(dyn std::error::Error + Send + Sync + 'static)) -> EngineFault {
    match error.downcast_ref::<LengthLimitError>() {
        Some(_) => EngineFault::TooLarge(LARGEST_ANSWER / 1024 / 1024),
        None => EngineFault::Connection(chain(error)),
    }
}

/// Finds the system's own error among the causes.
fn explain(error: &(dyn std::error::Error + 'static), place: &str) -> EngineFault {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(system) = current.downcast_ref::<io::Error>() {
            match system.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    return EngineFault::NoSocket(place.to_owned());
                }
                io::ErrorKind::PermissionDenied => return EngineFault::PermissionDenied(place.to_owned()),
                _ => {}
            }
        }
        cause = current.source();
    }
    EngineFault::Connection(chain(error))
}

/// The engine's own words: the `message` of its JSON, else the beginning of whatever it sent.
fn message_of(body: &[u8]) -> String {
    let words = serde_json::from_slice::<serde_json::Value>(body)
        .ok()
        .and_then(|value| {
            value.get("message").or_else(|| value.get("cause"))?.as_str().map(ToOwned::to_owned)
        })
        .unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    super::redact::without_secrets(&words).trim().chars().take(300).collect()
}

fn hex(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
