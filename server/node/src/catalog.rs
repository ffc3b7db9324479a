//! Which tenants there are, where each lives, and when each was last in use.
//!
//! Use is noted on the tenant's own atomics, under the catalog's read lock. The order in which tenants may be reaped is
//! kept apart and follows late: an entry says when its tenant was seen as the entry was made, and whoever finds that
//! it was seen since puts it further back. So one tenant is looked at once in each idle time, and nothing scans all.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use powerqueue_engine::{Millis, Shard};

use crate::Tenant;

/// Tenants by name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    tenants: HashMap<Arc<str>, Known>,
    /// How many tenants each shard has.
    load: Vec<usize>,
    /// When each was seen, when it was last looked at.
    order: BTreeSet<(Millis, Arc<str>)>,
    /// From where room is looked for next.
    cursor: Option<(Millis, Arc<str>)>,
}

/// A tenant and its use.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) tenant: Tenant,
    pub(crate) activity: Arc<Activity>,
}

/// When a tenant was in use, in serving time.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    seen: AtomicU64,
    /// What the journal knows of it.
    saved: AtomicU64,
    /// It is among those to save.
    queued: AtomicBool,
    /// Open connections.
    connections: AtomicU32,
}

impl Catalog {
    /// The tenants of shards just recovered. One of which nothing is known was seen now.
    pub(crate) fn of(shards: &[Shard], served: Millis) -> Self {
        let mut catalog = Self {
            load: vec![0; shards.len()],
            ..Self::default()
        };
        for (number, shard) in shards.iter().enumerate() {
            for (name, id, account, seen) in shard.tenants() {
                let tenant = Tenant {
                    id,
                    account,
                    shard: number as u16,
                };
                let seen = if seen == Millis::ZERO { served } else { seen };
                catalog.add(Arc::clone(name), tenant, seen);
            }
        }
        catalog
    }

    pub(crate) fn len(&self) -> usize {
        self.tenants.len()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Known> {
        self.tenants.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Known)> {
        self.tenants.iter()
    }

    /// The shard with the fewest tenants.
    pub(crate) fn lightest(&self) -> usize {
        let lightest = self.load.iter().enumerate().min_by_key(|(_, load)| **load);
        lightest.map_or(0, |(shard, _)| shard)
    }

    pub(crate) fn add(&mut self, name: Arc<str>, tenant: Tenant, seen: Millis) {
        if let Some(load) = self.load.get_mut(usize::from(tenant.shard)) {
            *load += 1;
        }
        let activity = Arc::new(Activity {
            seen: AtomicU64::new(seen.0),
            saved: AtomicU64::new(seen.0),
            ..Activity::default()
        });
        self.order.insert((seen, Arc::clone(&name)));
        self.tenants.insert(name, Known { tenant, activity });
    }

    /// Takes out a tenant that stands in the order at that place.
    pub(crate) fn remove(&mut self, place: &(Millis, Arc<str>)) -> Option<Known> {
        self.order.remove(place);
        let known = self.tenants.remove(&place.1)?;
        if let Some(load) = self.load.get_mut(usize::from(known.tenant.shard)) {
            *load -= 1;
        }
        Some(known)
    }

    /// The next tenant that has not been seen since `before`, nor has a connection open. Looks at `budget` entries at most,
    /// and moves those back that turn out to be in use.
    pub(crate) fn next_idle(
        &mut self,
        before: Millis,
        budget: &mut usize,
    ) -> Option<(Millis, Arc<str>)> {
        while *budget > 0 {
            let place = self
                .order
                .first()
                .filter(|(seen, _)| *seen <= before)?
                .clone();
            *budget -= 1;
            if self.stays(&place) {
                return Some(place);
            }
        }
        None
    }

    /// The next candidate to make room for others, from where the last look ended: longest unseen first, not seen since
    /// `before`. Looks at `budget` entries at most.
    pub(crate) fn next_to_yield(
        &mut self,
        before: Millis,
        budget: &mut usize,
    ) -> Option<(Millis, Arc<str>)> {
        while *budget > 0 {
            *budget -= 1;
            let from = self.cursor.take().map_or(Bound::Unbounded, Bound::Excluded);
            let place = self
                .order
                .range((from, Bound::Unbounded))
                .next()
                .filter(|(seen, _)| *seen <= before)?
                .clone();
            self.cursor = Some(place.clone());
            if self.stays(&place) {
                return Some(place);
            }
        }
        None
    }

    /// Whether an entry is where it belongs; otherwise it is put there.
    fn stays(&mut self, place: &(Millis, Arc<str>)) -> bool {
        let Some(known) = self.tenants.get(&place.1) else {
            self.order.remove(place);
            return false;
        };
        let seen = known.activity.seen();
        if seen <= place.0 && known.activity.connections() == 0 {
            return true;
        }
        // With a connection open it is in use now, whenever it was last named.
        let seen = seen.max(Millis(place.0.0 + 1));
        self.order.remove(place);
        self.order.insert((seen, Arc::clone(&place.1)));
        false
    }
}

impl Activity {
    /// Notes use; whether the tenant is to be put among those to save.
    pub(crate) fn see(&self, served: Millis) -> bool {
        self.seen.fetch_max(served.0, Ordering::Relaxed);
        !self.queued.load(Ordering::Relaxed) && !self.queued.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn seen(&self) -> Millis {
        Millis(self.seen.load(Ordering::Relaxed))
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn connect(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn disconnect(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// What the journal must be told, if it is more than `grain` later than what it knows. Otherwise the tenant stays
    /// among those to save.
    pub(crate) fn to_save(&self, grain: Millis) -> Option<Millis> {
        let (seen, saved) = (self.seen(), Millis(self.saved.load(Ordering::Relaxed)));
        if seen.since(saved) < grain {
            return None;
        }
        self.queued.store(false, Ordering::Relaxed);
        self.saved.store(seen.0, Ordering::Relaxed);
        Some(seen)
    }
}
