//! Signature version 4, in its header and its presigned form.
//!
//! The signature covers the body's digest, so that bodies which are not signed (`UNSIGNED-PAYLOAD`, chunked
//! signatures) are refused by name instead of failing to match.

use std::fmt::Write as _;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderValue;
use http::request::Parts;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::errors::{Error, Kind};
use crate::md5::hex;
use crate::wire::unescape;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// How far the client's clock may be off.
const SKEW_SECS: u64 = 15 * 60;
/// The longest that a presigned request may be good for.
const MAX_EXPIRES_SECS: u64 = 7 * 24 * 3600;
const MAX_SIGNED_HEADERS: usize = 64;

/// A request's claim to be signed.
#[derive(Debug)]
pub struct Signature {
    /// The access key, and the scope `date/region/service/aws4_request`.
    pub credential: Credential,
    signed_headers: Vec<String>,
    signature: String,
    timestamp: String,
    /// For how many seconds it is good, if it is presigned.
    expires: Option<u64>,
}

/// A credential scope.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Credential {
    pub access_key: String,
    pub date: String,
    pub region: String,
    pub service: String,
}

impl Credential {
    /// Reads `AKID/20150830/us-east-1/sqs/aws4_request`.
    pub fn parse(text: &str) -> Option<Self> {
        // The access key comes first and might hold a slash of its own.
        let mut parts = text.rsplitn(5, '/');
        (parts.next()? == "aws4_request").then_some(())?;
        let (service, region, date) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            access_key: parts.next()?.to_owned(),
            date: date.to_owned(),
            region: region.to_owned(),
            service: service.to_owned(),
        })
    }

    fn scope(&self) -> String {
        format!(
            "{}/{}/{}/aws4_request",
            self.date, self.region, self.service
        )
    }
}

impl Signature {
    /// The signature in a request's headers or its URL; `None` if it claims none.
    pub fn find(parts: &Parts) -> Result<Option<Self>, Error> {
        let incomplete = || Error::of(Kind::IncompleteSignature);
        if let Some(header) = parts.headers.get("authorization") {
            let header = header.to_str().map_err(|_| incomplete())?;
            let fields = header.strip_prefix(ALGORITHM).ok_or_else(incomplete)?;
            return Self::in_header(parts, fields)
                .map(Some)
                .ok_or_else(incomplete);
        }
        let pairs = query_pairs(parts)?;
        if !pairs.iter().any(|(name, _)| name == "X-Amz-Signature") {
            return Ok(None);
        }
        Self::in_query(&pairs).map(Some).ok_or_else(incomplete)
    }

    fn in_header(parts: &Parts, fields: &str) -> Option<Self> {
        let field = |name: &str| {
            let mut fields = fields.split(',').filter_map(|f| f.trim().split_once('='));
            fields.find(|(n, _)| *n == name).map(|(_, value)| value)
        };
        let timestamp = parts.headers.get("x-amz-date")?.to_str().ok()?;
        Some(Self {
            credential: Credential::parse(field("Credential")?)?,
            signed_headers: header_names(field("SignedHeaders")?)?,
            signature: field("Signature")?.to_owned(),
            timestamp: timestamp.to_owned(),
            expires: None,
        })
    }

    fn in_query(pairs: &[(String, String)]) -> Option<Self> {
        let field = |name: &str| {
            pairs
                .iter()
                .find(|(n, _)| n == name)
                .map(|(_, value)| value.as_str())
        };
        (field("X-Amz-Algorithm")? == ALGORITHM).then_some(())?;
        Some(Self {
            credential: Credential::parse(field("X-Amz-Credential")?)?,
            signed_headers: header_names(field("X-Amz-SignedHeaders")?)?,
            signature: field("X-Amz-Signature")?.to_owned(),
            timestamp: field("X-Amz-Date")?.to_owned(),
            expires: Some(field("X-Amz-Expires")?.parse().ok()?),
        })
    }

    /// Whether `secret` signed exactly this request, not too long ago.
    pub fn verify(
        &self,
        parts: &Parts,
        body: &Bytes,
        secret: &str,
        now_secs: u64,
    ) -> Result<(), Error> {
        self.in_time(now_secs)?;
        let expected = self.signature_by(parts, body, secret)?;
        let matches: bool = expected.as_bytes().ct_eq(self.signature.as_bytes()).into();
        if matches {
            Ok(())
        } else {
            Err(Error::of(Kind::SignatureDoesNotMatch))
        }
    }

    /// Signs a request that has a host: gives it the headers `X-Amz-Date` and `Authorization`.
    ///
    /// # Errors
    /// If a value cannot stand in a header.
    pub fn sign(
        parts: &mut Parts,
        body: &Bytes,
        (access_key, secret): (&str, &str),
        now_secs: u64,
    ) -> Result<(), Error> {
        let unfit = |_| Error::of(Kind::IncompleteSignature);
        let timestamp = timestamp(now_secs);
        let date = HeaderValue::from_str(&timestamp).map_err(unfit)?;
        parts.headers.insert("x-amz-date", date);
        let signature = Self {
            credential: Credential {
                access_key: access_key.to_owned(),
                date: timestamp.chars().take(8).collect(),
                region: "us-east-1".to_owned(),
                service: "sqs".to_owned(),
            },
            signed_headers: ["host", "x-amz-date"].map(str::to_owned).to_vec(),
            signature: String::new(),
            timestamp,
            expires: None,
        };
        let authorization = format!(
            "{ALGORITHM} Credential={access_key}/{}, SignedHeaders=host;x-amz-date, Signature={}",
            signature.credential.scope(),
            signature.signature_by(parts, body, secret)?
        );
        let authorization = HeaderValue::from_str(&authorization).map_err(unfit)?;
        parts.headers.insert("authorization", authorization);
        Ok(())
    }

    fn in_time(&self, now: u64) -> Result<(), Error> {
        let signed = epoch_secs(&self.timestamp).ok_or(Error::of(Kind::IncompleteSignature))?;
        if !self.timestamp.starts_with(&self.credential.date) {
            return Err(Error::of(Kind::SignatureDoesNotMatch));
        }
        let good_for = match self.expires {
            Some(expires) if expires > MAX_EXPIRES_SECS => {
                return Err(Error::of(Kind::IncompleteSignature));
            }
            Some(expires) => expires,
            None => SKEW_SECS,
        };
        if now > signed + good_for || signed > now + SKEW_SECS {
            return Err(Error::of(Kind::RequestExpired));
        }
        Ok(())
    }

    fn signature_by(&self, parts: &Parts, body: &Bytes, secret: &str) -> Result<String, Error> {
        let request = self.canonical_request(parts, body)?;
        let scope = self.credential.scope();
        let digest = hex(&Sha256::digest(request));
        let to_sign = format!("{ALGORITHM}\n{}\n{scope}\n{digest}", self.timestamp);
        let mut key = mac(
            format!("AWS4{secret}").as_bytes(),
            self.credential.date.as_bytes(),
        );
        for part in [
            &self.credential.region,
            &self.credential.service,
            "aws4_request",
        ] {
            key = mac(&key, part.as_bytes());
        }
        Ok(hex(&mac(&key, to_sign.as_bytes())))
    }

    fn canonical_request(&self, parts: &Parts, body: &Bytes) -> Result<String, Error> {
        let mut out = format!("{}\n{}\n", parts.method, escape(parts.uri.path(), true));
        let mut pairs: Vec<_> = query_pairs(parts)?
            .into_iter()
            .filter(|(name, _)| name != "X-Amz-Signature")
            .map(|(name, value)| format!("{}={}", escape(&name, false), escape(&value, false)))
            .collect();
        pairs.sort();
        let _ = writeln!(out, "{}", pairs.join("&"));
        for name in &self.signed_headers {
            let _ = writeln!(out, "{name}:{}", header_value(parts, name)?);
        }
        let _ = write!(
            out,
            "\n{}\n{}",
            self.signed_headers.join(";"),
            payload_hash(parts, body)?
        );
        Ok(out)
    }
}

fn mac(key: &[u8], data: &[u8]) -> Vec<u8> {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac.chain_update(data).finalize().into_bytes().to_vec(),
        // HMAC takes keys of any length.
        Err(_) => Vec::new(),
    }
}

fn header_names(list: &str) -> Option<Vec<String>> {
    let names: Vec<_> = list.split(';').map(str::to_ascii_lowercase).collect();
    let covers_host = names.iter().any(|name| name == "host");
    (names.len() <= MAX_SIGNED_HEADERS && covers_host && names.is_sorted()).then_some(names)
}

fn header_value(parts: &Parts, name: &str) -> Result<String, Error> {
    let mut values = Vec::new();
    for value in parts.headers.get_all(name) {
        let text = value
            .to_str()
            .map_err(|_| Error::of(Kind::SignatureDoesNotMatch))?;
        values.push(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
    }
    if values.is_empty() && name == "host" {
        // HTTP/2 carries the host in the request line.
        values.extend(parts.uri.authority().map(|a| a.to_string()));
    }
    Ok(values.join(","))
}

fn payload_hash(parts: &Parts, body: &Bytes) -> Result<String, Error> {
    let actual = hex(&Sha256::digest(body));
    let claimed = parts
        .headers
        .get("x-amz-content-sha256")
        .map(|v| v.as_bytes());
    match claimed {
        Some(claimed) if claimed == b"UNSIGNED-PAYLOAD" || claimed.starts_with(b"STREAMING-") => {
            let text = "Requests whose body is not signed as a whole are not accepted.";
            Err(Error::new(Kind::IncompleteSignature, text))
        }
        Some(claimed) if claimed != actual.as_bytes() => {
            Err(Error::of(Kind::SignatureDoesNotMatch))
        }
        _ => Ok(actual),
    }
}

fn query_pairs(parts: &Parts) -> Result<Vec<(String, String)>, Error> {
    let query = parts.uri.query().unwrap_or_default();
    let pairs = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((unescape(name.as_bytes())?, unescape(value.as_bytes())?))
        });
    pairs.collect()
}

/// AWS's percent-encoding. The path is the one that was sent, so that its own escapes are escaped again.
fn escape(text: &str, path: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte))
            }
            b'/' if path => out.push('/'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    if out.is_empty() && path {
        "/".into()
    } else {
        out
    }
}

/// Seconds since 1970 as `20150830T123600Z`.
fn timestamp(secs: u64) -> String {
    // Days in the proleptic Gregorian calendar, with the year starting in March; an era has 400 years.
    let days = secs / 86400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, january) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + january;
    let (hour, minute, second) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Seconds since the epoch of `20150830T123600Z`.
fn epoch_secs(timestamp: &str) -> Option<u64> {
    let well_formed = timestamp.len() == 16 && timestamp.is_ascii();
    let (date, time) = well_formed.then(|| timestamp.split_at(8))?;
    let time = time.strip_prefix('T')?.strip_suffix('Z')?;
    let number = |text: &str, at: std::ops::Range<usize>| text.get(at)?.parse::<u64>().ok();
    let (year, month, day) = (
        number(date, 0..4)?,
        number(date, 4..6)?,
        number(date, 6..8)?,
    );
    let (hour, minute, second) = (
        number(time, 0..2)?,
        number(time, 2..4)?,
        number(time, 4..6)?,
    );
    let valid =
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days in the proleptic Gregorian calendar, with the year starting in March.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const NOW: u64 = 1_440_938_160;

    fn signed(
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        names: &str,
        signature: &str,
    ) -> Parts {
        let credential = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request";
        let authorization = format!(
            "{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
        );
        let mut builder = Request::builder()
            .method(method)
            .uri(uri)
            .header("host", "example.amazonaws.com");
        builder = builder
            .header("x-amz-date", "20150830T123600Z")
            .header("authorization", authorization);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    fn verify(parts: &Parts, body: &'static [u8], secret: &str, now: u64) -> Result<(), Kind> {
        let signature = Signature::find(parts).map_err(|e| e.kind)?.unwrap();
        signature
            .verify(parts, &Bytes::from_static(body), secret, now)
            .map_err(|e| e.kind)
    }

    const VANILLA: &str = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";

    // Cases of AWS's published test suite.
    #[test]
    fn published_signatures_verify() {
        let vanilla = signed("GET", "/", &[], "host;x-amz-date", VANILLA);
        assert_eq!(verify(&vanilla, b"", SECRET, NOW), Ok(()));
        let ordered = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500";
        let ordered = signed(
            "GET",
            "/?Param2=value2&Param1=value1",
            &[],
            "host;x-amz-date",
            ordered,
        );
        assert_eq!(verify(&ordered, b"", SECRET, NOW), Ok(()));
        let form = "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a";
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        let form = signed("POST", "/", &kind, "content-type;host;x-amz-date", form);
        assert_eq!(verify(&form, b"Param1=value1", SECRET, NOW), Ok(()));
        assert_eq!(
            verify(&form, b"Param1=value2", SECRET, NOW),
            Err(Kind::SignatureDoesNotMatch)
        );
    }

    #[test]
    fn each_way_to_fail_has_its_own_name() {
        let vanilla = signed("GET", "/", &[], "host;x-amz-date", VANILLA);
        assert_eq!(
            verify(&vanilla, b"", "another", NOW),
            Err(Kind::SignatureDoesNotMatch)
        );
        assert_eq!(
            verify(&vanilla, b"", SECRET, NOW + 901),
            Err(Kind::RequestExpired)
        );
        assert_eq!(
            verify(&vanilla, b"", SECRET, NOW - 901),
            Err(Kind::RequestExpired)
        );
        let unsigned = [("x-amz-content-sha256", "UNSIGNED-PAYLOAD")];
        let unsigned = signed("GET", "/", &unsigned, "host;x-amz-date", VANILLA);
        assert_eq!(
            verify(&unsigned, b"", SECRET, NOW),
            Err(Kind::IncompleteSignature)
        );
        let no_host = signed("GET", "/", &[], "x-amz-date", VANILLA);
        assert_eq!(
            verify(&no_host, b"", SECRET, NOW),
            Err(Kind::IncompleteSignature)
        );
    }

    #[test]
    fn timestamps_count_from_the_epoch() {
        assert_eq!(epoch_secs("20150830T123600Z"), Some(NOW));
        assert_eq!(epoch_secs("19700101T000000Z"), Some(0));
        assert_eq!(epoch_secs("20240229T235959Z"), Some(1_709_251_199));
        for bad in [
            "",
            "20151330T123600Z",
            "2015-08-30T12:36Z",
            "20150830t123600Z",
            "äää0830T123600Z",
        ] {
            assert_eq!(epoch_secs(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_claims_never_panic(header in "[ -~]{0,120}", date in "[ -~]{0,20}", query in "[A-Za-z0-9=&%-]{0,80}") {
            let request = Request::builder().uri(format!("/?{query}"));
            let request = request.header("authorization", format!("{ALGORITHM} {header}")).header("x-amz-date", date);
            let parts = request.body(()).unwrap().into_parts().0;
            if let Ok(Some(signature)) = Signature::find(&parts) {
                let _ = signature.verify(&parts, &Bytes::new(), "s", 0);
            }
        }
    }

    #[test]
    fn what_is_signed_here_verifies_here() {
        let mut parts = http::Request::post("/")
            .header("host", "127.0.0.1:9324")
            .body(())
            .unwrap()
            .into_parts()
            .0;
        let body = Bytes::from_static(b"{}");
        for now in [0, 951_782_399, 951_782_400, 1_440_938_160, 4_102_444_799] {
            assert_eq!(epoch_secs(&timestamp(now)), Some(now));
            Signature::sign(&mut parts, &body, ("AKID", "secret"), now).unwrap();
            let signature = Signature::find(&parts).unwrap().unwrap();
            assert!(signature.verify(&parts, &body, "secret", now).is_ok());
            assert!(signature.verify(&parts, &body, "other", now).is_err());
        }
    }
}
