//! Tenants that nobody uses any more are deleted with everything that is theirs, and those that hold nothing make room
//! when there are nearly as many as there may be.
//!
//! Idle time is serving time: while the node is down nobody's clock runs. What was seen is journaled lazily, so that a
//! crash costs a tenant nothing but gives it a little longer.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use powerqueue_engine::Millis;
use tokio::time::MissedTickBehavior;

use crate::{
    Node, Tenant,
    catalog::{Activity, Catalog, Known},
    node::Inner,
};

/// How many tenants one turn looks at, so that the catalog is never locked for long.
const SLICE: usize = 100;
/// How many tenants one newcomer may have looked at to make room.
const LOOKS: usize = 16;
/// A tenant just seen is about to be used: it makes no room.
const FRESH: Millis = Millis(60_000);
/// How often the serving time is noted where nothing else is.
const NOTE: Duration = Duration::from_secs(600);

/// A connection of a tenant's. The tenant is not reaped until this is dropped.
#[derive(Debug)]
#[must_use = "the connection counts as closed when dropped"]
pub struct Connected {
    node: Node,
    activity: Arc<Activity>,
    name: Arc<str>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.node.0.see(&self.name, &self.activity);
        self.activity.disconnect();
    }
}

impl Node {
    /// Notes a connection that names a tenant, for as long as it is open; `None` without such a tenant.
    pub fn connected(&self, name: &str) -> Option<Connected> {
        let catalog = self.0.catalog.read();
        let known = catalog.get(name)?;
        known.activity.connect();
        Some(Connected {
            node: self.clone(),
            activity: Arc::clone(&known.activity),
            name: Arc::from(name),
        })
    }
}

/// Reaps and notes, for as long as the node lives.
pub(crate) async fn run(node: Weak<Inner>) {
    let Some((grain, turn)) = node.upgrade().map(|inner| inner.pace()) else {
        return;
    };
    let mut ticks = tokio::time::interval(turn);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut noted, mut saved) = (Millis::ZERO, Millis::ZERO);
    loop {
        ticks.tick().await;
        let Some(inner) = node.upgrade() else { return };
        let served = inner.served();
        if served.since(saved) >= grain {
            saved = served;
            inner.save_activity(grain);
        }
        if u128::from(served.since(noted).0) >= NOTE.as_millis() {
            noted = served;
            inner.note_served();
        }
        while inner.reap_some() {
            tokio::task::yield_now().await;
        }
    }
}

impl Inner {
    /// How long the node has served, over all its lives.
    pub(crate) fn served(&self) -> Millis {
        self.serving.now()
    }

    /// Notes that a tenant is in use.
    pub(crate) fn see(&self, name: &str, activity: &Activity) {
        if activity.see(self.served()) {
            self.touched.lock().push(Arc::from(name));
        }
    }

    /// How exactly the journal knows when tenants were seen, and how often it is looked whether one is to be reaped.
    fn pace(&self) -> (Millis, Duration) {
        let idle = self.options.tenant_idle;
        let grain = Millis((idle.0 / 168).clamp(100, 3_600_000));
        (grain, Duration::from_millis(grain.0.min(60_000)))
    }

    /// Journals the use of those that were used since the last time.
    pub(crate) fn save_activity(&self, grain: Millis) {
        let touched = std::mem::take(&mut *self.touched.lock());
        let mut later = Vec::new();
        for name in touched {
            let known = self.catalog.read().get(&name).cloned();
            let Some(Known { tenant, activity }) = known else {
                continue;
            };
            match (activity.to_save(grain), self.cell(&tenant)) {
                (Some(seen), Ok(cell)) => {
                    self.apply(cell, None, |tx| tx.see_tenant(tenant.id, seen));
                }
                _ => later.push(name),
            }
        }
        self.touched.lock().append(&mut later);
    }

    /// Journals how long the node has served.
    pub(crate) fn note_served(&self) {
        let served = self.served();
        if let Some(cell) = self.cells.first() {
            self.apply(cell, None, |tx| tx.serve(served));
        }
    }

    /// Reaps a slice of the tenants that have been idle for long enough; whether there may be more.
    fn reap_some(&self) -> bool {
        let idle = self.options.tenant_idle;
        let served = self.served();
        if idle == Millis::NEVER || served < idle {
            return false;
        }
        let before = served.since(idle);
        let mut budget = SLICE;
        let mut catalog = self.catalog.write();
        while let Some(place) = catalog.next_idle(before, &mut budget) {
            self.reap(&mut catalog, &place);
            self.reaped_idle.fetch_add(1, Ordering::Relaxed);
        }
        budget == 0
    }

    /// Lets the longest unseen of the tenants that hold nothing go, once there are nearly as many as there may be.
    pub(crate) fn make_room(&self, catalog: &mut Catalog) {
        let most = self.options.max_tenants;
        if (catalog.len() as u64) < most - most / 10 {
            return;
        }
        let Some(before) = self.served().0.checked_sub(FRESH.0) else {
            return;
        };
        let mut budget = LOOKS;
        while let Some(place) = catalog.next_to_yield(Millis(before), &mut budget) {
            let bare = catalog.get(&place.1).map(|known| known.tenant);
            if bare.is_some_and(|tenant| self.is_bare(&tenant)) {
                self.reap(catalog, &place);
                self.reaped_bare.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }

    fn is_bare(&self, tenant: &Tenant) -> bool {
        self.cell(tenant)
            .is_ok_and(|cell| self.apply(cell, None, |tx| tx.is_bare(tenant.id)).0)
    }

    /// Under the catalog's lock: whoever names the tenant afterwards makes a new one.
    fn reap(&self, catalog: &mut Catalog, place: &(Millis, Arc<str>)) {
        let Some(Known { tenant, .. }) = catalog.remove(place) else {
            return;
        };
        if let Ok(cell) = self.cell(&tenant) {
            // Nobody waits for it: a deletion that a crash loses is made again.
            let _ = self.apply(cell, None, |tx| tx.delete_tenant(tenant.id));
        }
    }
}
