//! The segments on the disk, and how much of each is still needed.
//!
//! A segment goes when no live body is in it AND its end is at or below every shard's checkpoint: its settlements and
//! entity changes concern older segments, and only a checkpoint makes them unnecessary.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use crate::{
    fs::File,
    group::{BodyRef, Position},
    segment::SegmentHeader,
};

/// A segment whose few live bodies are worth appending anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its first position.
    pub from: Position,
    /// The position after its last.
    pub to: Position,
    /// Bytes of live bodies in it.
    pub live_bytes: u64,
    /// Bytes that it occupies.
    pub bytes: u64,
}

/// All segments by base.
#[derive(Default)]
pub(crate) struct Segments(Mutex<BTreeMap<u64, Segment>>);

/// One segment.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) file: Arc<dyn File>,
    /// `None` while it is the newest.
    pub(crate) end: Option<u64>,
    pub(crate) bytes: u64,
    live_bytes: u64,
    live_bodies: u64,
    /// Part of it cannot be read: it is evidence, and stays.
    keep: bool,
}

impl Segment {
    pub(crate) fn new(
        header: SegmentHeader,
        file: Arc<dyn File>,
        end: Option<u64>,
        bytes: u64,
    ) -> Self {
        Self {
            header,
            file,
            end,
            bytes,
            live_bytes: 0,
            live_bodies: 0,
            keep: false,
        }
    }
}

/// What all segments hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) segments: usize,
    pub(crate) bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) live_bodies: u64,
}

impl Segments {
    pub(crate) fn add(&self, segment: Segment) {
        self.0.lock().insert(segment.header.base, segment);
    }

    pub(crate) fn seal(&self, base: u64, end: u64) {
        if let Some(segment) = self.0.lock().get_mut(&base) {
            segment.end = Some(end);
        }
    }

    pub(crate) fn snapshot(&self) -> Vec<Segment> {
        self.0.lock().values().cloned().collect()
    }

    /// The file that holds `at`, and its base.
    pub(crate) fn find(&self, at: BodyRef) -> Option<(Arc<dyn File>, u64)> {
        let map = self.0.lock();
        let (base, segment) = map.range(..=inside(&at)).next_back()?;
        let end = at.position.0.checked_add(u64::from(at.len))?;
        // The file's size bounds what a reader allocates, whatever the reference says.
        let limit = segment.end.unwrap_or(base + segment.bytes);
        let whole = end <= limit && u64::from(at.len) <= segment.bytes;
        whole.then(|| (segment.file.clone(), *base))
    }

    pub(crate) fn retain(&self, bodies: impl IntoIterator<Item = BodyRef>) {
        let mut map = self.0.lock();
        for body in bodies {
            if let Some((_, segment)) = map.range_mut(..=inside(&body)).next_back() {
                segment.live_bytes += u64::from(body.len);
                segment.live_bodies += 1;
            }
        }
    }

    pub(crate) fn release(&self, bodies: impl IntoIterator<Item = BodyRef>) {
        let mut map = self.0.lock();
        for body in bodies {
            if let Some((_, segment)) = map.range_mut(..=inside(&body)).next_back() {
                debug_assert!(segment.live_bodies > 0, "{body:?} was released twice");
                segment.live_bytes = segment.live_bytes.saturating_sub(u64::from(body.len));
                segment.live_bodies = segment.live_bodies.saturating_sub(1);
            }
        }
    }

    pub(crate) fn keep(&self, position: u64) {
        if let Some((_, segment)) = self.0.lock().range_mut(..=position).next_back() {
            segment.keep = true;
        }
    }

    /// Takes out the segments that nothing needs, given that every checkpoint has passed `applied`.
    pub(crate) fn take_dead(&self, applied: u64) -> Vec<u64> {
        let mut map = self.0.lock();
        let dead: Vec<u64> = map
            .iter()
            .filter(|(_, segment)| {
                !segment.keep
                    && segment.live_bodies == 0
                    && segment.end.is_some_and(|end| end <= applied)
            })
            .map(|(base, _)| *base)
            .collect();
        for base in &dead {
            map.remove(base);
        }
        dead
    }

    /// Sealed segments below every checkpoint of which at most `live_percent` is live, the emptiest first.
    pub(crate) fn candidates(&self, applied: u64, live_percent: u64) -> Vec<Candidate> {
        let map = self.0.lock();
        let mut found: Vec<Candidate> = map
            .iter()
            .filter(|(_, segment)| !segment.keep && segment.live_bodies > 0)
            .filter_map(|(base, segment)| {
                let end = segment.end.filter(|end| *end <= applied)?;
                Some(Candidate {
                    from: Position(*base),
                    to: Position(end),
                    live_bytes: segment.live_bytes,
                    bytes: segment.bytes,
                })
            })
            .filter(|c| c.live_bytes.saturating_mul(100) <= c.bytes.saturating_mul(live_percent))
            .collect();
        found.sort_by_key(|candidate| (candidate.live_bytes, candidate.from));
        found
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for segment in self.0.lock().values() {
            totals.segments += 1;
            totals.bytes += segment.bytes;
            totals.live_bytes += segment.live_bytes;
            totals.live_bodies += segment.live_bodies;
        }
        totals
    }
}

/// A position certainly in the body's segment: its prefix's. An empty body may itself begin where the segment ends.
fn inside(body: &BodyRef) -> u64 {
    body.position.0.saturating_sub(1)
}
