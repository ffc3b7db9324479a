//! Who may ask: what lets strangers share one broker.
//!
//! [`Admission`] judges client addresses: how many requests, new connections and new tenants in a time, how many
//! requests, streams and connections at once, and who is banned for not heeding the refusals. It is built once for
//! all protocols; a front end asks, and answers a [`Refused`] in its protocol's own words.
//!
//! What it guarantees: memory stays bounded whoever asks (`Settings::tracked`, `Settings::bans_kept`); an address is
//! judged with its network, so that a holder of an IPv6 prefix gains little by changing addresses; only refusals made
//! here count towards a ban.
//!
//! What it must not do: know a protocol, a tenant or a message.

mod address;
mod admission;
mod bans;
mod budget;
mod clock;
mod open;
mod settings;
mod table;

pub use address::{BadNetwork, Network, judged_as};
pub use admission::{Admission, Allowance, Counted, Reason, Refused, Standing, Totals};
pub use bans::Ban;
pub use clock::{Clock, Hand};
pub use open::Slot;
pub use settings::{Ladder, Rate, Settings};
