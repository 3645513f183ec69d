//! Everything that can go wrong between us and the engine.

use std::time::Duration;

use thiserror::Error;

use crate::domain::span::{Precise, Span};

/// Why the engine gave no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineFault {
    /// Nothing listens there.
    #[error("nothing listens at {0}")]
    NoSocket(String),
    /// The socket may not be opened.
    #[error("permission denied on {0}")]
    PermissionDenied(String),
    /// The connection failed or was cut.
    #[error("the connection failed: {0}")]
    Connection(String),
    /// No complete answer in time.
    #[error("no complete answer {}", patience(*.0))]
    TimedOut(Duration),
    /// The engine refused or failed.
    #[error("the engine answered {status}: {message}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The engine's words.
        message: String,
    },
    /// The answer is not what the API promises.
    #[error("the answer is not intelligible: {0}")]
    Unintelligible(String),
    /// The answer is larger than any list should be.
    #[error("the answer is larger than {0} MiB")]
    TooLarge(usize),
    /// A request that was not sent, because what allowed it was looked at too long ago.
    #[error("it was not asked: the look that allowed it began {} ago", Precise(*.0))]
    Outdated(Duration),
    /// A request that would change something, from a view.
    #[error("a {0} request was refused: this program may only look")]
    ReadOnly(String),
}

fn patience(limit: Duration) -> String {
    match limit {
        limit if limit < Duration::from_millis(1) => "in the time that was left".to_owned(),
        limit => format!("within {}", Span(limit)),
    }
}

impl EngineFault {
    /// Whether the engine says that the thing does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { status: 404, .. })
    }

    /// What to try.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoSocket(_) => "start the engine, or name another with `--host` or `--context`",
            Self::PermissionDenied(_) => {
                "join the group that owns the socket (often `docker`), use a rootless engine, or name another with `--host`"
            }
            Self::Connection(_) | Self::Status { .. } => "look at the engine's own log",
            Self::TimedOut(_) => "the engine is busy or hangs: try a longer `--timeout`",
            Self::Unintelligible(_) | Self::TooLarge(_) => "check that the address is a Docker or Podman API",
            Self::Outdated(_) => "the machine is too busy to look and act in time: try again",
            Self::ReadOnly(_) => "start without `--read-only`",
        }
    }
}

impl From<bollard::errors::Error> for EngineFault {
    fn from(error: bollard::errors::Error) -> Self {
        use bollard::errors::Error;
        match error {
            Error::DockerResponseServerError { status_code, message } => {
                Self::Status { status: status_code, message }
            }
            // Our own transport speaks through bollard's error type.
            Error::IOError { err } => match err.downcast::<Self>() {
                Ok(fault) => fault,
                Err(err) => Self::Connection(err.to_string()),
            },
            Error::JsonDataError { message, .. } => Self::Unintelligible(message),
            Error::JsonSerdeError { err } => Self::Unintelligible(err.to_string()),
            other => Self::Connection(chain(&other)),
        }
    }
}

/// An error with all its causes in one line; hyper hides the telling part in them.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
