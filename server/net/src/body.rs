//! A request's body: bounded in size and time, whether it is collected or read as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::activity::InFlight;
use crate::settings::Settings;
use crate::stats::{Refusal, Stats};
use crate::timer::Timer;

/// A request's body as it arrives.
pub struct Body {
    incoming: Incoming,
    limit: usize,
    read: usize,
    clock: Clock,
    stats: Arc<Stats>,
    in_flight: Arc<InFlight>,
    ended: bool,
}

/// Counts only while we wait for the client: a front end that takes its time to read costs the client nothing.
struct Clock {
    idle: std::time::Duration,
    whole: std::time::Duration,
    /// When we first waited, and when we began to wait for the piece to come.
    waiting: Option<(Instant, Instant)>,
    timer: Timer,
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is larger than the listener takes.
    #[error("the request body exceeds the maximum of {limit} bytes")]
    TooLarge {
        /// What the listener takes.
        limit: usize,
    },
    /// It came too slowly.
    #[error("the request body did not arrive in time")]
    TooSlow,
    /// All requests together hold as much as they may.
    #[error("the service is busy; try again")]
    Busy,
    /// The connection broke, or the encoding is wrong.
    #[error("the request body could not be read")]
    Broken(#[source] hyper::Error),
}

impl Body {
    pub(crate) fn new(incoming: Incoming, settings: &Settings, in_flight: Arc<InFlight>) -> Self {
        Self {
            incoming,
            limit: settings.sizes.body,
            read: 0,
            clock: Clock {
                idle: settings.deadlines.body_idle,
                whole: settings.deadlines.body,
                waiting: None,
                timer: Timer::default(),
            },
            stats: Arc::clone(&settings.stats),
            in_flight,
            ended: false,
        }
    }

    /// The whole body. What it takes counts against the listener's room until the request is answered.
    ///
    /// # Errors
    /// [`BodyError`]; its [`response`](BodyError::response) is the answer where the protocol has none of its own.
    pub async fn collect(mut self) -> Result<Bytes, BodyError> {
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(frame) = self.frame().await {
            // Trailers are not part of the body.
            let Ok(data) = frame?.into_data() else {
                continue;
            };
            if !self.in_flight.take_room(data.len()) {
                self.stats.refuse(Refusal::Overload);
                return Err(BodyError::Busy);
            }
            if first.is_empty() {
                first = data;
            } else {
                if rest.is_empty() {
                    rest.extend_from_slice(&first);
                }
                rest.extend_from_slice(&data);
            }
        }
        Ok(if rest.is_empty() {
            first
        } else {
            rest.freeze()
        })
    }

    /// Reads a body that nobody wants, if it says that it is no longer than `most`: an answer to a request that was read
    /// leaves its connection open, which costs less than the next connection would.
    pub async fn discard(mut self, most: u64) {
        if self
            .incoming
            .size_hint()
            .upper()
            .is_none_or(|len| len > most)
        {
            return;
        }
        while let Some(Ok(_)) = self.frame().await {}
    }

    fn judge(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, BodyError> {
        self.read += frame.data_ref().map_or(0, Bytes::len);
        if self.read > self.limit {
            self.stats.refuse(Refusal::BodySize);
            return Err(BodyError::TooLarge { limit: self.limit });
        }
        Ok(frame)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        // A length that is told and too large is not waited for, nor does a client that asks first hear `100`.
        if this.read == 0 && this.incoming.size_hint().lower() > this.limit as u64 {
            this.stats.refuse(Refusal::BodySize);
            return Poll::Ready(Some(Err(BodyError::TooLarge { limit: this.limit })));
        }
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.clock.arrived();
                Poll::Ready(Some(this.judge(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(BodyError::Broken(error)))),
            Poll::Ready(None) => {
                this.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending if this.clock.expired(cx) => {
                this.stats.refuse(Refusal::BodyTime);
                Poll::Ready(Some(Err(BodyError::TooSlow)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if !self.ended && !self.incoming.is_end_stream() {
            self.in_flight.activity().leave_unread();
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body")
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

impl Clock {
    fn arrived(&mut self) {
        if let Some((_, since)) = &mut self.waiting {
            *since = Instant::now();
        }
    }

    fn expired(&mut self, cx: &mut Context<'_>) -> bool {
        let (first, since) = *self.waiting.get_or_insert_with(|| {
            let now = Instant::now();
            (now, now)
        });
        let deadline = (since + self.idle).min(first + self.whole);
        self.timer.expired(deadline, cx)
    }
}

impl BodyError {
    /// Its HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// A plain-text answer.
    pub fn response(&self) -> Response<Full<Bytes>> {
        plain(self.status(), &self.to_string())
    }
}

/// A plain-text answer with one sentence.
pub(crate) fn plain(status: StatusCode, sentence: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{sentence}\n"))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    response
}
