//! Handles: claims that travel through clients, self-contained and authenticated.
use crate::{Claim, TenantId};

/// The node's secret for handles, in one protocol.
#[derive(Clone)]
pub struct HandleKey(#[allow(dead_code)] [u8; 32]);

impl HandleKey {
    /// A key from the node's secret.
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }
    /// The 40 bytes of a handle for `claim`, only good in this protocol and tenant.
    pub fn seal(&self, protocol: u8, tenant: TenantId, claim: &Claim) -> [u8; 40] {
        todo!()
    }
    /// The claim, if this key made the handle for that protocol and tenant.
    pub fn open(&self, protocol: u8, tenant: TenantId, handle: &[u8]) -> Option<Claim> {
        todo!()
    }
}
