//! A timer for code that polls: made when first needed, moved when its deadline moves.

use std::pin::Pin;
use std::task::Context;

use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Default)]
pub(crate) struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Whether the deadline has passed. If not, the task is woken when it does.
    pub(crate) fn expired(&mut self, deadline: Instant, cx: &mut Context<'_>) -> bool {
        let sleep = self
            .0
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        sleep.as_mut().poll(cx).is_ready()
    }
}
