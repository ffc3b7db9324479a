//! `ChangeMessageVisibility` and its batch.

use powerqueue_engine::{Error as EngineError, Millis, Settle, Stale};
use powerqueue_node::Room;

use crate::errors::Error;
use crate::service::Session;
use crate::wire::{QueueUrl, Reply, VisibilityEntry};
use crate::{batch, receipt};

const MAX_SECS: u64 = 43_200;

/// How long a message is to be hidden: within SQS's range and the tenant's cap.
pub(crate) fn timeout(secs: i64, cap: Millis) -> Result<Millis, Error> {
    let most = MAX_SECS.min(cap.as_secs());
    let span = u64::try_from(secs)
        .ok()
        .filter(|s| *s <= most)
        .map(Millis::from_secs);
    span.ok_or_else(|| {
        let reason = format!("Must be >= 0 and <= {most}, if provided.");
        Error::invalid(secs, "VisibilityTimeout", &reason)
    })
}

/// Whether a message that was delivered then may be hidden for so long from now. Both are seconds of one clock.
fn within_total(secs: i64, delivered_at: Millis, now: Millis) -> Result<(), Error> {
    let elapsed = now.0.saturating_sub(delivered_at.0) / 1000;
    if secs > 0 && elapsed.saturating_add(secs.unsigned_abs()) > MAX_SECS {
        let reason = format!(
            "Total VisibilityTimeout for the message is beyond the limit [{MAX_SECS} seconds]"
        );
        return Err(Error::invalid(secs, "VisibilityTimeout", &reason));
    }
    Ok(())
}

impl Session<'_> {
    pub(crate) async fn change_visibility(
        &self,
        url: &QueueUrl,
        handle: &str,
        secs: i64,
    ) -> Result<Reply, Error> {
        let outcome = self.change_all(url, &[(handle, secs)]).await?.pop();
        outcome
            .unwrap_or_else(|| Ok(Reply::new()))
            .map(|_| Reply::done())
    }

    pub(crate) async fn change_visibility_batch(
        &self,
        url: &QueueUrl,
        entries: Vec<VisibilityEntry>,
    ) -> Result<Reply, Error> {
        batch::check_ids(
            entries.iter().map(|e| e.id.as_str()),
            "ChangeMessageVisibilityBatchRequestEntry",
        )?;
        let changes: Vec<_> = entries
            .iter()
            .map(|e| (e.handle.as_str(), e.timeout))
            .collect();
        let outcomes = self.change_all(url, &changes).await?;
        let ids = entries.iter().map(|e| e.id.clone());
        Ok(batch::reply(
            "ChangeMessageVisibilityBatchResultEntry",
            ids.zip(outcomes),
        ))
    }

    async fn change_all(
        &self,
        url: &QueueUrl,
        changes: &[(&str, i64)],
    ) -> Result<Vec<Result<Reply, Error>>, Error> {
        let queue = self.queue(url)?;
        let fifo = queue.settings.groups.is_some();
        let (key, tenant) = (self.shared.node.handle_key(), self.caller.tenant.id);
        let (cap, now) = (self.shared.node.limits().lifetime, self.shared.node.now());
        let opened = changes.iter().map(|(handle, secs)| {
            let (claim, delivered_at) = receipt::open(key, tenant, queue.id, handle)?;
            let span = timeout(*secs, cap)?;
            within_total(*secs, delivered_at, now)?;
            Ok((claim, span))
        });
        let opened: Vec<Result<_, Error>> = opened.collect();
        let changed = self.run(Room::Settlement, |tx| {
            let outcomes = opened
                .into_iter()
                .zip(changes)
                .map(|(opened, (handle, _))| {
                    let (claim, span) = opened?;
                    let settle = if span == Millis::ZERO {
                        Settle::Release(span)
                    } else {
                        Settle::Lease(span)
                    };
                    let stale = if fifo { Stale::Refuse } else { Stale::Accept };
                    match tx.settle(claim, settle, stale) {
                        Ok(()) => Ok(Reply::new()),
                        // The real service takes a standard queue's handle for as long as the message is there.
                        Err(EngineError::NotLeased | EngineError::LeaseLost) if !fifo => {
                            Ok(Reply::new())
                        }
                        Err(
                            EngineError::NotFound | EngineError::NotLeased | EngineError::LeaseLost,
                        ) => Err(receipt::gone(handle)),
                        Err(other) => Err(other.into()),
                    }
                });
            Ok(outcomes.collect())
        });
        changed.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_hidden_for_twelve_hours_since_its_receive_at_most() {
        let received = Millis::from_secs(1000);
        let at = |elapsed| received.plus(Millis::from_secs(elapsed));
        assert_eq!(within_total(43_200, received, received), Ok(()));
        assert_eq!(within_total(43_199, received, at(1)), Ok(()));
        assert_eq!(
            within_total(43_200, received, at(1)).unwrap_err().text(),
            "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is \
             beyond the limit [43200 seconds]"
        );
        assert!(within_total(1, received, at(43_200)).is_err());
        // It may be shown again at any time, and a clock set back hurts nobody.
        assert_eq!(within_total(0, received, at(90_000)), Ok(()));
        assert_eq!(within_total(43_200, at(5), received), Ok(()));
    }

    #[test]
    fn timeouts_are_within_the_range_and_the_cap() {
        assert_eq!(timeout(0, Millis::NEVER), Ok(Millis::ZERO));
        assert_eq!(
            timeout(43_200, Millis::NEVER),
            Ok(Millis::from_secs(43_200))
        );
        for (secs, cap) in [
            (-1, Millis::NEVER),
            (43_201, Millis::NEVER),
            (3601, Millis::from_secs(3600)),
        ] {
            assert_eq!(
                timeout(secs, cap).unwrap_err().row().code,
                "InvalidParameterValue"
            );
        }
    }
}
