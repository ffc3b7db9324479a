//! A task that wakes itself goes on at once, unless others wait for the thread.
//!
//! hyper hands a request's body over through a channel of which the same task polls both ends, so that reading a body
//! wakes the task that reads. The runtime takes that for a wish to let others go first and rouses another thread for
//! what is left: on a quiet machine that costs more than a small request does. On a busy one it is worth it, as what
//! several requests ask for is then done in one go further down (the journal is written once for all of them).
//!
//! Which of the two it is, each thread learns from what came of it the last times.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicU8,
            Ordering::{AcqRel, Acquire},
        },
    },
    task::{Context, Poll, Wake, Waker},
};

use atomic_waker::AtomicWaker;

/// How often a task goes on at once before the others get their turn in any case.
const ROUNDS: usize = 8;
/// So many turns given to nobody outweigh any number of turns that somebody took.
const TRUST: u8 = 16;
/// One in so many times a thread finds out whether it is still alone.
const PROBE: u8 = 32;

/// Nobody polls; a wake goes to the runtime.
const RESTING: u8 = 0;
/// A wake is seen after the poll.
const POLLING: u8 = 1;
/// There was a wake since the poll began. Further ones change nothing.
const WOKEN: u8 = 2;

thread_local! {
    static CROWD: Crowd = const { Crowd::new() };
}

/// Runs a future that, woken while it is polled, goes on at once if the thread has nothing else to do.
pub(crate) async fn in_place<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let inner = Arc::new(Inner::default());
    let waker = Waker::from(Arc::clone(&inner));
    let mut given = None;
    poll_fn(|context| {
        CROWD.with(|crowd| crowd.enter(given.take()));
        inner.task.register(context.waker());
        for _ in 0..ROUNDS {
            inner.state.swap(POLLING, AcqRel);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Poll::Ready(output);
            }
            let rests = inner
                .state
                .compare_exchange(POLLING, RESTING, AcqRel, Acquire);
            if rests.is_ok() {
                return Poll::Pending;
            }
            given = CROWD.with(Crowd::others_first);
            if given.is_some() {
                break;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// A turn given to others: on which thread, and its count of polls by then.
struct Turn {
    thread: usize,
    polls: u32,
}

/// What a thread knows about how busy it is.
struct Crowd {
    /// Polls of any task.
    polls: Cell<u32>,
    /// Above zero: when a task let others go first, some did.
    worth: Cell<u8>,
    /// Times that a task went on at once.
    kept: Cell<u8>,
}

impl Crowd {
    const fn new() -> Self {
        Self {
            polls: Cell::new(0),
            worth: Cell::new(0),
            kept: Cell::new(0),
        }
    }

    /// A task is polled, which has let others go first or not.
    fn enter(&self, turn: Option<Turn>) {
        let polls = self.polls.get();
        self.polls.set(polls.wrapping_add(1));
        // A thread that took the task over from another says nothing of either.
        if let Some(turn) = turn.filter(|turn| turn.thread == self.thread()) {
            let worth = self.worth.get();
            self.worth.set(if polls == turn.polls {
                worth.saturating_sub(1)
            } else {
                TRUST.min(worth + 1)
            });
        }
    }

    /// Whether a task that could go on lets others go first.
    fn others_first(&self) -> Option<Turn> {
        self.kept.set((self.kept.get() + 1) % PROBE);
        let gives = self.worth.get() > 0 || self.kept.get() == 0;
        gives.then(|| Turn {
            thread: self.thread(),
            polls: self.polls.get(),
        })
    }

    fn thread(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

#[derive(Default)]
struct Inner {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, AcqRel) == RESTING {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, AcqRel);
        }
    }

    fn poll_once<F: Future>(future: std::pin::Pin<&mut F>, count: &Arc<Count>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
    }

    /// Ready at its nth poll; wakes itself at those before.
    fn wakes_itself(mut polls: usize) -> impl Future<Output = ()> {
        poll_fn(move |context| {
            polls -= 1;
            if polls == 0 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn what_wakes_itself_goes_on_without_the_runtime() {
        let count = Arc::new(Count::default());
        let future = pin!(in_place(wakes_itself(ROUNDS)));
        assert_eq!(poll_once(future, &count), Poll::Ready(()));
        assert_eq!(count.0.load(Acquire), 0);
    }

    #[test]
    fn what_never_rests_lets_others_go_first() {
        let count = Arc::new(Count::default());
        let mut future = pin!(in_place(wakes_itself(2 * ROUNDS)));
        assert_eq!(poll_once(future.as_mut(), &count), Poll::Pending);
        assert_eq!(count.0.load(Acquire), 1);
        assert_eq!(poll_once(future, &count), Poll::Ready(()));
    }

    /// How often it takes the runtime to poll a task that wakes itself a few times, and does so again and again.
    fn turns(crowded: bool) -> usize {
        let count = Arc::new(Count::default());
        for _ in 0..10 * usize::from(PROBE) {
            let mut future = pin!(in_place(wakes_itself(3)));
            while poll_once(future.as_mut(), &count).is_pending() {
                if crowded {
                    assert!(poll_once(pin!(in_place(async {})), &count).is_ready());
                }
            }
        }
        count.0.load(Acquire)
    }

    #[test]
    fn others_go_first_only_where_there_are_others() {
        let alone = std::thread::spawn(|| turns(false)).join().unwrap();
        let crowded = std::thread::spawn(|| turns(true)).join().unwrap();
        let wakes = usize::from(PROBE) * 10 * 2;
        assert_eq!(alone, wakes / usize::from(PROBE));
        assert!(crowded > wakes * 9 / 10, "{crowded} of {wakes}");
    }

    #[test]
    fn a_wake_from_elsewhere_reaches_the_runtime_once() {
        let count = Arc::new(Count::default());
        let (wakers, seen) = std::sync::mpsc::channel::<Waker>();
        let mut future = pin!(in_place(poll_fn(move |context| {
            wakers.send(context.waker().clone()).unwrap();
            Poll::<()>::Pending
        })));
        for turn in 1..3 {
            assert_eq!(poll_once(future.as_mut(), &count), Poll::Pending);
            let waker = seen.recv().unwrap();
            waker.wake_by_ref();
            waker.wake();
            assert_eq!(count.0.load(Acquire), turn);
        }
    }
}
