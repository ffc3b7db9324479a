//! Handles: none is good that the key did not make, a changed or shortened one included.
#![no_main]

use libfuzzer_sys::fuzz_target;
use powerqueue_engine::{Claim, Epoch, HandleKey, Millis, QueueId, Seq, TenantId};

const SQS: u8 = 1;
const TENANT: TenantId = TenantId(1);

fuzz_target!(|data: &[u8]| {
    let key = HandleKey::new([7; 32]);
    let claim = Claim {
        queue: QueueId(1 << 20),
        seq: Seq(3),
        delivery: 4,
        epoch: Epoch(5),
    };
    let genuine = key.seal(SQS, TENANT, &claim, Millis(6));
    // The fuzzer sees what it is compared with, and so finds the genuine one.
    assert_eq!(key.open(SQS, TENANT, data).is_some(), data == genuine);
    let mut changed = genuine;
    for (byte, change) in changed.iter_mut().zip(data) {
        *byte ^= change;
    }
    assert_eq!(
        key.open(SQS, TENANT, &changed).is_some(),
        changed == genuine
    );
    let kept = data.len() % genuine.len();
    assert!(key.open(SQS, TENANT, &genuine[..kept]).is_none());
});
