//! A socket with a clock: ends what a silent, slow or unwilling peer would keep open.
//!
//! hyper's own header timer counts the time between two requests too, and its version sniffing has none at all.
//! Here the bytes themselves say which deadline holds: before the first one, within a header, or none while a
//! request is answered (its body has its own deadline) or the connection rests (its task watches that).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::activity::Activity;
use crate::settings::Deadlines;
use crate::stats::{Refusal, Stats};
use crate::timer::Timer;

const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How much of what a client still sends is thrown away after an early answer.
const LINGER_BYTES: usize = 8 << 20;

pub(crate) struct Guarded<S> {
    io: S,
    activity: Arc<Activity>,
    deadlines: Deadlines,
    stats: Arc<Stats>,
    phase: Phase,
    reading: Timer,
    writing: Timer,
    stalled_since: Option<Instant>,
    lingering: Option<Linger>,
}

enum Phase {
    /// The first bytes: so many are those of HTTP/2's preface.
    Opening {
        matched: usize,
        deadline: Instant,
    },
    Http1 {
        head: Option<Head>,
    },
    Http2,
}

/// A header has begun.
#[derive(Clone, Copy)]
struct Head {
    /// How many requests came before it; once there are more, the header is complete.
    after: u64,
    since: Instant,
}

struct Linger {
    deadline: Instant,
    left: usize,
}

impl<S> Guarded<S> {
    pub(crate) fn new(
        io: S,
        activity: Arc<Activity>,
        deadlines: Deadlines,
        stats: Arc<Stats>,
    ) -> Self {
        let deadline = Instant::now() + deadlines.first_byte;
        Self {
            io,
            activity,
            deadlines,
            stats,
            phase: Phase::Opening {
                matched: 0,
                deadline,
            },
            reading: Timer::default(),
            writing: Timer::default(),
            stalled_since: None,
            lingering: None,
        }
    }

    fn received(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Phase::Opening { matched, .. } = &mut self.phase {
            let expected = &HTTP2_PREFACE[*matched..];
            let common = expected.len().min(bytes.len());
            if expected[..common] != bytes[..common] {
                self.phase = Phase::Http1 { head: None };
            } else {
                *matched += common;
                if *matched == HTTP2_PREFACE.len() {
                    self.phase = Phase::Http2;
                }
            }
        }
        if let Phase::Http1 { head } = &mut self.phase {
            let state = self.activity.state();
            let known = head.is_some_and(|head| head.after == state.begun);
            if state.in_flight == 0 && !known {
                *head = Some(Head {
                    after: state.begun,
                    since: Instant::now(),
                });
            }
        }
    }

    fn read_deadline(&self) -> Option<(Instant, Refusal)> {
        match self.phase {
            Phase::Opening { deadline, .. } => Some((deadline, Refusal::FirstByte)),
            Phase::Http1 { head: Some(head) } => {
                let state = self.activity.state();
                let within = state.in_flight == 0 && state.begun == head.after;
                within.then(|| (head.since + self.deadlines.header, Refusal::Header))
            }
            Phase::Http1 { head: None } | Phase::Http2 => None,
        }
    }

    /// Passes a write's outcome on, unless the peer has taken nothing for too long.
    fn progress<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stalled_since = None;
            return outcome;
        }
        let since = *self.stalled_since.get_or_insert_with(Instant::now);
        if self.writing.expired(since + self.deadlines.write, cx) {
            self.stats.refuse(Refusal::Write);
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if let Poll::Ready(outcome) = Pin::new(&mut this.io).poll_read(cx, buf) {
            this.received(&buf.filled()[before..]);
            return Poll::Ready(outcome);
        }
        match this.read_deadline() {
            Some((deadline, why)) if this.reading.expired(deadline, cx) => {
                this.stats.refuse(why);
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            _ => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_write(cx, buf);
        this.progress(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.progress(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.io).poll_flush(cx);
        this.progress(cx, outcome)
    }

    /// Says that no more comes from us; then, if a body was left unread, swallows what the client still sends: closing
    /// a socket with unread bytes resets it, and a reset can overtake the answer.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingering.is_none() {
            let outcome = Pin::new(&mut this.io).poll_shutdown(cx);
            ready!(this.progress(cx, outcome))?;
            if !this.activity.unread() || matches!(this.phase, Phase::Http2) {
                return Poll::Ready(Ok(()));
            }
        }
        let linger = this.lingering.get_or_insert_with(|| Linger {
            deadline: Instant::now() + this.deadlines.linger,
            left: LINGER_BYTES,
        });
        let mut waste = [0; 8192];
        while linger.left > 0 {
            let mut buf = ReadBuf::new(&mut waste);
            match Pin::new(&mut this.io).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    linger.left = linger.left.saturating_sub(buf.filled().len());
                }
                Poll::Ready(_) => break,
                Poll::Pending if this.reading.expired(linger.deadline, cx) => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}
