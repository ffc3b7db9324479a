//! What systemd is told. Without a service manager nothing happens.

use std::sync::Arc;
use std::time::Duration;

use powerqueue_net::Stats;
use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};

/// How often a long step asks for more time, and for how much of it.
const EXTEND_EVERY: Duration = Duration::from_secs(5);
const EXTEND_BY: Duration = Duration::from_secs(30);

/// Start-up is complete.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The broker is about to end.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Runs a step that may take long (a replay, a drain) and keeps asking for time until it is done.
pub async fn patiently<T>(step: impl Future<Output = T>) -> T {
    let mut ticks = interval(EXTEND_EVERY);
    let mut step = std::pin::pin!(step);
    loop {
        tokio::select! {
            done = &mut step => return done,
            _ = ticks.tick() => notify(&[extension(EXTEND_BY), NotifyState::Watchdog]),
        }
    }
}

/// Pings the watchdog for as long as every accept loop turns. A timer alone would only prove that timers work.
pub async fn watch(loops: Vec<Arc<Stats>>) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    let mut ticks = interval(limit / 3);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen: Vec<Option<u64>> = vec![None; loops.len()];
    loop {
        ticks.tick().await;
        let turned: Vec<Option<u64>> = loops.iter().map(|stats| Some(stats.turns())).collect();
        if turned.iter().zip(&seen).all(|(now, before)| now > before) {
            notify(&[NotifyState::Watchdog]);
            seen = turned;
        }
    }
}

fn extension(time: Duration) -> NotifyState<'static> {
    NotifyState::ExtendTimeoutUsec(u32::try_from(time.as_micros()).unwrap_or(u32::MAX))
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}
