//! The journal's records as a recovery applies them: what is none is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use powerqueue_engine::{Epoch, Limits, Millis, Recovery};

fuzz_target!(|data: &[u8]| {
    let mut recovery = Recovery::new(0, Epoch(1), Limits::UNLIMITED, Millis(0));
    if recovery.apply(data, &[]).is_ok() {
        recovery.finish(Millis(1), true);
    }
});
