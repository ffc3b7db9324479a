//! One commit as bytes: encoding, and a parser that trusts nothing.
//!
//! ```text
//! header 64   magic, flags, position, segment nonce, generation, group count, meta length, bodies length,
//!             synced_through, high water, CRC of the table, CRC of the header
//! table       one entry of 32 a group: shard, flags, epoch, op, records length, body count, first body, CRC of the meta
//! metas       a group's body lengths (u32 each, ELIDED for a body left out), then its records
//! bodies      each after 8 bytes of its own: length, CRC over position, length and bytes
//! padding     zeros to a multiple of 8
//! ```
//!
//! All numbers are little-endian, all checksums CRC32C. The header names the frame's own position and its segment's
//! random nonce, so that neither zeros, nor recycled bytes, nor a client's body that imitates a frame can parse. The
//! bodies come last and carry their own checksums, so that replay need not touch them and a cold read needs nothing
//! else. A frame is valid whole or not at all; parsing allocates nothing.

use bytes::Bytes;

use crate::group::{BodyRef, Epoch, Position, ShardId};

/// The length of a frame's header.
pub(crate) const HEADER: usize = 64;
/// What precedes each body.
pub(crate) const BODY_PREFIX: usize = 8;
/// What a frame takes at most beyond its groups.
pub(crate) const OVERHEAD: u64 = HEADER as u64 + ALIGN;
/// Frames begin at multiples of this.
pub(crate) const ALIGN: u64 = 8;

const MAGIC: [u8; 4] = *b"PQF1";
const ENTRY: usize = 32;
const ELIDED: u32 = u32::MAX;

/// What a frame says about itself and about the log before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Its own place.
    pub(crate) position: u64,
    /// Its segment's nonce.
    pub(crate) nonce: u64,
    /// The opening of the store that wrote it.
    pub(crate) generation: u32,
    /// Groups in it.
    pub(crate) count: u32,
    /// Bytes of the table and the metas.
    pub(crate) meta_len: u32,
    /// Bytes of the bodies with their prefixes.
    pub(crate) bodies_len: u32,
    /// Everything before this was on the disk when the frame was written.
    pub(crate) synced_through: u64,
    /// The largest hint of any group so far.
    pub(crate) high_water: u64,
    table_crc: u32,
}

impl Header {
    /// Reads a header that should stand at `position` in the segment with `nonce` (`None`: in whatever segment).
    pub(crate) fn parse(
        bytes: &[u8],
        position: u64,
        nonce: Option<u64>,
        check_crc: bool,
    ) -> Option<Self> {
        let bytes: &[u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
        if bytes[..4] != MAGIC {
            return None;
        }
        if check_crc && crc32c::crc32c(&bytes[..60]) != u32_at(bytes, 60)? {
            return None;
        }
        let header = Self {
            position: u64_at(bytes, 8)?,
            nonce: u64_at(bytes, 16)?,
            generation: u32_at(bytes, 24)?,
            count: u32_at(bytes, 28)?,
            meta_len: u32_at(bytes, 32)?,
            bodies_len: u32_at(bytes, 36)?,
            synced_through: u64_at(bytes, 40)?,
            high_water: u64_at(bytes, 48)?,
            table_crc: u32_at(bytes, 56)?,
        };
        let table = u64::from(header.count) * ENTRY as u64;
        let sane = header.position == position
            && nonce.is_none_or(|nonce| header.nonce == nonce)
            && header.synced_through <= position
            && table <= u64::from(header.meta_len);
        sane.then_some(header)
    }

    /// The whole frame's length, padding included.
    pub(crate) fn frame_len(&self) -> u64 {
        (HEADER as u64 + u64::from(self.meta_len) + u64::from(self.bodies_len))
            .next_multiple_of(ALIGN)
    }

    /// The position after the frame.
    pub(crate) fn end(&self) -> u64 {
        self.position + self.frame_len()
    }
}

/// One group, as it goes into a frame.
pub(crate) struct Outgoing<'a> {
    pub(crate) shard: ShardId,
    pub(crate) epoch: Epoch,
    pub(crate) op: u64,
    pub(crate) records: &'a [u8],
    /// `None` for an elided body.
    pub(crate) bodies: Vec<Option<Bytes>>,
}

impl Outgoing<'_> {
    fn meta_len(&self) -> usize {
        self.bodies.len() * 4 + self.records.len()
    }

    fn bodies_len(&self) -> usize {
        let kept = self.bodies.iter().flatten();
        kept.map(|body| BODY_PREFIX + body.len()).sum()
    }
}

/// The length that [`encode`] will produce.
pub(crate) fn encoded_len(groups: &[Outgoing<'_>]) -> u64 {
    let content: usize = groups
        .iter()
        .map(|group| ENTRY + group.meta_len() + group.bodies_len())
        .sum();
    ((HEADER + content) as u64).next_multiple_of(ALIGN)
}

/// Appends the frame to `out` and says where each group's bodies will lie. Of `header`, the caller's are `position`,
/// `nonce`, `generation`, `synced_through` and `high_water`; the rest is computed.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    place: Place,
    groups: &[Outgoing<'_>],
) -> Vec<Vec<Option<BodyRef>>> {
    let start = out.len();
    let table_len = groups.len() * ENTRY;
    let meta_len = table_len + groups.iter().map(Outgoing::meta_len).sum::<usize>();
    let bodies_len: usize = groups.iter().map(Outgoing::bodies_len).sum();
    out.resize(start + HEADER + table_len, 0);

    let mut entry = start + HEADER;
    let mut first_body = 0;
    for group in groups {
        let meta = out.len();
        for body in &group.bodies {
            let len = body.as_ref().map_or(ELIDED, |body| body.len() as u32);
            out.extend_from_slice(&len.to_le_bytes());
        }
        out.extend_from_slice(group.records);
        let crc = crc32c::crc32c(&out[meta..]);
        put(out, entry, &group.shard.0.to_le_bytes());
        put(out, entry + 4, &group.epoch.0.to_le_bytes());
        put(out, entry + 8, &group.op.to_le_bytes());
        put(out, entry + 16, &(group.records.len() as u32).to_le_bytes());
        put(out, entry + 20, &(group.bodies.len() as u32).to_le_bytes());
        put(out, entry + 24, &(first_body as u32).to_le_bytes());
        put(out, entry + 28, &crc.to_le_bytes());
        entry += ENTRY;
        first_body += group.bodies_len();
    }

    let mut places = Vec::with_capacity(groups.len());
    for group in groups {
        let mut refs = Vec::with_capacity(group.bodies.len());
        for body in &group.bodies {
            refs.push(body.as_ref().map(|body| {
                let at = BodyRef {
                    position: Position(place.position + (out.len() - start + BODY_PREFIX) as u64),
                    len: body.len() as u32,
                };
                out.extend_from_slice(&at.len.to_le_bytes());
                out.extend_from_slice(&body_crc(at, body).to_le_bytes());
                out.extend_from_slice(body);
                at
            }));
        }
        places.push(refs);
    }
    let len = (out.len() - start).next_multiple_of(ALIGN as usize);
    out.resize(start + len, 0);

    let table_crc = crc32c::crc32c(&out[start + HEADER..start + HEADER + table_len]);
    put(out, start, &MAGIC);
    put(out, start + 8, &place.position.to_le_bytes());
    put(out, start + 16, &place.nonce.to_le_bytes());
    put(out, start + 24, &place.generation.to_le_bytes());
    put(out, start + 28, &(groups.len() as u32).to_le_bytes());
    put(out, start + 32, &(meta_len as u32).to_le_bytes());
    put(out, start + 36, &(bodies_len as u32).to_le_bytes());
    put(out, start + 40, &place.synced_through.to_le_bytes());
    put(out, start + 48, &place.high_water.to_le_bytes());
    put(out, start + 56, &table_crc.to_le_bytes());
    let header_crc = crc32c::crc32c(&out[start..start + 60]);
    put(out, start + 60, &header_crc.to_le_bytes());
    places
}

/// Where a frame goes and what it claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) position: u64,
    pub(crate) nonce: u64,
    pub(crate) generation: u32,
    pub(crate) synced_through: u64,
    pub(crate) high_water: u64,
}

/// A frame whose header and table hold; its groups may still be damaged, one by one.
pub(crate) struct Frame<'a> {
    header: Header,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// `bytes` begin with the header. `None` if they are too short or the table is damaged.
    pub(crate) fn new(header: Header, bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.get(..usize::try_from(header.frame_len()).ok()?)?;
        let table = bytes.get(HEADER..HEADER + header.count as usize * ENTRY)?;
        (crc32c::crc32c(table) == header.table_crc).then_some(Self { header, bytes })
    }

    /// The groups in order.
    pub(crate) fn groups(&self) -> Groups<'a> {
        Groups {
            header: self.header,
            bytes: self.bytes,
            next: 0,
            meta: HEADER + self.header.count as usize * ENTRY,
        }
    }

    /// Whether every group and every body is as it was written.
    pub(crate) fn intact(&self) -> bool {
        self.groups().all(|group| match group {
            Ok(group) => group.bodies().all(|body| match body {
                None => true,
                Some(at) => self
                    .slice(at)
                    .is_some_and(|bytes| check_body(at, bytes).is_some()),
            }),
            Err(_) => false,
        })
    }

    /// A body of this frame with its prefix.
    fn slice(&self, at: BodyRef) -> Option<&'a [u8]> {
        let offset = usize::try_from(at.position.0.checked_sub(self.header.position)?).ok()?;
        self.bytes
            .get(offset.checked_sub(BODY_PREFIX)?..offset.checked_add(at.len as usize)?)
    }
}

/// A group as it came out of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) shard: ShardId,
    pub(crate) epoch: Epoch,
    pub(crate) op: u64,
    pub(crate) records: &'a [u8],
    lengths: &'a [u8],
    /// Where its first body's prefix lies.
    first_body: u64,
}

impl<'a> Incoming<'a> {
    /// Where its bodies lie; `None` for one that was left out.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = Option<BodyRef>> + use<'a> {
        let mut at = self.first_body;
        self.lengths.chunks_exact(4).map(move |len| {
            let len = u32_at(len, 0).unwrap_or(ELIDED);
            (len != ELIDED).then(|| {
                let position = Position(at + BODY_PREFIX as u64);
                at = position.0 + u64::from(len);
                BodyRef { position, len }
            })
        })
    }
}

/// Walks a frame's groups. A damaged one comes out as its shard's number.
pub(crate) struct Groups<'a> {
    header: Header,
    bytes: &'a [u8],
    next: u32,
    meta: usize,
}

impl<'a> Iterator for Groups<'a> {
    type Item = Result<Incoming<'a>, ShardId>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.header.count {
            return None;
        }
        let at = HEADER + self.next as usize * ENTRY;
        self.next += 1;
        let entry = self.bytes.get(at..at + ENTRY)?;
        let shard = ShardId(u16::from_le_bytes([entry[0], entry[1]]));
        Some(self.group(shard, entry).ok_or(shard))
    }
}

impl<'a> Groups<'a> {
    fn group(&mut self, shard: ShardId, entry: &[u8]) -> Option<Incoming<'a>> {
        let records_len = u32_at(entry, 16)? as usize;
        let lengths_len = (u32_at(entry, 20)? as usize).checked_mul(4)?;
        let first_body = u64::from(u32_at(entry, 24)?);
        let start = self.meta;
        let metas_end = HEADER + self.header.meta_len as usize;
        let end = start.checked_add(lengths_len)?.checked_add(records_len)?;
        // The table's own checksum held, so the next group's place is known even if this one is damaged.
        self.meta = end;
        if end > metas_end {
            return None;
        }
        let meta = self.bytes.get(start..end)?;
        if crc32c::crc32c(meta) != u32_at(entry, 28)? {
            return None;
        }
        let (lengths, records) = meta.split_at(lengths_len);
        let kept = lengths
            .chunks_exact(4)
            .filter_map(|len| u32_at(len, 0))
            .filter(|len| *len != ELIDED);
        let bodies: u64 = kept.map(|len| BODY_PREFIX as u64 + u64::from(len)).sum();
        if first_body + bodies > u64::from(self.header.bodies_len) {
            return None;
        }
        Some(Incoming {
            shard,
            epoch: Epoch(u32_at(entry, 4)?),
            op: u64_at(entry, 8)?,
            records,
            lengths,
            first_body: self.header.position + metas_end as u64 + first_body,
        })
    }
}

/// The body in `bytes` (prefix first), if it is the one that was written at that place.
pub(crate) fn check_body(at: BodyRef, bytes: &[u8]) -> Option<&[u8]> {
    let (prefix, body) = bytes.split_at_checked(BODY_PREFIX)?;
    let right = u32_at(prefix, 0)? == at.len
        && body.len() == at.len as usize
        && u32_at(prefix, 4)? == body_crc(at, body);
    right.then_some(body)
}

/// The position is part of the checksum: a body that a disk returns from a wrong place is not taken for the right one.
fn body_crc(at: BodyRef, body: &[u8]) -> u32 {
    let mut place = [0; 12];
    place[..8].copy_from_slice(&at.position.0.to_le_bytes());
    place[8..].copy_from_slice(&at.len.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), body)
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLACE: Place = Place {
        position: 4096,
        nonce: 77,
        generation: 3,
        synced_through: 4000,
        high_water: 12,
    };

    fn sample() -> (Vec<u8>, Vec<Vec<Option<BodyRef>>>) {
        let groups = [
            Outgoing {
                shard: ShardId(1),
                epoch: Epoch(2),
                op: 9,
                records: b"records",
                bodies: vec![Some(Bytes::from_static(b"one")), None],
            },
            Outgoing {
                shard: ShardId(5),
                epoch: Epoch(4),
                op: 10,
                records: b"",
                bodies: vec![Some(Bytes::new()), Some(Bytes::from_static(b"three"))],
            },
        ];
        let mut out = Vec::new();
        let refs = encode(&mut out, PLACE, &groups);
        assert_eq!(out.len() as u64, encoded_len(&groups));
        (out, refs)
    }

    fn parse(bytes: &[u8]) -> Option<Frame<'_>> {
        Frame::new(Header::parse(bytes, 4096, Some(77), true)?, bytes)
    }

    #[test]
    fn what_was_encoded_comes_back() {
        let (bytes, refs) = sample();
        let frame = parse(&bytes).unwrap();
        assert!(frame.intact());
        assert_eq!(frame.header.end(), 4096 + bytes.len() as u64);
        let groups: Vec<_> = frame.groups().map(Result::unwrap).collect();
        assert_eq!(groups[0].records, b"records");
        assert_eq!((groups[1].shard, groups[1].op), (ShardId(5), 10));
        for (group, refs) in groups.iter().zip(&refs) {
            assert_eq!(group.bodies().collect::<Vec<_>>(), *refs);
        }
        let three = refs[1][1].unwrap();
        let body = check_body(three, frame.slice(three).unwrap()).unwrap();
        assert_eq!(body, b"three");
    }

    #[test]
    fn a_frame_of_another_place_or_segment_does_not_parse() {
        let (bytes, _) = sample();
        assert!(Header::parse(&bytes, 4104, Some(77), true).is_none());
        assert!(Header::parse(&bytes, 4096, Some(78), true).is_none());
        assert!(Header::parse(&[0; 64], 0, Some(0), true).is_none());
    }

    #[test]
    fn a_damaged_group_names_its_shard_and_spares_the_others() {
        let (mut bytes, _) = sample();
        bytes[HEADER + 2 * ENTRY + 10] ^= 1;
        let frame = parse(&bytes).unwrap();
        let groups: Vec<_> = frame.groups().collect();
        assert_eq!(*groups[0].as_ref().unwrap_err(), ShardId(1));
        assert_eq!(groups[1].as_ref().unwrap().shard, ShardId(5));
        assert!(!frame.intact());
    }

    proptest! {
        #[test]
        fn no_flipped_bit_goes_unnoticed(bit in 0usize..8 * 200) {
            let (mut bytes, _) = sample();
            let content = bytes.len() - 8;
            prop_assume!(bit / 8 < content);
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Reserved header bytes are covered by the header's checksum, reserved entry bytes by the table's.
            prop_assert!(!parse(&bytes).is_some_and(|frame| frame.intact()));
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), lie in any::<bool>()) {
            if lie && bytes.len() >= 64 {
                // Pass the outer checks, so that the inner ones are reached with nonsense.
                put(&mut bytes, 0, &MAGIC);
                put(&mut bytes, 8, &4096u64.to_le_bytes());
                put(&mut bytes, 16, &77u64.to_le_bytes());
                put(&mut bytes, 40, &0u64.to_le_bytes());
                let count = u32_at(&bytes, 28).unwrap() % 8;
                put(&mut bytes, 28, &count.to_le_bytes());
                let meta = u32_at(&bytes, 32).unwrap() % 400;
                put(&mut bytes, 32, &meta.to_le_bytes());
                let bodies = u32_at(&bytes, 36).unwrap() % 400;
                put(&mut bytes, 36, &bodies.to_le_bytes());
                let table = bytes.get(64..64 + count as usize * ENTRY).map_or(0, crc32c::crc32c);
                put(&mut bytes, 56, &table.to_le_bytes());
                let crc = crc32c::crc32c(&bytes[..60]);
                put(&mut bytes, 60, &crc.to_le_bytes());
            }
            if let Some(frame) = parse(&bytes) {
                for group in frame.groups().flatten() {
                    prop_assert!(group.bodies().count() * 4 <= bytes.len());
                }
                frame.intact();
            }
        }
    }
}
