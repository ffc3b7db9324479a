//! `PurgeQueue`.

use powerqueue_engine::Error as EngineError;
use powerqueue_node::Room;

use crate::errors::{Error, Kind};
use crate::service::Session;
use crate::wire::{QueueUrl, Reply};

impl Session<'_> {
    pub(crate) async fn purge_queue(&self, url: &QueueUrl) -> Result<Reply, Error> {
        let queue = self.queue(url)?;
        let cooldown = self.shared.config.purge_cooldown;
        let purged = self.run(Room::Settlement, |tx| match tx.purge(queue.id, cooldown) {
            Err(EngineError::Busy) => {
                let (name, secs) = (&queue.name, cooldown.as_secs());
                let text = format!(
                    "Only one PurgeQueue operation on {name} is allowed every {secs} seconds."
                );
                Err(Error::new(Kind::PurgeQueueInProgress, text))
            }
            other => Ok(other?),
        });
        purged.await.map(|()| Reply::done())
    }
}
