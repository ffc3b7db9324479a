//! Random ids in the form of version 4 UUIDs.

use std::cell::RefCell;

const ID: usize = 16;

/// Random bytes for so many ids at a time: asking the kernel for each is a system call a message.
const AHEAD: usize = 32 * ID;

thread_local! {
    static RANDOM: RefCell<([u8; AHEAD], usize)> = const { RefCell::new(([0; AHEAD], AHEAD)) };
}

/// A new one.
pub fn random() -> u128 {
    let bytes = RANDOM.with_borrow_mut(|(random, used)| {
        if *used == AHEAD {
            if getrandom::fill(random).is_err() {
                // Only a kernel without its random device fails here; an id of zeros is not unique, and says so in the log.
                tracing::error!("the system gives no random bytes");
            }
            *used = 0;
        }
        let mut bytes = [0; ID];
        bytes.copy_from_slice(&random[*used..*used + ID]);
        *used += ID;
        bytes
    });
    let bits = u128::from_be_bytes(bytes);
    bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62
}

/// Its usual form.
pub fn text(id: u128) -> String {
    let hex = format!("{id:032x}");
    let groups = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_version_4_uuids() {
        let id = text(random());
        let groups: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert_eq!(id.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&id.as_bytes()[19]));
        let many: std::collections::HashSet<u128> = (0..10_000).map(|_| random()).collect();
        assert_eq!(many.len(), 10_000);
    }
}
