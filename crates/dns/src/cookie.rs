//! Server cookies: made from the client's cookie, its address and the time, and recognised later (RFC 9018).
//!
//! They let a client know our replies from forged ones, and prove that a client has its address. Requests without a
//! cookie are answered too, unless a block requires one.

use std::net::IpAddr;
use std::sync::Arc;

use siphasher::sip::SipHasher24;
use subtle::ConstantTimeEq;

const SERVER_COOKIE_OCTETS: usize = 16;
/// A server cookie.
type ServerCookie = [u8; SERVER_COOKIE_OCTETS];
/// The age in seconds at which our cookie is replaced (RFC 9018 section 4.3: half an hour).
const RENEW_SECONDS: u32 = 1800;
/// The seconds by which a cookie may be ahead of our clock (RFC 9018 section 4.3: five minutes).
const AHEAD_SECONDS: u32 = 300;
/// The age in seconds up to which a cookie proves an address (RFC 9018 section 4.3: an hour).
const GOOD_SECONDS: u32 = 3600;
/// Version 1 and three reserved octets (RFC 9018 section 4.2).
const HEAD: [u8; 4] = [1, 0, 0, 0];

/// Makes server cookies.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieSecrets {
    /// Makes cookies.
    current: Secret,
    /// Their cookies are still good, but replaced.
    old: Arc<[Secret]>,
}

/// A secret of 16 octets, which must be random.
pub type Secret = [u8; 16];

impl CookieSecrets {
    /// Takes the secret that makes cookies, and others whose cookies are still good (RFC 7873 section 7.1).
    #[must_use]
    pub fn new(current: Secret, old: &[Secret]) -> Self {
        let old = old.into();
        Self { current, old }
    }

    /// Whether a client brings a cookie of ours that is new enough.
    #[must_use]
    pub fn is_good(&self, client: &[u8; 8], brought: &[u8], address: IpAddr, now: u64) -> bool {
        let old = self.old.iter();
        let mut secrets = std::iter::once(&self.current).chain(old);
        let now = (seconds(now), GOOD_SECONDS);
        secrets.any(|secret| is_made_by(secret, client, brought, address, now))
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
    ) -> ServerCookie {
        let now = seconds(now);
        match brought.try_into() {
            Ok(theirs)
                if is_made_by(
                    &self.current,
                    client,
                    brought,
                    address,
                    (now, RENEW_SECONDS),
                ) =>
            {
                theirs
            }
            Ok(_) | Err(_) => make(&self.current, client, now, address),
        }
    }
}

/// A time as cookies have it, which wraps in 2106.
fn seconds(now: u64) -> u32 {
    let [_, _, _, _, n0, n1, n2, n3] = now.to_be_bytes();
    u32::from_be_bytes([n0, n1, n2, n3])
}

/// Whether a secret made a server cookie less than so many seconds ago.
fn is_made_by(
    secret: &Secret,
    client: &[u8; 8],
    brought: &[u8],
    address: IpAddr,
    (now, most_seconds): (u32, u32),
) -> bool {
    let Ok(theirs) = <ServerCookie>::try_from(brought) else {
        return false;
    };
    let [_, _, _, _, t0, t1, t2, t3, ..] = theirs;
    let time = u32::from_be_bytes([t0, t1, t2, t3]);
    // Times are serial numbers (RFC 9018 section 4.3): "using serial number arithmetic".
    let is_new = now.wrapping_sub(time) < most_seconds || time.wrapping_sub(now) <= AHEAD_SECONDS;
    // How many octets are right must not show in the time that it takes.
    is_new && make(secret, client, time, address).ct_eq(&theirs).into()
}

/// The server cookie for a time (RFC 9018 section 4.4).
fn make(secret: &Secret, client: &[u8; 8], time: u32, address: IpAddr) -> ServerCookie {
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
    let hash = SipHasher24::new_with_key(secret).hash(&input[..octets]);
    cookie[8..].copy_from_slice(&hash.to_le_bytes());
    cookie
}

impl std::fmt::Debug for CookieSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieSecrets(not shown)")
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
            let made = CookieSecrets::new(octets(secret), &[]).server_cookie(
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
        let secret = CookieSecrets::new([9; 16], &[]);
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

    #[test]
    fn a_cookie_of_an_old_secret_is_good_for_an_hour_and_replaced() {
        let here: IpAddr = "192.0.2.1".parse().unwrap();
        let now = 1_700_000_000;
        let (client, before) = ([1; 8], CookieSecrets::new([9; 16], &[]));
        let after = CookieSecrets::new([8; 16], &[[9; 16]]);
        for (age, is_good) in [(0, true), (3599, true), (3600, false)] {
            let brought = before.server_cookie(&client, &[], here, now - age);
            assert_eq!(
                after.is_good(&client, &brought, here, now),
                is_good,
                "{age}"
            );
            let given = after.server_cookie(&client, &brought, here, now);
            assert_eq!(given, after.server_cookie(&client, &[], here, now));
            let there = "192.0.2.2".parse().unwrap();
            assert!(!after.is_good(&client, &brought, there, now));
            let forgotten = CookieSecrets::new([8; 16], &[]);
            assert!(!forgotten.is_good(&client, &brought, here, now));
        }
        // Two servers with one secret know each other's cookies.
        let brought = before.server_cookie(&client, &[], here, now);
        assert!(CookieSecrets::new([9; 16], &[]).is_good(&client, &brought, here, now));
    }
}
