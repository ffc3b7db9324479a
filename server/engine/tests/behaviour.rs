//! What queues do, through the engine's public entrances.

#![allow(clippy::unwrap_used)]

mod engine;

#[path = "behaviour/checkpoints.rs"]
mod checkpoints;
#[path = "behaviour/dead_letters.rs"]
mod dead_letters;
#[path = "behaviour/fifo.rs"]
mod fifo;
#[path = "behaviour/idle.rs"]
mod idle;
#[path = "behaviour/queues.rs"]
mod queues;
#[path = "behaviour/receivers.rs"]
mod receivers;
#[path = "behaviour/seek.rs"]
mod seek;
#[path = "behaviour/sending.rs"]
mod sending;
