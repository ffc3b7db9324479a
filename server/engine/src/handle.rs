//! Handles: claims that travel through clients, self-contained and authenticated.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::{
    ids::{Epoch, Millis, QueueId, Seq, TenantId},
    message::Claim,
};

/// A handle's length in bytes.
pub const HANDLE_BYTES: usize = SIGNED + TAG;

const CLAIM: usize = 24;
const SIGNED: usize = CLAIM + 8;
const TAG: usize = 16;

/// The node's secret for handles.
#[derive(Clone)]
pub struct HandleKey(Hmac<Sha256>);

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandleKey")
    }
}

impl HandleKey {
    /// A key from the node's secret.
    pub fn new(secret: [u8; 32]) -> Self {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&secret);
        Self(Hmac::<Sha256>::new(&block.into()))
    }

    /// The bytes of a handle for `claim`, delivered at that time, good in this protocol and tenant alone.
    pub fn seal(
        &self,
        protocol: u8,
        tenant: TenantId,
        claim: &Claim,
        delivered_at: Millis,
    ) -> [u8; HANDLE_BYTES] {
        let mut handle = [0; HANDLE_BYTES];
        handle[..8].copy_from_slice(&claim.queue.0.to_be_bytes());
        handle[8..16].copy_from_slice(&claim.seq.0.to_be_bytes());
        handle[16..20].copy_from_slice(&claim.delivery.to_be_bytes());
        handle[20..24].copy_from_slice(&claim.epoch.0.to_be_bytes());
        handle[CLAIM..SIGNED].copy_from_slice(&delivered_at.0.to_be_bytes());
        let tag = self.tag(protocol, tenant, &handle[..SIGNED]);
        handle[SIGNED..].copy_from_slice(&tag);
        handle
    }

    /// The claim and when it was delivered, if this key made the handle for that protocol and tenant.
    pub fn open(&self, protocol: u8, tenant: TenantId, handle: &[u8]) -> Option<(Claim, Millis)> {
        let handle: &[u8; HANDLE_BYTES] = handle.try_into().ok()?;
        let (signed, tag) = handle.split_at(SIGNED);
        if !bool::from(self.tag(protocol, tenant, signed).ct_eq(tag)) {
            return None;
        }
        let number = |from: usize, to: usize| {
            signed[from..to]
                .iter()
                .fold(0u64, |n, byte| n << 8 | u64::from(*byte))
        };
        let claim = Claim {
            queue: QueueId(number(0, 8)),
            seq: Seq(number(8, 16)),
            delivery: number(16, 20) as u32,
            epoch: Epoch(number(20, 24) as u32),
        };
        Some((claim, Millis(number(CLAIM, SIGNED))))
    }

    fn tag(&self, protocol: u8, tenant: TenantId, signed: &[u8]) -> [u8; TAG] {
        let mut mac = self.0.clone();
        mac.update(&[protocol]);
        mac.update(&tenant.0.to_be_bytes());
        mac.update(signed);
        let full = mac.finalize().into_bytes();
        let mut tag = [0; TAG];
        tag.copy_from_slice(&full[..TAG]);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_for_its_protocol_and_tenant() {
        let key = HandleKey::new([7; 32]);
        let claim = Claim {
            queue: QueueId(1 << 50),
            seq: Seq(3),
            delivery: 4,
            epoch: Epoch(5),
        };
        let handle = key.seal(1, TenantId(9), &claim, Millis(6));
        assert_eq!(key.open(1, TenantId(9), &handle), Some((claim, Millis(6))));
        assert_eq!(key.open(2, TenantId(9), &handle), None);
        assert_eq!(key.open(1, TenantId(8), &handle), None);
        assert_eq!(HandleKey::new([8; 32]).open(1, TenantId(9), &handle), None);
    }

    #[test]
    fn any_changed_or_missing_byte_is_refused() {
        let key = HandleKey::new([7; 32]);
        let claim = Claim {
            queue: QueueId(1),
            seq: Seq(3),
            delivery: 4,
            epoch: Epoch(5),
        };
        let handle = key.seal(1, TenantId(9), &claim, Millis(6));
        for at in 0..handle.len() {
            let mut forged = handle;
            forged[at] ^= 1;
            assert_eq!(key.open(1, TenantId(9), &forged), None, "byte {at}");
            assert_eq!(key.open(1, TenantId(9), &handle[..at]), None);
        }
    }
}
