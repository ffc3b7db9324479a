//! The broker's website: the pages of `web/`, embedded and rendered once, and the figures they show.
//!
//! Everything is finished bytes before the first request: a request costs a look-up in a map and two comparisons of
//! headers. The crate knows no socket, no protocol and no client address; whoever serves it does.

mod date;
mod finished;
mod history;
mod site;

pub use finished::Finished;
pub use history::{History, Sample, Totals, Window};
pub use site::{Facts, Failure, Limit, Protocol, Website};
