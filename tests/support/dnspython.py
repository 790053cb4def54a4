"""Asks a server over HTTPS, HTTP/3 or QUIC with dnspython, which speaks them with httpx and aioquic.

    dnspython.py PROTOCOL PORT CA NAME...    the answers to questions for addresses
    dnspython.py PROTOCOL PORT CA            what becomes of bad requests, and of a good one after them

The server is at 127.0.0.1 and has a certificate for ns.example.
"""

import queue
import sys

import aioquic.quic.events
import dns.message
import dns.query
import dns.quic
import dns.rcode
import httpx2

HOST = "ns.example"
LIMIT = 10
MESSAGE = "application/dns-message"


def shown(reply):
    """A reply as its code and addresses."""
    addresses = [data.address for rrset in reply.answer for data in rrset]
    return " ".join([dns.rcode.to_text(reply.rcode()), *addresses])


class Https:
    """HTTP/2 over TLS."""

    def __init__(self, port, authority):
        self.url = f"https://{HOST}:{port}/dns-query"
        transport = dns.query._HTTPTransport(
            http1=False, http2=True, verify=authority, bootstrap_address="127.0.0.1"
        )
        self.client = httpx2.Client(transport=transport)

    def ask(self, query):
        return dns.query.https(query, self.url, timeout=LIMIT, session=self.client)

    def bad(self):
        for method, path, kind, body in [
            ("POST", "/dns-query", MESSAGE, b"\0\1\2"),
            ("POST", "/dns-query", "application/json", b"{}"),
            ("PUT", "/dns-query", MESSAGE, b"\0\1\2"),
            ("POST", "/elsewhere", MESSAGE, b"\0\1\2"),
        ]:
            url = self.url.replace("/dns-query", path)
            headers = {"content-type": kind}
            reply = self.client.request(method, url, headers=headers, content=body, timeout=LIMIT)
            yield f"{reply.http_version} {reply.status_code}"


class Quic:
    """Streams of QUIC, or HTTP/3 over them."""

    def __init__(self, port, authority, is_http):
        self.port, self.authority, self.is_http = port, authority, is_http
        self.url = f"https://{HOST}:{port}/dns-query"

    def ask(self, query):
        if self.is_http:
            return dns.query.https(
                query, self.url, timeout=LIMIT, http_version=dns.query.HTTPVersion.H3,
                bootstrap_address="127.0.0.1", verify=self.authority,
            )
        return dns.query.quic(
            query, "127.0.0.1", timeout=LIMIT, port=self.port, verify=self.authority, hostname=HOST
        )

    def manager(self):
        return dns.quic.SyncQuicManager(
            verify_mode=self.authority, server_name=HOST, h3=self.is_http
        )

    def bad(self):
        if not self.is_http:
            yield self.closed_by(b"\0\1\2")
            yield self.closed_by(dns.message.make_query("host.a.test", "A", id=7).to_wire())
            return
        with self.manager() as manager:
            connection = manager.connect("127.0.0.1", self.port)
            for path, post in [("/dns-query", True), ("/elsewhere", True), ("/dns-query", False)]:
                with connection.make_stream(LIMIT) as stream:
                    stream.send_h3(self.url.replace("/dns-query", path), b"\0\1\2", post)
                    stream.receive(LIMIT)
                    yield "HTTP/3 " + dict(stream.headers())[b":status"].decode()

    def closed_by(self, message):
        """The code with which the server ends the connection of a bad request."""
        codes = queue.Queue()
        with self.manager() as manager:
            connection = manager.connect("127.0.0.1", self.port)
            next_event = connection._connection.next_event

            def note():
                event = next_event()
                if isinstance(event, aioquic.quic.events.ConnectionTerminated):
                    codes.put(event.error_code)
                return event

            connection._connection.next_event = note
            with connection.make_stream(LIMIT) as stream:
                stream.send(message, True)
                return f"closed with {codes.get(timeout=LIMIT)}"


def main():
    protocol, port, authority, *names = sys.argv[1:]
    if protocol == "https":
        client = Https(int(port), authority)
    else:
        client = Quic(int(port), authority, protocol == "https3")
    if not names:
        for line in client.bad():
            print(line)
        names = ["host.a.test"]
    for name in names:
        print(shown(client.ask(dns.message.make_query(name, "A"))))


main()
