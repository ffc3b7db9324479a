//! Who the client is: the socket's word, or the proxy's, never the client's own.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header by which our own proxy names the client. It replaces whatever the client sent under that name.
pub const CLIENT_ADDRESS_HEADER: HeaderName = HeaderName::from_static("x-pq-client-ip");

/// Set by the proxy, and likewise replaced by it; read only where the proxy's word counts.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address; an IPv4 address is never written as IPv6.
    pub address: IpAddr,
    /// How it reached us, the proxy included.
    pub scheme: Scheme,
}

/// The scheme in the client's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain text.
    Http,
    /// TLS, ours or the proxy's.
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Whose word is taken for the client's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientRule {
    /// The socket's. The proxy's header is removed unread.
    #[default]
    Socket,
    /// The proxy's: the header must be there exactly once.
    BehindProxy,
}

impl ClientRule {
    /// The client of a request, or a sentence about the proxy's mistake. Takes the header out, so that nothing behind
    /// can read it by another rule.
    pub(crate) fn apply(
        self,
        socket: IpAddr,
        tls: bool,
        headers: &mut HeaderMap,
    ) -> Result<Client, &'static str> {
        let named = single(headers, &CLIENT_ADDRESS_HEADER);
        let proto = single(headers, &FORWARDED_PROTO);
        let https = proto.is_ok_and(|value| value.as_bytes() == b"https");
        let client = match self {
            Self::Socket => Client {
                address: socket.to_canonical(),
                scheme: scheme(tls),
            },
            Self::BehindProxy => Client {
                address: parse(named?)?,
                scheme: scheme(tls || https),
            },
        };
        headers.remove(&CLIENT_ADDRESS_HEADER);
        Ok(client)
    }
}

fn scheme(tls: bool) -> Scheme {
    if tls { Scheme::Https } else { Scheme::Http }
}

fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<&'h HeaderValue, &'static str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (None, _) => {
            Err("this listener is behind a proxy, which must name the client in X-PQ-Client-IP")
        }
        (Some(_), Some(_)) => Err("X-PQ-Client-IP must be there only once"),
    }
}

fn parse(value: &HeaderValue) -> Result<IpAddr, &'static str> {
    value
        .to_str()
        .ok()
        .and_then(|text| text.parse::<IpAddr>().ok())
        .map(|address| address.to_canonical())
        .ok_or("X-PQ-Client-IP must be one IP address")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    fn proxied(values: &[&'static str]) -> Result<Client, &'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CLIENT_ADDRESS_HEADER, HeaderValue::from_static(value));
        }
        ClientRule::BehindProxy.apply(SOCKET, false, &mut headers)
    }

    #[test]
    fn a_forged_header_is_removed_unread_without_a_proxy() {
        let mut forged = headers(&[
            (CLIENT_ADDRESS_HEADER, "8.8.8.8"),
            (FORWARDED_PROTO, "https"),
        ]);
        let client = ClientRule::Socket.apply(SOCKET, false, &mut forged);
        assert_eq!(
            client,
            Ok(Client {
                address: SOCKET,
                scheme: Scheme::Http
            })
        );
        assert!(!forged.contains_key(CLIENT_ADDRESS_HEADER));
    }

    #[test]
    fn the_proxy_names_the_client_and_its_scheme() {
        let mut named = headers(&[
            (CLIENT_ADDRESS_HEADER, "2001:db8::1"),
            (FORWARDED_PROTO, "https"),
        ]);
        let client = ClientRule::BehindProxy
            .apply(SOCKET, false, &mut named)
            .unwrap();
        assert_eq!(client.address, "2001:db8::1".parse::<IpAddr>().unwrap());
        assert_eq!(client.scheme, Scheme::Https);
        assert!(!named.contains_key(CLIENT_ADDRESS_HEADER));
    }

    #[test]
    fn a_missing_doubled_or_odd_header_is_refused_behind_the_proxy() {
        assert!(proxied(&[]).unwrap_err().contains("must name the client"));
        assert!(
            proxied(&["1.2.3.4", "1.2.3.4"])
                .unwrap_err()
                .contains("only once")
        );
        for odd in [
            "",
            "1.2.3.4, 5.6.7.8",
            "1.2.3.4:80",
            "[::1]",
            "localhost",
            "fe80::1%eth0",
        ] {
            assert!(proxied(&[odd]).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn a_mapped_address_is_folded() {
        let expected: IpAddr = "10.1.2.3".parse().unwrap();
        assert_eq!(proxied(&["::ffff:10.1.2.3"]).unwrap().address, expected);
        let socket = "::ffff:10.1.2.3".parse().unwrap();
        let client = ClientRule::Socket
            .apply(socket, true, &mut HeaderMap::new())
            .unwrap();
        assert_eq!(
            client,
            Client {
                address: expected,
                scheme: Scheme::Https
            }
        );
    }
}
