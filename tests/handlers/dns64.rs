//! `dns64` and `local`.

use super::case::{Case, case};

/// `dns64` in front of names with IPv4 addresses, with both, and without.
macro_rules! on {
    ($($name:literal: $rules:literal => $script:literal;)*) => {
        &[$(case(
            concat!("dns64 ", $name),
            concat!(
                $rules,
                "\ntemplate IN A gone.test {\n rcode NXDOMAIN\n authority \"test. 9 IN SOA a. b. 1 2 3 4 5\"\n}",
                "\ntemplate IN AAAA gone.test {\n rcode NXDOMAIN\n authority \"test. 9 IN SOA a. b. 1 2 3 4 5\"\n}",
                "\ntemplate IN AAAA both.test {\n answer \"{{ .Name }} 60 IN AAAA fd00::1\"\n}",
                "\ntemplate IN AAAA soa.test {\n authority \"test. 9 IN SOA a. b. 1 2 3 4 5\"\n}",
                "\ntemplate IN AAAA long.test bare.test {\n rcode NOERROR\n}",
                "\ntemplate IN AAAA refused.test {\n rcode REFUSED\n}",
                "\ntemplate IN A long.test {\n answer \"{{ .Name }} 3600 IN A 192.0.2.33\"\n}",
                "\ntemplate IN AAAA alias.test {\n answer \"{{ .Name }} 60 IN CNAME soa.test.\"\n}",
                "\ntemplate IN A alias.test {\n answer \"{{ .Name }} 60 IN CNAME soa.test.\"\n}",
                "\ntemplate IN A {\n answer \"{{ .Name }} 60 IN A 192.0.2.33\"\n}"
            ),
            $script
        ),)*]
    };
}

pub const CASES: &[Case] = on! {
    "of IPv4 clients": "dns64" => "soa.test AAAA\nboth.test AAAA";
    "for IPv4 clients": "dns64 {\n allow_ipv4\n}" => "soa.test AAAA\nboth.test AAAA\nlong.test AAAA\ngone.test AAAA\nsoa.test A\nalias.test AAAA";
    "of all names": "dns64 {\n allow_ipv4\n translate_all\n}" => "soa.test AAAA\nboth.test AAAA\ngone.test AAAA";
    "with a prefix": "dns64 {\n allow_ipv4\n prefix 2001:db8::/32\n}" => "soa.test AAAA\nlong.test AAAA";
    "with a prefix of 64 bits": "dns64 {\n allow_ipv4\n prefix 2001:db8:1:2::/64\n}" => "soa.test AAAA";
    "with a prefix of 56 bits": "dns64 {\n allow_ipv4\n prefix 2001:db8:1:200::/56\n}" => "soa.test AAAA";
    "bare": "dns64 {\n allow_ipv4\n}" => "bare.test AAAA\nbare.test AAAA +do";
};

/// `local`.
pub const LOCAL: &[Case] = &[
    case(
        "local",
        "local\ntemplate IN A {\n answer \"{{ .Name }} 60 IN A 192.0.2.33\"\n}",
        "localhost A\nlocalhost AAAA\nlocalhost NS\nlocalhost SOA\nlocalhost TXT\na.localhost A\na.localhost AAAA\na.localhost NS\n\
         localhost.test A\nlocalhost.test TXT\nxlocalhost A\nlocalhosts.test A\n1.0.0.127.in-addr.arpa PTR\n1.0.0.127.in-addr.arpa A\n\
         2.0.0.127.in-addr.arpa PTR\n127.in-addr.arpa SOA\n127.in-addr.arpa A\n255.in-addr.arpa NS\n0.in-addr.arpa TXT\n1.in-addr.arpa A",
    ),
    case(
        "local without prefix",
        "local {\n localhost_prefix off\n}\ntemplate IN A {\n answer \"{{ .Name }} 60 IN A 192.0.2.33\"\n}",
        "localhost.test A\na.localhost A\nlocalhost A",
    ),
];
