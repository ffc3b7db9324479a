//! The Amazon SQS front end.
//!
//! [`Sqs`] answers HTTP requests in both AWS wire protocols, over the engine that a [`Node`](powerqueue_node::Node)
//! runs. It knows nothing of sockets: whoever serves it collects the body and sends the answer.

pub mod errors;
pub mod wire;
