//! `acl`: which queries are answered, and the replies to the others.

use super::case::{Case, case};

/// Rules in front of a template that answers everything; all questions are of a client with EDNS, for CoreDNS
/// puts an OPT into what it refuses whoever asks.
macro_rules! rules {
    ($($name:literal: $rules:literal => $script:literal;)*) => {
        &[$(case(
            concat!("acl ", $name),
            concat!(
                $rules,
                "\ntemplate ANY A {\n answer \"{{ .Name }} 60 IN A 10.0.0.1\"\n}",
                "\ntemplate ANY TXT {\n answer \"{{ .Name }} 60 IN TXT x\"\n}",
                "\ntemplate ANY AAAA {\n answer \"{{ .Name }} 60 IN AAAA fd00::1\"\n}"
            ),
            $script
        ),)*]
    };
}

pub const CASES: &[Case] = rules! {
    "block all": "acl {\n block\n}" => "a.test A +do\na.test TXT +do";
    "filter all": "acl {\n filter\n}" => "a.test A +do";
    "allow all": "acl {\n allow\n}" => "a.test A +do\na.test A";
    "nothing": "acl" => "a.test A +do";
    "block a type": "acl {\n block type A\n}" => "a.test A +do\na.test TXT +do";
    "block types": "acl {\n block type A AAAA\n}" => "a.test A +do\na.test AAAA +do\na.test TXT +do";
    "block all types": "acl {\n block type *\n}" => "a.test A +do";
    "block an address": "acl {\n block net 127.0.0.1\n}" => "a.test A +do";
    "block a range": "acl {\n block net 127.0.0.0/8\n}" => "a.test A +do";
    "block another range": "acl {\n block net 192.0.2.0/24 fd00::/8\n}" => "a.test A +do";
    "block all nets": "acl {\n block net *\n}" => "a.test A +do";
    "allow first": "acl {\n allow net 127.0.0.0/8\n block\n}" => "a.test A +do";
    "allow a type first": "acl {\n allow type TXT net 127.0.0.1\n block\n}" => "a.test A +do\na.test TXT +do";
    "block before allow": "acl {\n block type A\n allow\n}" => "a.test A +do\na.test TXT +do";
    "filter a type of a net": "acl {\n filter type AAAA net 127.0.0.1\n}" => "a.test AAAA +do\na.test A +do";
    "net before type": "acl {\n filter net 127.0.0.1 type AAAA\n}" => "a.test AAAA +do\na.test A +do";
    "zones": "acl a.test b.test {\n block\n}" => "a.test A +do\nx.b.test A +do\nc.test A +do";
    "several": "acl a.test {\n allow type A\n}\nacl test {\n block\n}" => "a.test A +do\na.test TXT +do\nb.test A +do\nb.org A +do";
    "the first zone decides": "acl test {\n allow\n}\nacl a.test {\n block\n}" => "a.test A +do";
    "words in capitals": "acl {\n BLOCK TYPE A NET 127.0.0.1\n}" => "a.test A +do\na.test TXT +do";
    "of rewritten names": "rewrite name a.test b.test\nacl b.test {\n block\n}" => "a.test A +do\nc.test A +do";
    "sections twice": "acl {\n block type A type TXT\n}" => "a.test A +do\na.test TXT +do\na.test AAAA +do";
    "class CH": "chaos one\nacl {\n block\n}" => "version.bind TXT CH +do\na.test A +do";
};
