//! DNS over HTTPS (RFC 8484): finds the message of a request, and makes the head of its response.
//!
//! As in CoreDNS, with two exceptions: an unknown method gets 405 and an unknown type 415 (RFC 9110). CoreDNS sends
//! 400.
//!
//! # Not implemented
//! Paths other than `/dns-query`, and `Accept`: there is one type of replies (section 4.1).

use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::{DecodeSliceError, Engine};
use dns::{RawRecords, Rcode, Rtype, Ttl};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};

use crate::message::REQUEST_OCTETS;

/// The path of queries.
const PATH: &str = "/dns-query";
/// The type of queries and replies (section 6).
const MESSAGE: &str = "application/dns-message";
/// The variable of the URI that contains the message (section 4.1).
const VARIABLE: &str = "dns=";
/// The seconds for which a client may cache a reply that sets no time itself, as in CoreDNS.
const SHORTEST_LIFETIME: u32 = 5;
/// The longest time for which a client may cache a reply, as in CoreDNS.
const LONGEST_LIFETIME: u32 = 3600;
/// Base64 without padding. Clients may leave bits over at the end.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// The place of a request's message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// In its URI. This is the message.
    InUri(Vec<u8>),
    /// In its body.
    InBody,
}

/// Finds the message of a request.
///
/// # Errors
/// The status of the response, if the request cannot have a message.
pub(crate) fn find<B>(request: &Request<B>) -> Result<Carried, StatusCode> {
    if request.uri().path() != PATH {
        return Err(StatusCode::NOT_FOUND);
    }
    match *request.method() {
        Method::GET => of_query(request.uri().query().unwrap_or_default()).map(Carried::InUri),
        Method::POST if is_message(request.headers()) => Ok(Carried::InBody),
        Method::POST => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// Whether the body has the type of a message.
fn is_message(headers: &HeaderMap) -> bool {
    let said = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let essence = said.and_then(|said| said.split(';').next());
    essence.is_some_and(|it| it.trim().eq_ignore_ascii_case(MESSAGE))
}

/// The message in the query of a URI, which must have exactly one variable `dns`.
fn of_query(query: &str) -> Result<Vec<u8>, StatusCode> {
    let mut found = query.split('&').filter_map(|it| it.strip_prefix(VARIABLE));
    let (Some(text), None) = (found.next(), found.next()) else {
        return Err(StatusCode::BAD_REQUEST);
    };
    let mut message = vec![0; REQUEST_OCTETS];
    match BASE64.decode_slice(text, &mut message) {
        Ok(octets) => {
            message.truncate(octets);
            Ok(message)
        }
        Err(DecodeSliceError::OutputSliceTooSmall) => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(DecodeSliceError::DecodeError(_)) => Err(StatusCode::BAD_REQUEST),
    }
}

/// The head of a response with a reply.
pub(crate) fn found(reply: &[u8]) -> http::Response<()> {
    let mut response = http::Response::new(());
    let age = format!("max-age={}", lifetime(reply));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MESSAGE));
    headers.insert(CONTENT_LENGTH, reply.len().into());
    if let Ok(age) = age.try_into() {
        headers.insert(CACHE_CONTROL, age);
    }
    response
}

/// The head of a response without a reply.
pub(crate) fn failed(status: StatusCode) -> http::Response<()> {
    let mut response = http::Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, 0.into());
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response
}

/// The seconds for which a client may cache a reply: no longer than any of its records (section 5.1).
fn lifetime(reply: &[u8]) -> u32 {
    let (Some(flags), Some(records)) = (reply.get(3), RawRecords::of(reply)) else {
        return SHORTEST_LIFETIME;
    };
    let mut rcode = u16::from(*flags & 15);
    let (mut has_answer, mut is_negative, mut shortest) = (false, false, LONGEST_LIFETIME);
    for (section, record) in records {
        match record.rtype {
            // The upper bits of the response code (RFC 6891 section 6.1.3).
            Rtype::OPT => rcode |= u16::from(record.ttl[0]) << 4,
            Rtype::TSIG => {}
            rtype => {
                has_answer |= section == 0;
                is_negative |= section == 1 && rtype == Rtype::SOA;
                let ttl = Ttl::decode(u32::from_be_bytes(record.ttl));
                shortest = shortest.min(ttl.seconds());
            }
        }
    }
    match Rcode(rcode) {
        Rcode::NOERROR if is_negative || has_answer => shortest,
        Rcode::NXDOMAIN if is_negative => shortest,
        _ => SHORTEST_LIFETIME,
    }
}

#[cfg(test)]
mod tests {
    use dns::Query;
    use dns::testing::query;

    use super::*;
    use crate::testing::desk::Desk;

    /// The result for a request with these parts.
    fn look(method: &str, uri: &str, content_type: Option<&str>) -> Result<Carried, u16> {
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        find(&request.body(()).unwrap()).map_err(|status| status.as_u16())
    }

    /// RFC 8484 section 4.1.1, its first example.
    #[test]
    fn the_message_of_a_get_is_in_its_uri() {
        let text = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        let Ok(Carried::InUri(message)) = look("GET", &format!("/dns-query?dns={text}"), None)
        else {
            panic!("no message");
        };
        let query = Query::parse(&message).unwrap();
        assert_eq!(query.name(), b"\x03www\x07example\x03com\0");
        let larger = BASE64.encode(vec![0; REQUEST_OCTETS + 1]);
        for (uri, want) in [
            ("/dns-query".to_owned(), 400),
            ("/dns-query?dn=AAAB".to_owned(), 400),
            ("/dns-query?dns=AA%3D".to_owned(), 400),
            ("/dns-query?dns=AAAB&dns=AAAB".to_owned(), 400),
            (format!("/dns-query?dns={larger}"), 413),
            (format!("/?dns={text}"), 404),
        ] {
            assert_eq!(look("GET", &uri, None), Err(want), "{uri}");
        }
        assert!(look("GET", &format!("/dns-query?x=1&dns={text}"), None).is_ok());
    }

    /// RFC 8484 section 4.1, RFC 9110 sections 15.5.6 and 15.5.16.
    #[test]
    fn a_post_says_that_it_has_a_message() {
        for said in [MESSAGE, "Application/DNS-Message; x=1"] {
            assert_eq!(look("POST", PATH, Some(said)), Ok(Carried::InBody));
        }
        for said in [None, Some("text/plain"), Some("application/dns-json")] {
            assert_eq!(look("POST", PATH, said), Err(415));
        }
        for method in ["HEAD", "PUT", "OPTIONS"] {
            assert_eq!(look(method, PATH, Some(MESSAGE)), Err(405));
        }
        let refused = failed(StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(refused.headers()[ALLOW], "GET, POST");
    }

    /// RFC 8484 section 5.1: no longer than the smallest TTL; for a negative answer the SOA's.
    #[test]
    fn a_reply_is_kept_as_long_as_its_records() {
        let mut desk = Desk::with(&[
            "www A 10.0.0.1",
            "day 86400 A 10.0.0.1",
            "soon 7 A 10.0.0.1",
        ]);
        for (name, want) in [
            ("www.z.", 60),
            ("soon.z.", 7),
            ("day.z.", LONGEST_LIFETIME),
            ("elsewhere.", SHORTEST_LIFETIME),
        ] {
            let reply = desk.octets(&query(1, name, Rtype::A));
            assert_eq!(lifetime(&reply), want, "{name}");
        }
        let missing = desk.octets(&query(1, "no.z.", Rtype::A));
        assert!(lifetime(&missing) > SHORTEST_LIFETIME);
        assert_eq!(lifetime(&missing[..12]), SHORTEST_LIFETIME);
        let said = found(&missing);
        assert_eq!(said.headers()[CONTENT_LENGTH], missing.len().to_string());
    }
}
