//! Two servers with one secret of cookies, and a client that is not ours: each takes the server cookie that the other made.

use std::net::SocketAddr;
use std::process::Command;

use crate::support::needs;
use crate::support::process::Process;
use crate::support::product::{START, Site};
use crate::support::wire;

const ZONE: &str = "@ 300 SOA ns hostmaster 1 300 30 86400 30\n@ 300 NS ns\nns 300 A 127.0.0.1\n";
const CLIENT: &str = "0123456789abcdef";

/// A server that answers datagrams only with a cookie.
fn server(secret: &str) -> (Site, Process) {
    let site = Site::new();
    site.write("db", ZONE);
    site.write("secret", &format!("{secret}\n"));
    site.write(
        "Corefile",
        &format!(
            "example.org:{} {{\n    bind 127.0.0.1\n    file {}\n    cookies {{\n        secret {}\n        \
             require\n    }}\n}}\n",
            site.dns.port(),
            site.path("db").display(),
            site.path("secret").display()
        ),
    );
    let mut process = site.start();
    let query = wire::Query::new("example.org", wire::SOA);
    process.wait_for("an SOA by TCP", START, || {
        wire::tcp(site.dns, &query)
            .ok()
            .filter(|it| !it.answers.is_empty())
    });
    (site, process)
}

/// What dig says: the status, the cookie that it has then, and whether dig finds the client's part right.
fn dig(server: SocketAddr, cookie: &str) -> (String, String, bool) {
    let mut command = Command::new(needs::program("dig"));
    command.args(["-r", "@127.0.0.1", "-p", &server.port().to_string()]);
    command.args(["+tries=1", "+time=5", "+notcp", "+nobadcookie"]);
    let cookie = format!("+cookie={cookie}");
    command.args([cookie.as_str(), "example.org", "SOA"]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let status = text
        .split("status: ")
        .nth(1)
        .and_then(|it| it.split(',').next());
    let line = text
        .split("; COOKIE: ")
        .nth(1)
        .and_then(|it| it.lines().next());
    let line = line.unwrap_or_default();
    let cookie = line.split_whitespace().next().unwrap_or_default();
    let status = status.unwrap_or(&text);
    (
        status.to_owned(),
        cookie.to_owned(),
        line.contains("(good)"),
    )
}

#[test]
fn two_servers_with_one_secret_take_each_others_cookies_from_dig() {
    if needs::lacks(&["dig"]) {
        return;
    }
    const SECRET: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
    let (one, mut first) = server(SECRET);
    let (two, mut second) = server(SECRET);
    let (other, mut third) = server("00112233445566778899aabbccddeeff");
    for (from, to) in [(one.dns, two.dns), (two.dns, one.dns)] {
        let (status, cookie, is_good) = dig(from, CLIENT);
        assert_eq!((status.as_str(), is_good), ("BADCOOKIE", true), "{cookie}");
        assert_eq!(
            (cookie.len(), cookie.starts_with(CLIENT)),
            (48, true),
            "{cookie}"
        );
        let said = dig(to, &cookie);
        assert_eq!(said, ("NOERROR".to_owned(), cookie.clone(), true));
        let (status, new, _) = dig(other.dns, &cookie);
        assert_eq!(status, "BADCOOKIE");
        assert_ne!(
            new, cookie,
            "a server with another secret makes one of its own"
        );
        // Another client's.
        let stolen = cookie.replacen("0123", "3210", 1);
        assert_eq!(dig(to, &stolen).0, "BADCOOKIE");
    }
    for server in [&mut first, &mut second, &mut third] {
        server.kill();
    }
}
