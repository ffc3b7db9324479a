//! The canonical message: one form that every front end writes and reads.
//!
//! A front end encodes what its client sent into a [`Message`], and the engine stores those bytes without looking
//! inside. The record keeps the sender's form exactly, so that the interface that sent a message reads it back as it
//! was; what another interface sees of it is decided here, one module an interface ([`sqs`]).
//!
//! [`blocks`] is how protocols share a queue's one block of settings that only they know.

#![warn(clippy::indexing_slicing)]

pub mod blocks;
mod codec;
mod message;
pub mod sqs;

pub use codec::DecodeError;
pub use message::{Attribute, Body, Kind, Message, Protocol};
