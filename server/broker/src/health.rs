//! Health and version, for whoever monitors the broker.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use powerqueue_net::Request;
use serde_json::{Value, json};

use crate::readiness::{Phase, Readiness};

/// The listener's routes.
pub fn site(readiness: Arc<Readiness>) -> Router {
    Router::new()
        .route(
            "/healthz/live",
            get(|| async { json_answer(StatusCode::OK, &json!({ "status": "live" })) }),
        )
        .route("/healthz/ready", get(ready))
        .route("/version", get(version))
        .with_state(readiness)
}

/// A router as the serving loop's handler.
pub fn handler(
    router: Router,
) -> impl Fn(Request) -> std::pin::Pin<Box<dyn Future<Output = Response<Body>> + Send>>
+ Send
+ Sync
+ 'static {
    let service = TowerToHyperService::new(router);
    move |request| {
        let answer = service.call(http::Request::from_parts(request.parts, request.body));
        Box::pin(async move {
            let mut response = answer
                .await
                .unwrap_or_else(|never: Infallible| match never {});
            secure(&mut response);
            response
        })
    }
}

async fn ready(State(readiness): State<Arc<Readiness>>) -> Response<Body> {
    let phase = readiness.phase();
    let status = match phase {
        Phase::Ready => StatusCode::OK,
        Phase::Starting | Phase::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    json_answer(status, &readiness.report(phase))
}

async fn version() -> Response<Body> {
    let version = json!({ "name": "powerqueue", "version": env!("CARGO_PKG_VERSION") });
    json_answer(StatusCode::OK, &version)
}

fn json_answer(status: StatusCode, value: &Value) -> Response<Body> {
    let content_type = (header::CONTENT_TYPE, "application/json");
    let cache = (header::CACHE_CONTROL, "no-store");
    (status, [content_type, cache], format!("{value}\n")).into_response()
}

/// Headers for browsers, on every answer of ours that a browser may show.
pub fn secure(response: &mut Response<Body>) {
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
}
