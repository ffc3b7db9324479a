//! A shard's engine reduced to what the store can get wrong, and the oracle's memory of what was answered.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use powerqueue_store::*;

/// What a group of the model does, in order. `Send` and `Move` each bring a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Send { id: u64 },
    Settle { id: u64 },
    Move { id: u64 },
}

impl Command {
    pub fn has_body(&self) -> bool {
        !matches!(self, Self::Settle { .. })
    }
}

pub fn encode(commands: &[Command]) -> Bytes {
    let mut bytes = Vec::new();
    for command in commands {
        let (tag, id) = match command {
            Command::Send { id } => (1, id),
            Command::Settle { id } => (2, id),
            Command::Move { id } => (3, id),
        };
        bytes.push(tag);
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes.into()
}

/// The body of a message: its length and its bytes follow from its id.
pub fn body(shard: ShardId, id: u64) -> Bytes {
    let mut random = sim::Random::new(id * 1000 + u64::from(shard.0));
    let len = match random.below(10) {
        0 => 0,
        1 => random.below(3000),
        _ => random.below(400),
    };
    (0..len).map(|_| random.bits() as u8).collect()
}

/// A submitted group as the oracle remembers it.
pub struct Op {
    pub number: u64,
    pub commands: Vec<Command>,
    pub records: Bytes,
    /// Nothing of it is in the log: a barrier, or a settlement of what was never written.
    pub unwritten: bool,
    pub high_water: u64,
    pub ticket: Option<Ticket>,
    pub confirmed: bool,
    /// For each body, the op that killed it, once one has.
    pub killers: Vec<Option<u64>>,
}

/// A message in the engine's memory.
#[derive(Clone)]
pub struct Entry {
    pub body: Option<PendingBody>,
    pub at: Option<BodyRef>,
    /// The op and index of the body's birth, if that is still in the oracle's log.
    pub born: (u64, usize),
    /// An earlier copy of the body was written: a crash may bring the message back from there.
    pub moved: bool,
}

pub type State = BTreeMap<u64, BodyRef>;

/// A checkpoint that may be what the disk has.
#[derive(Clone, Default)]
pub struct Saved {
    pub applied: Position,
    pub state: State,
    pub op: u64,
}

pub struct Shard {
    pub id: ShardId,
    pub epoch: Epoch,
    pub ops: Vec<Op>,
    pub entries: BTreeMap<u64, Entry>,
    /// What the committed groups amount to.
    pub committed: State,
    pub committed_op: u64,
    pub committed_at: Position,
    /// The last checkpoint, then one whose outcome is not known.
    pub saved: Saved,
    pub saving: Option<Saved>,
    /// Stopped by damage: no longer used.
    pub stopped: bool,
}

impl Shard {
    pub fn new(id: ShardId) -> Self {
        Self {
            id,
            epoch: Epoch(0),
            ops: Vec::new(),
            entries: BTreeMap::new(),
            committed: State::new(),
            committed_op: 0,
            committed_at: Position(0),
            saved: Saved::default(),
            saving: None,
            stopped: false,
        }
    }

    pub fn op(&mut self, number: u64) -> Option<&mut Op> {
        let index = self
            .ops
            .binary_search_by_key(&number, |op| op.number)
            .ok()?;
        self.ops.get_mut(index)
    }

    /// Takes in what the store says it committed.
    pub fn commit(&mut self, committed: &Committed) -> Result<(), String> {
        let number = committed.op;
        if number <= self.committed_op {
            return Err(format!(
                "op {number} was committed after {}",
                self.committed_op
            ));
        }
        let Some(op) = self.op(number) else {
            return Err(format!("op {number} was committed but not submitted"));
        };
        let commands = op.commands.clone();
        apply(&mut self.committed, &commands, &committed.bodies);
        self.committed_op = number;
        self.committed_at = committed.position;
        let mut bodies = committed.bodies.iter();
        for command in commands.iter().filter(|command| command.has_body()) {
            let at = bodies.next().copied().flatten();
            let (Command::Send { id } | Command::Move { id }) = command else {
                continue;
            };
            if let Some(entry) = self.entries.get_mut(id)
                && entry.born.0 == number
            {
                entry.at = at;
                if at.is_none() {
                    return Err(format!("the body of live message {id} was left out"));
                }
            }
        }
        Ok(())
    }

    /// The live messages after the surviving ops, by the model's own account.
    pub fn expected(&self, saved: &Saved, last: u64) -> BTreeSet<u64> {
        let mut live: BTreeSet<u64> = saved.state.keys().copied().collect();
        for op in self.ops.iter().filter(|op| op.number > saved.op) {
            // A settlement that is not in the log holds whenever it was answered: the send says so by itself.
            let counts = op.number <= last || (op.unwritten && op.confirmed);
            for command in op.commands.iter().filter(|_| counts) {
                match command {
                    Command::Send { id } => {
                        live.insert(*id);
                    }
                    Command::Settle { id } => {
                        live.remove(id);
                    }
                    Command::Move { .. } => {}
                }
            }
        }
        live
    }
}

/// What an engine does with a group whose bodies lie at `bodies`.
pub fn apply(state: &mut State, commands: &[Command], bodies: &[Option<BodyRef>]) {
    let mut bodies = bodies.iter();
    for command in commands {
        match command {
            Command::Send { id } => {
                if let Some(at) = bodies.next().copied().flatten() {
                    state.insert(*id, at);
                }
            }
            Command::Move { id } => {
                let at = bodies.next().copied().flatten();
                if state.remove(id).is_some()
                    && let Some(at) = at
                {
                    state.insert(*id, at);
                }
            }
            Command::Settle { id } => {
                state.remove(id);
            }
        }
    }
}
