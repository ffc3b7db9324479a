//! The closed loop: so many clients, each with one operation under way, until a count or a time is reached.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use bytes::Bytes;
use powerqueue_node::Node;

use crate::{
    broker::{Target, send, take},
    process::Usage,
    spread::Latencies,
};

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Send a message.
    Send,
    /// Receive a message and delete it.
    Take,
}

impl Work {
    pub(crate) const BOTH: [Self; 2] = [Self::Send, Self::Take];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Take => "receive+delete",
        }
    }
}

/// When to stop, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) operations: u64,
    pub(crate) time: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) done: u64,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    pub(crate) latencies: Latencies,
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn cpu_micros_each(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.done as f64
    }
}

/// Drives the node. The n-th operation goes to the n-th target, round and round, so that what one run has sent the
/// next can take.
pub(crate) async fn drive(
    node: &Node,
    targets: &Arc<[Target]>,
    clients: usize,
    work: Work,
    bounds: Bounds,
) -> anyhow::Result<Outcome> {
    let content = Bytes::from(vec![b'x'; 1024]);
    let next = Arc::new(AtomicU64::new(0));
    let before = Usage::own()?;
    let started = Instant::now();
    let deadline = started + bounds.time;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (node, targets) = (node.clone(), Arc::clone(targets));
        let (content, next) = (content.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            let (mut done, mut latencies) = (0, Latencies::default());
            while Instant::now() < deadline {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= bounds.operations {
                    break;
                }
                let target = targets
                    .get(number as usize % targets.len().max(1))
                    .context("nothing to work on")?;
                let begun = Instant::now();
                let worked = match work {
                    Work::Send => send(&node, target, &content).await.map(|()| true)?,
                    Work::Take => take(&node, target).await?,
                };
                if worked {
                    latencies.add(begun.elapsed());
                    done += 1;
                }
            }
            anyhow::Ok((done, latencies))
        });
    }
    let (mut done, mut latencies) = (0, Latencies::default());
    while let Some(outcome) = tasks.join_next().await {
        let (some, theirs) = outcome??;
        done += some;
        latencies.merge(theirs);
    }
    Ok(Outcome {
        done,
        elapsed: started.elapsed(),
        cpu: Usage::own()?.cpu.saturating_sub(before.cpu),
        latencies,
    })
}
