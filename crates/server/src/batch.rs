//! Receives and sends many datagrams with one system call (recvmmsg, sendmmsg): two calls for each query took a tenth
//! of its cost.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, sendmsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::way::{self, Ours, Way};

/// The most datagrams in one system call.
pub(super) const BATCH: usize = 32;

/// Received datagrams.
pub(super) struct Inbox {
    /// Space for the datagrams, the same for each.
    room: Box<[u8]>,
    /// The most octets of a datagram. A longer one is cut.
    octets: usize,
    /// Whether the system reports the address that each was sent to.
    is_told: bool,
    /// The length and the path of each received datagram.
    came: Vec<(usize, Way)>,
}

impl Inbox {
    /// Space for datagrams of so many octets. `is_told` is for a socket on all addresses.
    pub(crate) fn new(octets: usize, is_told: bool) -> Self {
        Self {
            room: vec![0; octets * BATCH].into_boxed_slice(),
            octets,
            is_told,
            came: Vec::with_capacity(BATCH),
        }
    }

    /// Receives the datagrams that wait, in place of the earlier ones, and returns their number.
    ///
    /// # Errors
    /// Those of the system; `WouldBlock` when no datagram waits.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.came.clear();
        let (room, octets, came) = (&mut self.room, self.octets, &mut self.came);
        let is_told = self.is_told;
        socket.try_io(Interest::READABLE, || {
            let mut slices: Vec<[IoSliceMut<'_>; 1]> = room
                .chunks_exact_mut(octets)
                .map(|slice| [IoSliceMut::new(slice)])
                .collect();
            let told = is_told.then(way::room);
            let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(slices.len(), told);
            let fd = socket.as_raw_fd();
            let flags = MsgFlags::MSG_DONTWAIT;
            for datagram in recvmmsg(fd, &mut headers, slices.iter_mut(), flags, None)? {
                // Datagrams of an IP socket have a peer. One without a peer cannot be answered.
                let peer = datagram.address.as_ref().and_then(address_of);
                let peer = peer.unwrap_or(way::UNKNOWN);
                let told = datagram.cmsgs().ok().filter(|_| is_told);
                let ours = told.and_then(Ours::of);
                came.push((datagram.bytes, Way { peer, ours }));
            }
            Ok(came.len())
        })
    }

    /// A received datagram and its path.
    pub(crate) fn get(&self, place: usize) -> (&[u8], Way) {
        let (octets, way) = self.came[place];
        let start = place * self.octets;
        (&self.room[start..start + octets], way)
    }
}

/// Datagrams to send.
#[derive(Default)]
pub(super) struct Outbox {
    /// The datagrams, one after the other.
    octets: Vec<u8>,
    /// The end of each, and its path.
    ends: Vec<(usize, Way)>,
}

impl Outbox {
    /// Adds a datagram, which is sent back on the path of a received one.
    pub(crate) fn add(&mut self, octets: &[u8], way: Way) {
        self.octets.extend_from_slice(octets);
        self.ends.push((self.octets.len(), way));
    }

    /// Sends all datagrams, and waits while the system has no room. `failed` is called for each that could not be sent.
    pub(crate) async fn send(
        &mut self,
        socket: &UdpSocket,
        mut failed: impl FnMut(SocketAddr, io::Error),
    ) {
        let mut first = 0;
        while let Some((_, Way { peer, .. })) = self.ends.get(first) {
            match self.give(socket, first) {
                Ok(count) => first += count.max(1),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = socket.writable().await {
                        failed(*peer, error);
                        break;
                    }
                }
                Err(error) => {
                    failed(*peer, error);
                    first += 1;
                }
            }
        }
        self.octets.clear();
        self.ends.clear();
    }

    /// Sends datagrams in one system call, beginning with `first`, and returns the number sent. They share the address
    /// that they are sent from.
    fn give(&self, socket: &UdpSocket, first: usize) -> io::Result<usize> {
        let (end, Way { peer, ours }) = self.ends[first];
        let start = first.checked_sub(1).map_or(0, |last| self.ends[last].0);
        let waiting = self.ends[first..].iter().take(BATCH);
        let alike = waiting.take_while(|(_, way)| way.ours == ours).count();
        let (fd, flags) = (socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        let told = ours.map(Ours::told);
        let message = told.as_ref().map(way::Told::message);
        let messages = message.as_slice();
        if alike == 1 {
            let octets = &self.octets[start..end];
            if messages.is_empty() {
                return socket.try_send_to(octets, peer).map(|_| 1);
            }
            let (slices, peer) = ([IoSlice::new(octets)], SockaddrStorage::from(peer));
            return socket.try_io(Interest::WRITABLE, || {
                sendmsg(fd, &slices, messages, flags, Some(&peer))?;
                Ok(1)
            });
        }
        let ends = &self.ends[first..first + alike];
        let starts = std::iter::once(start).chain(ends.iter().map(|(end, _)| *end));
        let slices: Vec<[IoSlice<'_>; 1]> = starts
            .zip(ends)
            .map(|(start, (end, _))| [IoSlice::new(&self.octets[start..*end])])
            .collect();
        let peers: Vec<Option<SockaddrStorage>> =
            ends.iter().map(|(_, way)| Some(way.peer.into())).collect();
        socket.try_io(Interest::WRITABLE, || {
            let room = ours.map(Ours::room);
            let mut headers = MultiHeaders::preallocate(slices.len(), room);
            let sent = sendmmsg(fd, &mut headers, &slices, &peers, messages, flags)?;
            Ok(sent.count())
        })
    }
}

/// The address in the system's form as std's.
fn address_of(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddrV4::from(*v4).into());
    }
    let v6 = storage.as_sockaddr_in6()?;
    Some(SocketAddrV6::from(*v6).into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    async fn socket() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    #[tokio::test]
    async fn more_than_a_batch_comes_whole_and_from_whom_it_came() {
        let (ours, address) = socket().await;
        let (one, first) = socket().await;
        let (two, second) = socket().await;
        let mut sent = BTreeSet::new();
        for number in 0..70_u8 {
            let (from, peer) = if number % 2 == 0 {
                (&one, first)
            } else {
                (&two, second)
            };
            let octets = vec![number; usize::from(number)];
            from.send_to(&octets, address).await.unwrap();
            sent.insert((octets, peer));
        }
        let mut inbox = Inbox::new(64, false);
        let mut came = BTreeSet::new();
        while came.len() < 70 {
            ours.readable().await.unwrap();
            let count = inbox.receive(&ours).unwrap_or_default();
            assert!(count <= BATCH);
            came.extend((0..count).map(|place| {
                let (octets, way) = inbox.get(place);
                assert_eq!(way.ours, None);
                (octets.to_vec(), way.peer)
            }));
        }
        // A datagram that is longer than its space is cut.
        let cut = sent.into_iter().map(|(mut octets, peer)| {
            octets.truncate(64);
            (octets, peer)
        });
        assert_eq!(came, cut.collect());
        assert_eq!(
            inbox.receive(&ours).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[tokio::test]
    async fn one_that_cannot_be_sent_keeps_no_other_back() {
        let (ours, _) = socket().await;
        let (theirs, peer) = socket().await;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut outbox = Outbox::default();
        for number in 0..80_u8 {
            let peer = if number % 20 == 7 { nowhere } else { peer };
            outbox.add(&[number; 3], Way { peer, ours: None });
        }
        let mut failed = Vec::new();
        outbox.send(&ours, |peer, _| failed.push(peer)).await;
        assert_eq!(failed, vec![nowhere; 4]);
        for number in (0..80_u8).filter(|number| number % 20 != 7) {
            let mut octets = [0; 10];
            let count = theirs.recv(&mut octets).await.unwrap();
            assert_eq!(octets[..count], [number; 3]);
        }
        // The outbox is empty, and can be used again.
        outbox.add(b"last", Way { peer, ours: None });
        outbox.send(&ours, |_, _| panic!("it can be sent")).await;
        let mut octets = [0; 10];
        assert_eq!(theirs.recv(&mut octets).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn replies_of_a_batch_leave_from_the_address_that_each_request_came_to() {
        let listener = crate::Listener::bind(([0, 0, 0, 0], 0).into(), 1, &[]).unwrap();
        let port = listener.address().port();
        let [ours] = <[UdpSocket; 1]>::try_from(listener.into_udp()).unwrap();
        // Two neighbours for the first host, which make a run of their own, and others one by one.
        let hosts = [1_u8, 5, 5, 9, 5, 1, 9];
        let mut clients = Vec::new();
        for host in hosts {
            let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            // Only datagrams from this address are received.
            let asked = SocketAddr::from(([127, 0, 0, host], port));
            client.connect(asked).await.unwrap();
            client.send(&[host]).await.unwrap();
            clients.push((client, host));
        }
        let (mut inbox, mut outbox) = (Inbox::new(64, true), Outbox::default());
        let mut came = 0;
        while came < hosts.len() {
            ours.readable().await.unwrap();
            let count = inbox.receive(&ours).unwrap_or_default();
            came += count;
            for place in 0..count {
                let (octets, way) = inbox.get(place);
                assert_eq!(way.ours, Some(Ours::V4([127, 0, 0, octets[0]].into())));
                outbox.add(octets, way);
            }
        }
        outbox
            .send(&ours, |peer, error| panic!("{peer}: {error}"))
            .await;
        for (client, host) in clients {
            let mut octets = [0; 10];
            let reply = ops::testing::soon(client.recv(&mut octets)).await;
            assert_eq!((reply.unwrap(), octets[0]), (1, host));
        }
    }
}
