//! `DeleteMessage` and `DeleteMessageBatch`.

use powerqueue_engine::{Error as EngineError, Settle, Stale};
use powerqueue_node::Room;

use crate::errors::Error;
use crate::service::Session;
use crate::wire::{DeleteEntry, QueueUrl, Reply};
use crate::{batch, receipt};

impl Session<'_> {
    pub(crate) async fn delete_message(
        &self,
        url: &QueueUrl,
        handle: &str,
    ) -> Result<Reply, Error> {
        let (outcome,) = (self.delete_all(url, &[handle]).await?.pop(),);
        outcome
            .unwrap_or_else(|| Ok(Reply::new()))
            .map(|_| Reply::done())
    }

    pub(crate) async fn delete_message_batch(
        &self,
        url: &QueueUrl,
        entries: Vec<DeleteEntry>,
    ) -> Result<Reply, Error> {
        batch::check_ids(
            entries.iter().map(|e| e.id.as_str()),
            "DeleteMessageBatchRequestEntry",
        )?;
        let handles: Vec<_> = entries.iter().map(|e| e.handle.as_str()).collect();
        let outcomes = self.delete_all(url, &handles).await?;
        let ids = entries.iter().map(|e| e.id.clone());
        Ok(batch::reply(
            "DeleteMessageBatchResultEntry",
            ids.zip(outcomes),
        ))
    }

    async fn delete_all(
        &self,
        url: &QueueUrl,
        handles: &[&str],
    ) -> Result<Vec<Result<Reply, Error>>, Error> {
        let queue = self.queue(url)?;
        let fifo = queue.settings.groups.is_some();
        let (key, tenant) = (self.shared.node.handle_key(), self.caller.tenant.id);
        let claims: Vec<_> = handles
            .iter()
            .map(|h| receipt::open(key, tenant, queue.id, h))
            .collect();
        let mut gone = 0;
        let count = &mut gone;
        let deleted = self.run(Room::Settlement, |tx| {
            let outcomes = claims.into_iter().zip(handles).map(|(claim, handle)| {
                // A standard queue deletes by any handle it ever gave out; FIFO only while the lease lasts.
                let stale = if fifo { Stale::Refuse } else { Stale::Accept };
                match tx.settle(claim?.0, Settle::Complete, stale) {
                    Ok(()) => {
                        *count += 1;
                        Ok(Reply::new())
                    }
                    Err(EngineError::NotFound) => Ok(Reply::new()),
                    Err(EngineError::LeaseLost | EngineError::NotLeased) if fifo => {
                        Err(receipt::expired(handle))
                    }
                    Err(EngineError::LeaseLost | EngineError::NotLeased) => Ok(Reply::new()),
                    Err(other) => Err(other.into()),
                }
            });
            Ok(outcomes.collect())
        });
        let outcomes = deleted.await?;
        self.shared.traffic.deleted(gone);
        Ok(outcomes)
    }
}
