//! HTTP-01: the certificate authority fetches a text from the name that is to be certified, in plain text on port 80,
//! which the proxy hands to the `http` listener (RFC 8555, section 8.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;

/// The texts that are waited for now, by token. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Challenges(Arc<Mutex<BTreeMap<String, String>>>);

/// Answers one challenge for as long as it lives.
#[derive(Debug)]
pub struct Answering {
    challenges: Challenges,
    token: String,
}

impl Challenges {
    /// Answers that token with that text.
    pub fn answer(&self, token: &str, text: &str) -> Answering {
        self.0.lock().insert(token.to_owned(), text.to_owned());
        Answering {
            challenges: self.clone(),
            token: token.to_owned(),
        }
    }

    /// The route for the listener.
    pub fn route(&self) -> Router {
        Router::new()
            .route("/.well-known/acme-challenge/{token}", get(fetch))
            .with_state(self.clone())
    }

    fn text(&self, token: &str) -> Option<String> {
        self.0.lock().get(token).cloned()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.challenges.0.lock().remove(&self.token);
    }
}

async fn fetch(State(challenges): State<Challenges>, Path(token): Path<String>) -> Response {
    match challenges.text(&token) {
        Some(text) => ([(header::CONTENT_TYPE, "application/octet-stream")], text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_answered_until_it_is_over() {
        let challenges = Challenges::default();
        let answering = challenges.answer("token", "token.thumbprint");
        assert_eq!(
            challenges.text("token").as_deref(),
            Some("token.thumbprint")
        );
        assert_eq!(challenges.text("other"), None);
        drop(answering);
        assert_eq!(challenges.text("token"), None);
    }
}
