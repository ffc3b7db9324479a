//! The settings of one queue that only some protocol knows, a block a protocol, side by side in the one opaque
//! field that the engine keeps (`QueueSettings::protocol`).
//!
//! A queue belongs to every interface: SQS tags a queue that Azure made, and neither may lose the other's block.

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::{get_bytes, get_count, get_u8, put_bytes, put_varint};
use crate::{DecodeError, Protocol};

const VERSION: u8 = 1;
const MAX_BLOCKS: u64 = 16;

/// The block of `protocol`, if there is one. Bytes that are no set of blocks hold none.
pub fn get(blocks: &[u8], protocol: Protocol) -> Option<Bytes> {
    let found = parse(blocks)
        .ok()?
        .into_iter()
        .find(|(p, _)| *p == protocol as u8);
    found.map(|(_, block)| block)
}

/// The blocks with that of `protocol` replaced; an empty block removes it. Every other block is kept.
pub fn set(blocks: &[u8], protocol: Protocol, block: &[u8]) -> Vec<u8> {
    let mut all = parse(blocks).unwrap_or_default();
    all.retain(|(p, _)| *p != protocol as u8);
    if !block.is_empty() {
        all.push((protocol as u8, Bytes::copy_from_slice(block)));
    }
    if all.is_empty() {
        return Vec::new();
    }
    all.sort_by_key(|(p, _)| *p);
    let mut out = BytesMut::new();
    out.put_u8(VERSION);
    put_varint(&mut out, all.len() as u64);
    for (number, block) in all {
        out.put_u8(number);
        put_bytes(&mut out, &block);
    }
    out.into()
}

fn parse(blocks: &[u8]) -> Result<Vec<(u8, Bytes)>, DecodeError> {
    let mut input = Bytes::copy_from_slice(blocks);
    if input.is_empty() {
        return Ok(Vec::new());
    }
    if get_u8(&mut input)? != VERSION {
        return Err(DecodeError::Unknown("version"));
    }
    let mut all = Vec::new();
    for _ in 0..get_count(&mut input, MAX_BLOCKS)? {
        all.push((get_u8(&mut input)?, get_bytes(&mut input)?));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_protocols_block_leaves_the_others_alone() {
        let blocks = set(&[], Protocol::AzureQueue, b"metadata");
        let blocks = set(&blocks, Protocol::Sqs, b"tags");
        let blocks = set(&blocks, Protocol::Sqs, b"more tags");
        assert_eq!(
            get(&blocks, Protocol::AzureQueue).as_deref(),
            Some(&b"metadata"[..])
        );
        assert_eq!(
            get(&blocks, Protocol::Sqs).as_deref(),
            Some(&b"more tags"[..])
        );
        let blocks = set(&blocks, Protocol::AzureQueue, b"");
        assert_eq!(get(&blocks, Protocol::AzureQueue), None);
        assert_eq!(set(&blocks, Protocol::Sqs, b""), Vec::<u8>::new());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = get(&bytes, Protocol::Sqs);
            let _ = set(&bytes, Protocol::Sqs, b"x");
        }
    }
}
