//! Handles: none is good that the key did not make.
#![no_main]

use libfuzzer_sys::fuzz_target;
use powerqueue_engine::{HandleKey, TenantId};

fuzz_target!(|data: &[u8]| {
    assert!(HandleKey::new([7; 32]).open(1, TenantId(1), data).is_none());
});
