//! PowerQueue's durable half.
pub mod group;
pub use group::{BodyRef, Class, Committed, Group, PendingBody, Position, ShardId};
