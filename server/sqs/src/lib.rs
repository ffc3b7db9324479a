//! The Amazon SQS front end.
//!
//! [`Sqs`] answers HTTP requests in both AWS wire protocols, over the engine that a [`Node`](powerqueue_node::Node)
//! runs. It knows nothing of sockets: whoever serves it collects the body and sends the answer.

mod address;
mod attempts;
mod attributes;
mod batch;
mod block;
mod config;
mod dead_letter;
mod delete;
pub mod errors;
mod identity;
mod ids;
mod md5;
mod message;
mod move_task;
mod permissions;
mod policy;
mod purge;
mod queue_attributes;
mod queues;
mod receipt;
mod receive;
mod redrive;
mod send;
mod service;
pub mod sigv4;
mod tags;
mod visibility;
pub mod wire;

pub use config::{Config, Key, Keys, Mode};
pub use identity::RequestContext;
pub use service::Sqs;
