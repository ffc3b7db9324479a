//! The operator's choice about what cannot be read: see it, and accept its loss.
//!
//! Nothing is overwritten. Accepted stretches of the log are remembered and passed over from then on, their files stay
//! until nothing else needs them; a checkpoint file that does not open is set aside under another name.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use crate::{
    checkpoint::{CHECKPOINT, CheckpointError},
    fs::Fs,
    group::{BodyRef, Epoch, Position, ShardId},
    options::Options,
    recover::OpenError,
    replay::{Damage, ReplayError},
    store::Store,
};

/// Unreadable bodies are counted, and this many of them named.
const NAMED_BODIES: usize = 1000;

/// What cannot be read, and what was done about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// A file without which the store does not open, and what is wrong with it.
    pub file: Option<(String, String)>,
    /// Stretches of the log, by the shards they stop.
    pub damage: Vec<Damage>,
    /// Bodies that are not what was written, whether or not anything still refers to them. Such a message stays, and
    /// reading it fails; there is nothing to cut out.
    pub bodies: Vec<BodyRef>,
    /// How many there are.
    pub unreadable_bodies: u64,
    /// Whether the loss of `file` and `damage` was accepted, durably.
    pub accepted: bool,
}

/// Why the repair itself failed.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The directory does not open for a reason that no repair changes.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The log cannot be walked.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The acceptance could not be written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The damaged file could not be set aside.
    #[error("the damaged file cannot be set aside: {0}")]
    Io(#[from] io::Error),
}

/// Lists what cannot be read; with `accept_loss`, makes the store go on without it. The store must not be open.
///
/// After the checkpoint file's loss every shard is rebuilt from what the log still holds, under higher epochs.
pub fn repair(
    fs: Arc<dyn Fs>,
    options: Options,
    accept_loss: bool,
) -> Result<RepairReport, RepairError> {
    let mut report = RepairReport::default();
    // Never closed, only dropped: a repair is not a clean shutdown.
    let store = match Store::open(fs.clone(), options.clone()) {
        Ok(store) => store,
        Err(OpenError::Corrupt { file, what }) => {
            let replaceable = file == CHECKPOINT;
            report.file = Some((file, what));
            if !accept_loss || !replaceable {
                return Ok(report);
            }
            set_aside(fs.as_ref())?;
            Store::open(fs, options)?
        }
        Err(error) => return Err(error.into()),
    };
    let shared = store.shared();

    let mut epochs: BTreeMap<ShardId, Epoch> = BTreeMap::new();
    store.replay(&|_| Position(0), &mut |group| {
        let seen = epochs.entry(group.shard).or_default();
        *seen = group.epoch.max(*seen);
        for at in group.bodies.iter().flatten() {
            if shared.read(*at).is_err() {
                report.unreadable_bodies += 1;
                if report.bodies.len() < NAMED_BODIES {
                    report.bodies.push(*at);
                }
            }
        }
    })?;
    shared.checkpoints.raise_epochs(&epochs)?;

    let after = |shard| store.applied(shard);
    report.damage = store.replay(&after, &mut |_| {})?.damage;
    if accept_loss {
        let ranges: BTreeSet<(u64, u64)> = report
            .damage
            .iter()
            .map(|damage| (damage.from.0, damage.to.0))
            .collect();
        shared
            .checkpoints
            .accept(&ranges.into_iter().collect::<Vec<_>>())?;
        report.accepted = true;
    }
    Ok(report)
}

/// Renames the checkpoint file to a name that is free.
fn set_aside(fs: &dyn Fs) -> Result<(), RepairError> {
    let _lock = fs.lock()?.ok_or(OpenError::Locked)?;
    let names = fs.list()?;
    let aside = (1u32..)
        .map(|number| format!("{CHECKPOINT}.damaged-{number}"))
        .find(|name| !names.contains(name))
        .unwrap_or_default();
    tracing::warn!(file = aside, "setting the damaged checkpoint file aside");
    fs.rename(CHECKPOINT, &aside)?;
    fs.sync_dir()?;
    Ok(())
}
