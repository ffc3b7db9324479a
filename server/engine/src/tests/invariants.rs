//! What must hold of a shard after every step, whatever was done to it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    entry::State,
    ids::Millis,
    queue::Queue,
    shard::{Shard, settings_charge},
    slab::NONE,
};

/// Panics with what is wrong.
pub(super) fn check(shard: &Shard) {
    let mut live = BTreeSet::new();
    let mut refs: BTreeMap<u32, u32> = BTreeMap::new();
    let mut groups = BTreeSet::new();
    for (id, slot) in &shard.queue_slots {
        let queue = &shard.queues[*slot];
        assert_eq!(queue.id, *id);
        check_queue(shard, *slot, queue, &mut live, &mut refs, &mut groups);
    }
    let mut buried_groups = 0;
    for grave in &shard.graves {
        for (_, key) in grave.index.from(crate::Seq(0)) {
            assert!(live.insert(key), "an entry is buried and alive");
            *refs.entry(shard.entries[key].body).or_default() += 1;
        }
        buried_groups += grave.group_count();
    }
    assert_eq!(shard.entries.len(), live.len(), "entries leak");
    assert_eq!(shard.bodies.len(), refs.len(), "bodies leak");
    for (slot, refs) in &refs {
        assert_eq!(shard.bodies.refs(*slot), *refs, "a body's references");
    }
    assert_eq!(
        shard.groups.len(),
        groups.len() + buried_groups,
        "groups leak"
    );
    for key in shard.overlays.keys() {
        assert!(
            live.contains(key) && shard.entries[*key].overlaid,
            "overlays leak"
        );
    }
    assert_eq!(shard.queues.len(), shard.queue_slots.len(), "queues leak");
    check_tenants(shard);
    check_receivers(shard);
}

fn check_queue(
    shard: &Shard,
    slot: u32,
    queue: &Queue,
    live: &mut BTreeSet<u32>,
    refs: &mut BTreeMap<u32, u32>,
    groups: &mut BTreeSet<u32>,
) {
    let mut counts: BTreeMap<u8, u32> = BTreeMap::new();
    let mut bytes = 0;
    let mut ready: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
    let mut grouped: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (seq, key) in queue.index.from(crate::Seq(0)) {
        let entry = &shard.entries[key];
        assert_eq!((entry.seq, entry.queue), (seq, slot));
        assert_ne!(entry.state, State::Free);
        assert!(seq < queue.next_seq, "a sequence number ahead of its queue");
        assert!(live.insert(key), "an entry is in two queues");
        *refs.entry(entry.body).or_default() += 1;
        *counts.entry(entry.state as u8).or_default() += 1;
        bytes += u64::from(shard.bodies.charge(entry.body));
        assert_eq!(entry.overlaid, shard.overlays.contains_key(&key));
        assert_eq!(entry.group != NONE, queue.settings.groups.is_some());
        let change = entry.next_change();
        let set = shard.wheel.at(key).map_or(Millis::NEVER, Millis);
        assert_eq!(set, change, "the timer of {entry:?}");
        if entry.group != NONE {
            grouped.entry(entry.group).or_default().push(key);
            assert!(!entry.fresh);
        } else if entry.state == State::Ready {
            ready.entry(entry.priority).or_default().push(key);
        } else {
            assert!(!entry.fresh);
        }
    }
    assert_eq!(queue.bytes, bytes, "a queue's bytes");
    for state in [
        State::Held,
        State::Delayed,
        State::Ready,
        State::Leased,
        State::Deferred,
        State::Acked,
    ] {
        let truth = counts.get(&(state as u8)).copied().unwrap_or(0);
        assert_eq!(queue.count(state), truth, "the count of {state:?}");
    }
    for (priority, line) in queue.lines() {
        let (fresh, returned) = line.keys(&shard.entries);
        assert!(is_ascending(shard, &fresh), "the fresh list's order");
        assert!(fresh.iter().all(|key| shard.entries[*key].fresh));
        let mut all: Vec<u32> = fresh.into_iter().chain(returned).collect();
        all.sort_by_key(|key| shard.entries[*key].seq);
        assert_eq!(
            all,
            ready.remove(&priority).unwrap_or_default(),
            "the ready order"
        );
    }
    assert!(ready.is_empty(), "a ready message is in no line");
    let known = queue
        .rare()
        .map(|rare| rare.groups.slots())
        .unwrap_or_default();
    assert_eq!(known, grouped.keys().copied().collect::<BTreeSet<_>>());
    let mut available = BTreeSet::new();
    for (group, members) in &grouped {
        assert!(groups.insert(*group), "a group is in two queues");
        assert_eq!(
            shard.groups[*group].members(&shard.entries),
            *members,
            "a group's order"
        );
        let first = members
            .iter()
            .copied()
            .find(|key| shard.entries[*key].state != State::Acked);
        assert_eq!(shard.groups[*group].first(), first.unwrap_or(NONE));
        if first.is_some_and(|key| shard.entries[key].state == State::Ready) {
            available.insert(*group);
        }
    }
    let listed = queue
        .rare()
        .map(|rare| rare.groups.listed(&shard.groups))
        .unwrap_or_default();
    assert_eq!(listed, available, "the groups that can yield");
    assert_eq!(shard.sweeps(slot) > 0, shard.sweeping.contains(&slot));
    if let Some(rare) = queue.rare() {
        rare.dedup.check();
    }
}

fn is_ascending(shard: &Shard, keys: &[u32]) -> bool {
    keys.is_sorted_by_key(|key| shard.entries[*key].seq)
}

fn check_tenants(shard: &Shard) {
    for (id, tenant) in &shard.tenants {
        let queues = || {
            shard
                .queue_slots
                .values()
                .map(|slot| &shard.queues[*slot])
                .filter(|queue| queue.tenant == *id)
        };
        assert_eq!(tenant.bytes, queues().map(|queue| queue.bytes).sum::<u64>());
        let dedup = |queue: &Queue| queue.rare().map_or(0, |rare| rare.dedup.charge());
        assert_eq!(tenant.dedup_bytes, queues().map(dedup).sum::<u64>());
        let documents: usize = tenant
            .documents
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        let settings: u64 = queues().map(|queue| settings_charge(&queue.settings)).sum();
        assert_eq!(tenant.settings_bytes, settings + documents as u64);
        for queue in queues() {
            assert_eq!(
                tenant.queues.get(&queue.name),
                Some(&queue.id),
                "a queue without its name"
            );
        }
        assert_eq!(tenant.queues.len(), queues().count());
        let receivers = shard.receivers.values().filter(|r| r.tenant == *id).count();
        assert_eq!(tenant.receivers, receivers as u64);
        assert_eq!(shard.tenant_names.get(&tenant.name), Some(id));
        assert!(tenant.tombstones.len() as u64 <= shard.limits.tombstones);
    }
    assert_eq!(shard.tenant_names.len(), shard.tenants.len());
}

fn check_receivers(shard: &Shard) {
    let next_due = shard.next_due();
    for (slot, queue) in shard
        .queue_slots
        .values()
        .map(|slot| (slot, &shard.queues[*slot]))
    {
        let Some(rare) = queue.rare() else { continue };
        let mut standing: Vec<_> = rare
            .waiting
            .iter()
            .filter(|id| rare.receivers.contains(id))
            .collect();
        let count = standing.len();
        standing.sort();
        standing.dedup();
        assert_eq!(standing.len(), count, "a receiver stands twice in the line");
        for id in &rare.receivers {
            let receiver = shard.receivers[id];
            assert_eq!(receiver.queue, *slot);
            assert_eq!(
                receiver.credit > 0,
                standing.contains(&id),
                "credit and the line"
            );
        }
        let has_room = queue.count(State::Leased) < queue.settings.max_leased;
        let has_message = queue.first(&shard.entries, &shard.groups).is_some();
        if count > 0 && has_room && has_message {
            assert!(
                shard.unserved.contains(slot),
                "a message and a receiver wait for each other"
            );
            assert_eq!(next_due, Some(shard.now));
        }
    }
    let known: usize = shard
        .queue_slots
        .values()
        .filter_map(|slot| shard.queues[*slot].rare())
        .map(|rare| rare.receivers.len())
        .sum();
    assert_eq!(shard.receivers.len(), known);
}

/// Nothing is left over once everything was cleared.
pub(super) fn check_empty(shard: &Shard) {
    let stats = shard.stats();
    assert_eq!((stats.tenants, stats.queues, stats.entries), (0, 0, 0));
    assert_eq!(
        (stats.bodies, stats.pinned_bytes, stats.receivers),
        (0, 0, 0)
    );
    assert_eq!(shard.groups.len(), 0);
    assert!(shard.overlays.is_empty() && shard.graves.is_empty());
    assert!(shard.settings.is_empty(), "settings leak");
    assert!(shard.sweeping.is_empty() && shard.unserved.is_empty());
    assert_eq!(shard.wheel.next(), None);
    assert_eq!(shard.wheel.memory(), 0, "the wheel keeps memory");
}
