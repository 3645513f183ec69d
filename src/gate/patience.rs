//! A connection that ends when its other side stops taking what it asked for: nobody may sit on our memory.

use std::future::Future as _;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Instant, Sleep};

/// While something waits to be written, so much of it must go out in each of these spans.
const SPAN: Duration = Duration::from_secs(20);
const LEAST: usize = 64 * 1024;

/// The connection.
#[derive(Debug)]
pub(super) struct Patient {
    stream: UnixStream,
    span: Duration,
    /// Runs while something waits to be written.
    limit: Option<Pin<Box<Sleep>>>,
    written: usize,
}

impl Patient {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self::with(stream, SPAN)
    }

    fn with(stream: UnixStream, span: Duration) -> Self {
        Self { stream, span, limit: None, written: 0 }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(context, bytes) {
            self.written += *written.as_ref().unwrap_or(&0);
            return Poll::Ready(written);
        }
        let this = &mut *self;
        let limit = this.limit.get_or_insert_with(|| {
            this.written = 0;
            Box::pin(tokio::time::sleep(this.span))
        });
        ready!(limit.as_mut().poll(context));
        if this.written < LEAST {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        this.written = 0;
        limit.as_mut().reset(Instant::now() + this.span);
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Called when all has been written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.limit = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn whoever_takes_nothing_is_cut_off() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut patient = Patient::with(ours, SHORT);
        let error = patient.write_all(&vec![0; 64 * 1024 * 1024]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn whoever_takes_a_byte_now_and_then_is_cut_off_too() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut patient = Patient::with(ours, SHORT);
        let trickle = async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if theirs.read(&mut [0; 100]).await.unwrap() == 0 {
                    return;
                }
            }
        };
        let large = vec![0; 64 * 1024 * 1024];
        tokio::select! {
            written = patient.write_all(&large) => {
                assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
            }
            () = trickle => unreachable!("the other side is not closed"),
        }
    }

    #[tokio::test]
    async fn whoever_reads_gets_everything() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let writer = tokio::spawn(async move {
            let mut patient = Patient::new(ours);
            patient.write_all(&vec![7; 8 * 1024 * 1024]).await
        });
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).await.unwrap();
        writer.await.unwrap().unwrap();
        assert_eq!(read.len(), 8 * 1024 * 1024);
    }
}
