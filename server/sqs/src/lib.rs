//! The Amazon SQS front end.
//!
//! [`Sqs`] answers HTTP requests in both AWS wire protocols, over the engine that a [`Node`](powerqueue_node::Node)
//! runs. It knows nothing of sockets: whoever serves it collects the body and sends the answer.

mod address;
mod attributes;
mod block;
mod config;
pub mod errors;
mod identity;
mod md5;
mod message;
mod policy;
mod receipt;
mod redrive;
mod sigv4;
pub mod wire;

pub use config::{Config, Key, Keys, Mode};
pub use identity::RequestContext;
