//! How many handshakes are worked on at once, over all listeners.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// For how long a handshake may keep its place. What is costly about it, our signature, is done in its first moment;
/// the rest is waiting for the client, and clients that never answer must not keep others out.
const PLACE: Duration = Duration::from_secs(1);

/// Places for handshakes. Clones share them.
#[derive(Clone, Debug)]
pub struct Handshakes(Arc<Semaphore>);

impl Handshakes {
    /// So many places, at least one.
    pub fn new(places: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            places.clamp(1, Semaphore::MAX_PERMITS),
        )))
    }

    /// Waits for a place, then for the handshake, which gives its place back when it is done or after a second.
    pub(crate) async fn with_place<F: Future>(&self, handshake: F) -> F::Output {
        let mut handshake = pin!(handshake);
        {
            let _place = self.0.acquire().await;
            if let Ok(done) = tokio::time::timeout(PLACE, &mut handshake).await {
                return done;
            }
        }
        handshake.await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_handshake_waits_until_another_one_ends() {
        let places = Handshakes::new(2);
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let mut first = pin!(places.with_place(ended));
        let mut second = pin!(places.with_place(pending::<()>()));
        let mut third = pin!(places.with_place(ready(3)));
        tokio::select! {
            biased;
            _ = &mut first => unreachable!(),
            () = &mut second => unreachable!(),
            _ = &mut third => unreachable!("there was a third place"),
            () = tokio::task::yield_now() => {}
        }
        end.send(()).unwrap();
        let started = Instant::now();
        first.await.unwrap();
        assert_eq!(third.await, 3);
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_keeps_its_place_for_a_second() {
        let places = Handshakes::new(1);
        let mut silent = pin!(places.with_place(pending::<()>()));
        let mut next = pin!(places.with_place(ready(())));
        let started = Instant::now();
        tokio::select! {
            biased;
            () = &mut silent => unreachable!(),
            () = &mut next => {}
        }
        assert_eq!(started.elapsed(), PLACE);
    }
}
