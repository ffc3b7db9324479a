//! `AddPermission` and `RemovePermission`: they edit the queue's policy, which is shown and grants nothing.

use crate::errors::Error;
use crate::policy::{self, Permission};
use crate::service::Session;
use crate::wire::{QueueUrl, Reply};

impl Session<'_> {
    pub(crate) async fn add_permission(
        &self,
        url: &QueueUrl,
        label: &str,
        accounts: &[String],
        actions: &[String],
    ) -> Result<Reply, Error> {
        let permission = Permission {
            label,
            accounts,
            actions,
        };
        permission.check()?;
        let added = self.edit(url, |_, draft| {
            let policy = permission.add(draft.block.policy.as_deref(), draft.caller, draft.name)?;
            draft.block.policy = Some(policy);
            Ok(())
        });
        added.await
    }

    pub(crate) async fn remove_permission(
        &self,
        url: &QueueUrl,
        label: &str,
    ) -> Result<Reply, Error> {
        let removed = self.edit(url, |_, draft| {
            draft.block.policy = policy::remove(draft.block.policy.as_deref(), label)?;
            Ok(())
        });
        removed.await
    }
}
