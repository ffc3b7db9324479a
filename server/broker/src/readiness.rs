//! Whether the broker can be used, for whoever asks: a load balancer, a script, a person.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use powerqueue_node::Node;
use serde_json::{Value, json};

use crate::config::LISTENERS;
use crate::tls::Standing;

/// Where the broker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The store is being opened; clients wait in the kernel's backlog.
    Starting,
    /// Everything is served.
    Ready,
    /// What was begun is being finished.
    Draining,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Starting, Self::Ready, Self::Draining];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
        }
    }

    /// What the store does in that phase.
    const fn store(self) -> &'static str {
        match self {
            Self::Starting => "replaying",
            Self::Ready => "serving",
            Self::Draining => "closing",
        }
    }

    /// What a front end's listener does in that phase.
    const fn front_end(self) -> &'static str {
        match self {
            Self::Starting => "waiting",
            Self::Ready => "listening",
            Self::Draining => "draining",
        }
    }
}

/// Shared by whoever changes it and whoever is asked.
#[derive(Debug)]
pub struct Readiness {
    phase: Mutex<Phase>,
    listeners: BTreeMap<String, Vec<SocketAddr>>,
    node: OnceLock<Node>,
    tls: Option<Arc<Standing>>,
}

impl Readiness {
    /// Starting, with these listeners open.
    pub fn new(listeners: &[(String, Vec<SocketAddr>)]) -> Self {
        Self {
            phase: Mutex::new(Phase::Starting),
            listeners: listeners.iter().cloned().collect(),
            node: OnceLock::new(),
            tls: None,
        }
    }

    /// With what some of them are served over TLS. A temporary certificate is told of and leaves the broker ready:
    /// listeners without TLS are served, and the authority's challenge must not be kept from the `http` listener.
    pub fn over(mut self, tls: Option<Arc<Standing>>) -> Self {
        self.tls = tls;
        self
    }

    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.phase.lock()
    }

    /// The next phase.
    pub fn enter(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// Tells of that node from now on. Called once.
    pub fn watch(&self, node: Node) {
        let _ = self.node.set(node);
    }

    /// Whether what makes the broker grow is taken. A node that is short of something still serves: messages can be received
    /// and deleted, which is what helps.
    fn growth(&self) -> &'static str {
        let Some(node) = self.node.get() else {
            return "refused: starting";
        };
        if node.store().status().short {
            "refused: the disk is short"
        } else if node.stats().memory_short {
            "refused: memory is short"
        } else {
            "accepted"
        }
    }

    /// The report on every listener and the store.
    pub fn report(&self, phase: Phase) -> Value {
        let listeners: BTreeMap<&str, Value> = LISTENERS
            .iter()
            .map(|&name| {
                let addresses = self.listeners.get(name);
                let state = match (addresses, name) {
                    (None, _) => "off",
                    // They answer in every phase; this answer may come through one of them.
                    (Some(_), "http" | "metrics") => "listening",
                    (Some(_), _) => phase.front_end(),
                };
                let addresses = addresses.map(Vec::as_slice).unwrap_or_default();
                (name, json!({ "state": state, "addresses": addresses }))
            })
            .collect();
        let mut report = json!({
            "status": phase.as_str(),
            "store": { "state": phase.store(), "growth": self.growth() },
            "listeners": listeners,
        });
        if let Some(tls) = &self.tls {
            report["tls"] = tls.report();
        }
        report
    }
}
