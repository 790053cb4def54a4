//! Server cookies: made from the client's cookie, its address and the time, and recognised later (RFC 9018).
//!
//! They let a client know our replies from forged ones, and prove that a client has its address. Requests without a
//! cookie are answered too.
//!
//! # Not implemented
//! BADCOOKIE (RFC 7873 section 5.2.3: "based on server policy"), and a change of the secret while the server runs
//! (section 7.1): each start makes a new one.

use std::net::IpAddr;

use siphasher::sip::SipHasher24;

const SERVER_COOKIE_OCTETS: usize = 16;
/// The age in seconds at which our cookie is replaced (RFC 9018 section 4.3: half an hour).
const RENEW_SECONDS: u32 = 1800;
/// The seconds by which a cookie may be ahead of our clock (RFC 9018 section 4.3: five minutes).
const AHEAD_SECONDS: u32 = 300;
/// Version 1 and three reserved octets (RFC 9018 section 4.2).
const HEAD: [u8; 4] = [1, 0, 0, 0];

/// Makes server cookies.
#[derive(Clone)]
pub struct CookieSecret([u8; 16]);

impl CookieSecret {
    /// Takes 16 octets, which must be random.
    #[must_use]
    pub const fn new(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// The server cookie for a client: the client's own while it is good and new enough, else a new one. `now` is in
    /// seconds since 1970.
    #[must_use]
    pub fn server_cookie(
        &self,
        client: &[u8; 8],
        brought: &[u8],
        address: IpAddr,
        now: u64,
    ) -> [u8; SERVER_COOKIE_OCTETS] {
        let [_, _, _, _, n0, n1, n2, n3] = now.to_be_bytes();
        let now = u32::from_be_bytes([n0, n1, n2, n3]);
        if let Ok(theirs) = <[u8; SERVER_COOKIE_OCTETS]>::try_from(brought) {
            let [_, _, _, _, t0, t1, t2, t3, ..] = theirs;
            let time = u32::from_be_bytes([t0, t1, t2, t3]);
            // Times are serial numbers (RFC 9018 section 4.3): "using serial number arithmetic".
            let is_new =
                now.wrapping_sub(time) < RENEW_SECONDS || time.wrapping_sub(now) <= AHEAD_SECONDS;
            if is_new && self.make(client, time, address) == theirs {
                return theirs;
            }
        }
        self.make(client, now, address)
    }

    /// The server cookie for a time (RFC 9018 section 4.4).
    fn make(&self, client: &[u8; 8], time: u32, address: IpAddr) -> [u8; SERVER_COOKIE_OCTETS] {
        let mut cookie = [0; SERVER_COOKIE_OCTETS];
        cookie[..4].copy_from_slice(&HEAD);
        cookie[4..8].copy_from_slice(&time.to_be_bytes());
        let mut input = [0; 32];
        input[..8].copy_from_slice(client);
        input[8..16].copy_from_slice(&cookie[..8]);
        let octets = match address.to_canonical() {
            IpAddr::V4(address) => {
                input[16..20].copy_from_slice(&address.octets());
                20
            }
            IpAddr::V6(address) => {
                input[16..32].copy_from_slice(&address.octets());
                32
            }
        };
        let hash = SipHasher24::new_with_key(&self.0).hash(&input[..octets]);
        cookie[8..].copy_from_slice(&hash.to_le_bytes());
        cookie
    }
}

impl std::fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieSecret(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets<const N: usize>(hex: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
    }

    /// RFC 9018 appendix A: learning a cookie (A.1), renewing one (A.2), IPv6 (A.4).
    #[test]
    fn i04_cookies_are_those_of_rfc_9018() {
        for (secret, client, address, time, want) in [
            (
                "e5e973e5a6b2a43f48e7dc849e37bfcf",
                "2464c4abcf10c957",
                "198.51.100.100",
                1_559_731_985,
                "010000005cf79f111f8130c3eee29480",
            ),
            (
                "e5e973e5a6b2a43f48e7dc849e37bfcf",
                "2464c4abcf10c957",
                "198.51.100.100",
                1_559_734_385,
                "010000005cf7a871d4a564a1442aca77",
            ),
            (
                "dd3bdf9344b678b185a6f5cb60fca715",
                "22681ab97d52c298",
                "2001:db8:220:1:59de:d0f4:8769:82b8",
                1_559_741_817,
                "010000005cf7c57926556bd0934c72f8",
            ),
        ] {
            let made = CookieSecret::new(octets(secret)).server_cookie(
                &octets(client),
                &[],
                address.parse().unwrap(),
                time,
            );
            assert_eq!(made, octets::<16>(want), "{address}");
        }
    }

    #[test]
    fn i04_a_cookie_is_renewed_when_it_is_old_ahead_or_another_ones() {
        let secret = CookieSecret::new([9; 16]);
        let here: IpAddr = "192.0.2.1".parse().unwrap();
        let now = 1_700_000_000;
        let cookie = |time| secret.server_cookie(&[1; 8], &[], here, time);
        let again = |brought: &[u8]| secret.server_cookie(&[1; 8], brought, here, now);
        let fresh = cookie(now);
        for (time, stays) in [
            (now, true),
            (now - 1799, true),
            (now - 1800, false),
            (now - 100_000, false),
            (now + 300, true),
            (now + 301, false),
        ] {
            let want = if stays { cookie(time) } else { fresh };
            assert_eq!(again(&cookie(time)), want, "{time}");
        }
        let mut forged = cookie(now - 100);
        forged[15] ^= 1;
        assert_eq!(again(&forged), fresh);
        let there = "192.0.2.2".parse().unwrap();
        let theirs = secret.server_cookie(&[1; 8], &[], there, now - 100);
        assert_eq!(again(&theirs), fresh);
        // A mapped address is the same client's.
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(secret.server_cookie(&[1; 8], &[], mapped, now), fresh);
    }
}
