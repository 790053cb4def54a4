//! A panic while a message is answered costs that message: its client gets SERVFAIL.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dns::{HEADER_OCTETS, Rcode, flags, wire_name_len};
use ops::panic_text;
use tracing::error;

use crate::Proto;
use crate::exchange::{Answered, Asker, Later, Outcome, Scratch};
use crate::shared::Shared;

impl Shared {
    /// As [`Self::respond`], for a single message.
    pub(crate) fn respond_or_fail(
        &self,
        scratch: &mut Scratch,
        raw: &[u8],
        asker: Asker<'_>,
    ) -> Outcome {
        // What a panic leaves half written is the scratch, which is replaced.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.respond(scratch, raw, asker)));
        outcome.unwrap_or_else(|panic| self.fail_after(&*panic, scratch, raw, asker.proto))
    }

    /// As [`Self::complete`], for a single message.
    pub(crate) fn complete_or_fail(
        &self,
        scratch: &mut Scratch,
        raw: &[u8],
        later: Later,
        answered: Answered,
    ) -> Outcome {
        let proto = later.proto;
        let outcome = catch_unwind(AssertUnwindSafe(|| self.complete(scratch, later, answered)));
        outcome.unwrap_or_else(|panic| self.fail_after(&*panic, scratch, raw, proto))
    }

    /// Counts and logs a panic, and writes SERVFAIL for the message that caused it. Nothing of the message is used that
    /// could have caused it.
    pub(crate) fn fail_after(
        &self,
        panic: &(dyn Any + Send),
        scratch: &mut Scratch,
        raw: &[u8],
        proto: Proto,
    ) -> Outcome {
        self.stats.panics.increase();
        if self.panicked.is_due(&(), self.clock.now()) {
            let text = panic_text(panic);
            error!("Recovered from panic in server: {text}");
        }
        *scratch = Scratch::new();
        let Some((header, rest)) = raw.split_at_checked(HEADER_OCTETS) else {
            return Outcome::Silent;
        };
        let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let (id, came) = (number(0), number(2));
        if came & flags::QR != 0 {
            return Outcome::Silent;
        }
        let question = wire_name_len(rest).and_then(|name| rest.get(..name + 4));
        let question = question.filter(|_| number(4) == 1).unwrap_or_default();
        self.fail_unread(scratch, (id, came, question), Rcode::SERVFAIL, proto)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dns::Rtype;
    use dns::testing::query;
    use futures_util::future::BoxFuture;
    use ops::testing::soon;
    use zone::testing::zone;

    use crate::testing::{Running, Setup};
    use crate::{Handler, Next, Question, Request};

    /// Panics before a question is passed on, at one name.
    struct Faulty;

    impl Handler for Faulty {
        fn name(&self) -> &'static str {
            "faulty"
        }

        fn passes(&self, question: &Question<'_>) -> bool {
            assert_ne!(question.name, b"\x04boom\x01z\x00", "a fault");
            true
        }

        fn answer<'a>(
            &'a self,
            request: &'a mut Request,
            next: Next,
        ) -> BoxFuture<'a, crate::Outcome> {
            Box::pin(next.run(request))
        }
    }

    fn running() -> Running {
        let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1"])]);
        setup.settings.udp_sockets = 1;
        setup.handlers = [vec![Arc::new(Faulty)], vec![]];
        setup.start()
    }

    /// security, further findings: "a panic in the UDP fast path is not caught".
    #[tokio::test]
    async fn a_panic_costs_one_datagram() {
        let running = running();
        for (qname, rcode) in [("www.z.", 0), ("boom.z.", 2), ("BOOM.z.", 2), ("www.z.", 0)] {
            let request = query(7, qname, Rtype::A);
            let reply = running.udp_raw(&request).await;
            assert_eq!(reply[3] & 15, rcode, "{qname}");
            assert_eq!(reply[12..request.len()], request[12..], "{qname}");
        }
        assert_eq!(running.stats.panics.get(), 2);
    }

    /// The server reads what is there at once.
    #[tokio::test]
    async fn a_panic_costs_one_of_the_datagrams_that_came_together() {
        let running = running();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for (id, qname) in ["www.z.", "boom.z.", "www.z.", "www.z."].iter().enumerate() {
            let request = query(u16::try_from(id).unwrap(), qname, Rtype::A);
            socket.send_to(&request, running.address).unwrap();
        }
        socket.set_nonblocking(true).unwrap();
        let socket = tokio::net::UdpSocket::from_std(socket).unwrap();
        let mut codes = [None; 4];
        for _ in 0..4 {
            let mut reply = [0; 512];
            soon(socket.recv(&mut reply)).await.unwrap();
            codes[usize::from(reply[1])] = Some(reply[3] & 15);
        }
        assert_eq!(codes, [Some(0), Some(2), Some(0), Some(0)]);
        assert_eq!(running.stats.panics.get(), 1);
    }

    #[tokio::test]
    async fn a_panic_costs_one_message_of_a_connection() {
        let running = running();
        let mut client = running.connect().await;
        for (qname, rcode) in [("boom.z.", 2), ("www.z.", 0)] {
            client.send(&query(7, qname, Rtype::A)).await;
            let reply = client.receive().await.unwrap();
            assert_eq!(reply[3] & 15, rcode, "{qname}");
        }
        assert_eq!(running.stats.panics.get(), 1);
    }
}
