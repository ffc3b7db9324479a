//! A simulated disk with every misbehaviour that a real one is allowed, and a few that it is not.
//!
//! A file has two contents: the page cache's, which every read sees, and the platter's. A write goes to the cache and
//! waits; a sync moves what waits to the platter. A power cut keeps any subset of what waits, sector by sector, in any
//! order. Names behave in the same way, with `sync_dir` for a sync. A sync that fails leaves the cache as it is and
//! forgets that anything waited: reads go on to show data that no later sync will write.

mod disk;
mod random;

pub use disk::{SECTOR, SimFs};
pub use random::Random;
