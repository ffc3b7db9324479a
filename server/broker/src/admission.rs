//! The limits on client addresses: how the configuration reads to the judge, and what outlasts a restart.

use std::time::Duration;

use powerqueue_admission::{Admission, BadNetwork, Ladder, Network, Rate, Settings};
use powerqueue_node::Node;
use tokio::time::MissedTickBehavior;

use crate::config::{Cap, Limits};

/// How often forgotten addresses are swept out and new bans are saved.
const SWEEP: Duration = Duration::from_secs(5);

/// Key of the bans, among what is local to the node.
const BANS: &str = "node.bans";

/// The judge's settings.
///
/// # Errors
/// If an exempt network is none.
pub fn settings(limits: &Limits) -> Result<Settings, BadNetwork> {
    let per_second = |rate: Cap<u64>, burst: Cap<u64>| {
        rate.limit().map(|per| {
            let burst = burst.limit().unwrap_or(per);
            Rate::new(number(per), Duration::from_secs(1), number(burst))
        })
    };
    let count = |cap: Cap<u64>| cap.limit().map(number);
    let hourly = limits.new_tenants_per_hour.limit();
    Ok(Settings {
        requests: per_second(limits.requests_per_second, limits.requests_burst),
        requests_at_once: count(limits.requests_in_flight),
        streams: count(limits.streams),
        new_connections: per_second(
            limits.new_connections_per_second,
            limits.new_connections_burst,
        ),
        connections: count(limits.connections),
        new_tenants: hourly
            .map(|per| Rate::new(number(per), Duration::from_secs(3600), number(per))),
        bans: limits.ban_refusals.limit().map(|refusals| Ladder {
            refusals: number(refusals),
            counted_per_second: count(limits.ban_counted_per_second),
            lengths: limits
                .ban_lengths
                .iter()
                .map(|span| span.duration())
                .collect(),
            forgotten_after: limits.ban_forgotten_after.duration(),
        }),
        network_factors: [limits.ipv6_56_shares, limits.ipv6_48_shares],
        exempt: exempt(limits)?,
        ..Settings::OFF
    })
}

/// Who is not judged.
///
/// # Errors
/// If one of them is no network.
pub fn exempt(limits: &Limits) -> Result<Vec<Network>, BadNetwork> {
    limits
        .exempt_addresses
        .iter()
        .map(|text| text.parse())
        .collect()
}

fn number(figure: u64) -> u32 {
    u32::try_from(figure).unwrap_or(u32::MAX)
}

/// Takes up the bans from before a restart.
pub fn restore(admission: &Admission, node: &Node) {
    match node.store().get_local(BANS) {
        Ok(Some(bans)) => admission.restore(&bans),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the bans from before cannot be read"),
    }
}

/// Keeps the bans for the next start, if there are new ones. Blocks for a write to the disk.
pub fn save(admission: &Admission, node: &Node) {
    if let Some(bans) = admission.save()
        && let Err(error) = node.store().put_local(BANS, Some(&bans))
    {
        tracing::warn!(%error, "the bans cannot be saved");
    }
}

/// Sweeps and saves every few seconds, until it is dropped.
pub async fn keep(admission: Admission, node: Node) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (admission, node) = (admission.clone(), node.clone());
        let swept = tokio::task::spawn_blocking(move || {
            admission.sweep();
            save(&admission, &node);
        });
        if let Err(error) = swept.await {
            tracing::error!(%error, "sweeping the limits on addresses failed");
        }
    }
}
