//! Listeners and the serving loop that every HTTP front end shares.
//!
//! What it guarantees: nothing a client does holds a connection, a buffer or a request for longer, or larger, than
//! [`Settings`] says; the client address is the one the operator declared trustworthy ([`ClientRule`]); a
//! [`Drain`] finishes what was begun and nothing else.
//!
//! What it must not do: know a protocol. A front end is a function from [`Request`] to a response.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use http::Response;
//! use http_body_util::Full;
//! use powerqueue_net::{Drain, Listener, Request, Settings, bind, serve};
//!
//! let socket = bind("127.0.0.1:0".parse().expect("an address")).map_err(|error| error.source)?;
//! let (stop, drain) = Drain::new();
//! let hello = |request: Request| async move {
//!     match request.body.collect().await {
//!         Ok(bytes) => Response::new(Full::new(bytes)),
//!         Err(error) => error.response(),
//!     }
//! };
//! serve(Listener::new("echo", vec![socket]), Settings::default(), drain, hello).await?;
//! # drop(stop);
//! # Ok(())
//! # }
//! ```

mod activity;
mod body;
mod client;
mod connection;
mod drain;
mod guarded;
mod in_place;
mod listener;
mod serve;
mod settings;
mod stats;
mod timer;
pub mod tls;

pub use body::{Body, BodyError};
pub use client::{CLIENT_ADDRESS_HEADER, Client, ClientRule, Scheme};
pub use drain::{Drain, DrainSignal};
pub use listener::{BindError, Inherited, Listener, bind};
pub use serve::{Request, serve};
pub use settings::{Deadlines, Settings, Sizes};
pub use stats::{Refusal, Stats};
