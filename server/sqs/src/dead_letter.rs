//! Which queues send their dead messages to a queue.

use powerqueue_engine::Tx;

use crate::errors::Error;
use crate::queues::{PageRequest, SOURCES};
use crate::service::Session;
use crate::wire::{Page, QueueUrl, Reply};

impl Session<'_> {
    pub(crate) fn list_dead_letter_sources(
        &self,
        url: &QueueUrl,
        page: &Page,
    ) -> Result<Reply, Error> {
        let queue = self.queue(url)?;
        let page = PageRequest::read(page)?;
        let sources = |tx: &Tx<'_>, name: &str| self.sends_dead_to(tx, name, &queue.name);
        let found = self.names("", page.after.as_deref(), page.size + 1, sources);
        Ok(page.reply(SOURCES, found, |name| self.caller.queue_url(name)))
    }

    /// Whether any queue sends its dead messages there.
    pub(crate) fn is_dead_letter_queue(&self, name: &str) -> bool {
        !self
            .names("", None, 1, |tx, source| {
                self.sends_dead_to(tx, source, name)
            })
            .is_empty()
    }

    fn sends_dead_to(&self, tx: &Tx<'_>, source: &str, target: &str) -> bool {
        let tenant = self.caller.tenant.id;
        let queue = tx
            .find_queue(tenant, source)
            .and_then(|id| tx.queue(tenant, id).ok());
        queue
            .and_then(|q| {
                q.settings
                    .dead_letter
                    .as_ref()
                    .map(|dead| dead.queue == target)
            })
            .unwrap_or(false)
    }
}
