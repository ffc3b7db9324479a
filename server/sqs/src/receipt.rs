//! Receipt handles: claims that travel through clients, authenticated by the node's key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use powerqueue_engine::{Claim, HandleKey, Millis, QueueId, TenantId};
use powerqueue_interop::Protocol;

use crate::errors::{Error, Kind};

/// The handle of a delivery.
pub fn seal(key: &HandleKey, tenant: TenantId, claim: &Claim, delivered_at: Millis) -> String {
    // Safe in a URL, for clients that build Query requests by hand.
    URL_SAFE_NO_PAD.encode(key.seal(Protocol::Sqs as u8, tenant, claim, delivered_at))
}

/// The delivery of a handle that this service made for that tenant and queue, and when it was.
pub fn open(
    key: &HandleKey,
    tenant: TenantId,
    queue: QueueId,
    handle: &str,
) -> Result<(Claim, Millis), Error> {
    let sealed = URL_SAFE_NO_PAD.decode(handle).ok();
    let opened = sealed.and_then(|sealed| key.open(Protocol::Sqs as u8, tenant, &sealed));
    opened
        .filter(|(claim, _)| claim.queue == queue)
        .ok_or_else(|| invalid(handle))
}

/// A handle that was never one.
pub fn invalid(handle: &str) -> Error {
    let text = format!(
        "The input receipt handle \"{}\" is not a valid receipt handle.",
        shown(handle)
    );
    Error::new(Kind::ReceiptHandleIsInvalid, text)
}

/// A FIFO queue's handle whose lease is over.
pub fn expired(handle: &str) -> Error {
    Error::invalid(
        shown(handle),
        "ReceiptHandle",
        "The receipt handle has expired.",
    )
}

/// A handle whose message cannot be hidden or shown any more.
pub fn gone(handle: &str) -> Error {
    let reason = "Message does not exist or is not available for visibility timeout change.";
    Error::invalid(shown(handle), "ReceiptHandle", reason)
}

/// What of a handle is echoed: the client's own, and so bounded.
fn shown(handle: &str) -> &str {
    handle
        .char_indices()
        .nth(1024)
        .map_or(handle, |(end, _)| &handle[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_named_in_the_refusal() {
        let error = invalid("garbage");
        assert_eq!(error.row().code, "ReceiptHandleIsInvalid");
        assert_eq!(
            error.text(),
            "The input receipt handle \"garbage\" is not a valid receipt handle."
        );
        assert!(expired(&"ä".repeat(5000)).text().len() < 2200);
    }
}
