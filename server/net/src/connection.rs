//! One connection: its handshake, its requests, its end.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, Version, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::activity::{Activity, BodyRoom, InFlight};
use crate::body::{Body, BodyError, plain};
use crate::drain::Drain;
use crate::guarded::Guarded;
use crate::serve::Request;
use crate::settings::Settings;
use crate::stats::Refusal;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What all connections of a listener share.
pub(crate) struct Shared<H> {
    pub(crate) settings: Settings,
    handler: H,
    http: Builder<TokioExecutor>,
    requests: Arc<Semaphore>,
    room: Arc<BodyRoom>,
}

impl<H> Shared<H> {
    pub(crate) fn new(settings: Settings, handler: H) -> Self {
        let sizes = &settings.sizes;
        let mut http = Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            // The header's deadline is kept by `Guarded`, which can tell a slow header from a resting connection.
            .header_read_timeout(None)
            .max_buf_size(sizes.header)
            .max_headers(sizes.header_fields);
        http.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(settings.deadlines.ping)
            .keep_alive_timeout(settings.deadlines.ping)
            .max_concurrent_streams(sizes.streams)
            .max_pending_accept_reset_streams(20)
            .max_local_error_reset_streams(64)
            .max_header_list_size(16 << 10)
            .initial_stream_window_size(256 << 10)
            .initial_connection_window_size(1 << 20)
            .max_send_buf_size(400 << 10);
        Self {
            requests: Arc::new(Semaphore::new(sizes.requests.min(Semaphore::MAX_PERMITS))),
            room: Arc::new(BodyRoom::new(sizes.bodies)),
            http,
            handler,
            settings,
        }
    }
}

/// Serves a fresh connection until it ends.
pub(crate) async fn connection<H, F, B>(
    stream: TcpStream,
    peer: IpAddr,
    shared: Arc<Shared<H>>,
    drain: Drain,
) where
    H: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    // Answers are written whole; waiting for more to send only delays them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = shared.settings.tls.clone() else {
        return requests(stream, peer, shared, drain).await;
    };
    let limit = shared.settings.deadlines.handshake;
    match tokio::time::timeout(limit, tls.accept(stream)).await {
        Ok(Ok(stream)) => requests(stream, peer, shared, drain).await,
        Ok(Err(_)) | Err(_) => shared.settings.stats.refuse(Refusal::Handshake),
    }
}

async fn requests<S, H, F, B>(stream: S, peer: IpAddr, shared: Arc<Shared<H>>, mut drain: Drain)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let activity = Arc::new(Activity::new());
    let settings = &shared.settings;
    let guarded = Guarded::new(
        stream,
        Arc::clone(&activity),
        settings.deadlines.clone(),
        Arc::clone(&settings.stats),
    );
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        let activity = Arc::clone(&activity);
        async move { Ok::<_, Infallible>(answer(&shared, activity, peer, request).await) }
    });
    let mut connection = pin!(shared.http.serve_connection(TokioIo::new(guarded), service));
    // Either way to the end is polite: what was begun is answered, HTTP/1 says `Connection: close`, HTTP/2 GOAWAY.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = activity.idle(settings.deadlines.idle) => {}
        deadline = drain.signalled() => {
            tokio::select! {
                _ = connection.as_mut() => return,
                () = activity.begun() => {}
                () = tokio::time::sleep(first_request(deadline)) => {}
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    // Errors end the connection and concern nobody but the client.
    let _ = connection.await;
}

/// How long a connection that was accepted just before a drain may still bring its first request. It was accepted, so
/// nobody who takes over the socket will see it; and its request is on the way, since it was opened for one.
fn first_request(drained: Instant) -> Duration {
    let left = drained.saturating_duration_since(Instant::now());
    (left / 2).min(Duration::from_secs(2))
}

async fn answer<H, F, B>(
    shared: &Shared<H>,
    activity: Arc<Activity>,
    peer: IpAddr,
    request: http::Request<Incoming>,
) -> Response<Answer<Either<B, Full<Bytes>>>>
where
    H: Fn(Request) -> F,
    F: Future<Output = Response<B>>,
{
    let permit = Arc::clone(&shared.requests).try_acquire_owned().ok();
    let overloaded = permit.is_none();
    let in_flight = Arc::new(InFlight::new(activity, Arc::clone(&shared.room), permit));
    let version = request.version();
    shared.settings.stats.request();

    let (parts, incoming) = request.into_parts();
    let body = Body::new(incoming, &shared.settings, Arc::clone(&in_flight));
    let mut response = match admit(&shared.settings, overloaded, peer, parts, body) {
        Ok(request) => (shared.handler)(request).await.map(Either::Left),
        Err(Refused(status, sentence)) => plain(status, &sentence).map(Either::Right),
    };
    if version < Version::HTTP_2 && in_flight.activity().unread() {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response.map(|body| Answer {
        body,
        _in_flight: in_flight,
    })
}

/// An answer of the loop's own: a status and a sentence.
struct Refused(StatusCode, String);

impl From<BodyError> for Refused {
    fn from(error: BodyError) -> Self {
        Self(error.status(), error.to_string())
    }
}

/// What is refused before a front end sees it.
fn admit(
    settings: &Settings,
    overloaded: bool,
    peer: IpAddr,
    mut parts: http::request::Parts,
    body: Body,
) -> Result<Request, Refused> {
    let stats = &settings.stats;
    if overloaded {
        stats.refuse(Refusal::Overload);
        return Err(BodyError::Busy.into());
    }
    let tls = settings.tls.is_some();
    let client = settings
        .client
        .apply(peer, tls, &mut parts.headers)
        .map_err(|sentence| {
            stats.refuse(Refusal::ClientAddress);
            Refused(StatusCode::BAD_REQUEST, sentence.to_owned())
        })?;
    Ok(Request {
        parts,
        body,
        client,
    })
}

pin_project_lite::pin_project! {
    /// A response on its way out: the request counts as in flight until its last byte is handed to the socket.
    pub(crate) struct Answer<B> {
        #[pin]
        body: B,
        _in_flight: Arc<InFlight>,
    }
}

impl<B: HttpBody> HttpBody for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
