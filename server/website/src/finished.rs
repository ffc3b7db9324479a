//! An answer made before anybody asks.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use sha2::{Digest, Sha256};

/// A body with all its headers, as it is and compressed.
#[derive(Clone, Debug)]
pub struct Finished {
    body: Bytes,
    gzip: Option<Bytes>,
    etag: HeaderValue,
    content_type: HeaderValue,
    cache: HeaderValue,
}

impl Finished {
    /// Finishes a body. It is compressed where that makes it smaller.
    pub fn new(content_type: &'static str, cache: &'static str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let hash = Sha256::digest(&body);
        let hex: String = hash
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            gzip: compressed(&body).map(Bytes::from),
            // Weak: the compressed body has the same one.
            etag: HeaderValue::try_from(format!("W/\"{hex}\""))
                .unwrap_or(HeaderValue::from_static("W/\"\"")),
            content_type: HeaderValue::from_static(content_type),
            cache: HeaderValue::from_static(cache),
            body,
        }
    }

    /// The body as it is.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The answer to a request: for a 200, 304 to whoever has it already. Only GET and HEAD are answered.
    pub fn answer(
        &self,
        status: StatusCode,
        method: &Method,
        headers: &HeaderMap,
    ) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        let fields = response.headers_mut();
        fields.insert(header::ETAG, self.etag.clone());
        fields.insert(header::CACHE_CONTROL, self.cache.clone());
        fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if status == StatusCode::OK && self.is_known(headers) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        fields.insert(header::CONTENT_TYPE, self.content_type.clone());
        let body = match &self.gzip {
            Some(gzip) if takes_gzip(headers) => {
                fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                gzip
            }
            _ => &self.body,
        };
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        *response.status_mut() = status;
        if method != Method::HEAD {
            *response.body_mut() = body.clone();
        }
        response
    }

    fn is_known(&self, headers: &HeaderMap) -> bool {
        let own = self
            .etag
            .to_str()
            .unwrap_or_default()
            .trim_start_matches("W/");
        items(headers, &header::IF_NONE_MATCH)
            .any(|tag| tag == "*" || tag.trim_start_matches("W/") == own)
    }
}

fn items<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> impl Iterator<Item = &'h str> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Whether `Accept-Encoding` names gzip without refusing it (RFC 9110 §12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    items(headers, &header::ACCEPT_ENCODING).any(|item| {
        let (coding, weight) = item.split_once(';').unwrap_or((item, ""));
        let weight = weight.trim().trim_start_matches("q=");
        coding.trim().eq_ignore_ascii_case("gzip")
            && (weight.is_empty() || weight.parse::<f32>().is_ok_and(|weight| weight > 0.0))
    })
}

fn compressed(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).ok()?;
    encoder.finish().ok().filter(|gzip| gzip.len() < body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(fields: &[(header::HeaderName, &'static str)], method: Method) -> Response<Bytes> {
        let headers = fields
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        let page = Finished::new("text/plain", "no-cache", "a".repeat(1000));
        page.answer(StatusCode::OK, &method, &headers.collect())
    }

    #[test]
    fn gzip_goes_to_whoever_takes_it() {
        for (accepts, expected) in [
            ("gzip, br", true),
            ("gzip;q=0", false),
            ("br", false),
            ("GZIP; q=0.5", true),
        ] {
            let response = answer(&[(header::ACCEPT_ENCODING, accepts)], Method::GET);
            assert_eq!(
                response.headers().contains_key(header::CONTENT_ENCODING),
                expected,
                "{accepts}"
            );
        }
    }

    #[test]
    fn whoever_has_it_gets_304_and_head_gets_no_body() {
        let tag = answer(&[], Method::GET).headers()[header::ETAG].clone();
        let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, tag)]);
        let page = Finished::new("text/plain", "no-cache", "a".repeat(1000));
        let known = page.answer(StatusCode::OK, &Method::GET, &headers);
        assert_eq!(
            (known.status(), known.body().len()),
            (StatusCode::NOT_MODIFIED, 0)
        );
        let head = answer(&[], Method::HEAD);
        assert_eq!(head.headers()[header::CONTENT_LENGTH], "1000");
        assert!(head.body().is_empty());
    }
}
