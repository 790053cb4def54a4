//! Datagrams taken from the system and given to it many at a time (recvmmsg, sendmmsg): of what a query
//! costs, entering the system twice was a tenth.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// The most datagrams that are taken or given at once.
pub(super) const BATCH: usize = 32;

/// What came.
pub(super) struct Inbox {
    /// Room for the datagrams, of the same size each.
    room: Box<[u8]>,
    /// The most octets of one; a longer one is cut.
    octets: usize,
    /// Octets and peer of each that came.
    came: Vec<(usize, SocketAddr)>,
}

impl Inbox {
    /// Room for datagrams of so many octets.
    pub(super) fn new(octets: usize) -> Self {
        Self {
            room: vec![0; octets * BATCH].into_boxed_slice(),
            octets,
            came: Vec::with_capacity(BATCH),
        }
    }

    /// Takes what waits, and forgets what came before; says how many there are.
    ///
    /// # Errors
    /// Those of the system; `WouldBlock` when nothing waits.
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.came.clear();
        let (room, octets, came) = (&mut self.room, self.octets, &mut self.came);
        socket.try_io(Interest::READABLE, || {
            let mut slices: Vec<[IoSliceMut<'_>; 1]> = room
                .chunks_exact_mut(octets)
                .map(|slice| [IoSliceMut::new(slice)])
                .collect();
            let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(slices.len(), None);
            let fd = socket.as_raw_fd();
            let flags = MsgFlags::MSG_DONTWAIT;
            for datagram in recvmmsg(fd, &mut headers, slices.iter_mut(), flags, None)? {
                // Datagrams of an IP socket have a peer; one without cannot be answered.
                let peer = datagram.address.as_ref().and_then(address_of);
                came.push((datagram.bytes, peer.unwrap_or(super::udp::UNKNOWN)));
            }
            Ok(came.len())
        })
    }

    /// One of those that came.
    pub(super) fn get(&self, place: usize) -> (&[u8], SocketAddr) {
        let (octets, peer) = self.came[place];
        let start = place * self.octets;
        (&self.room[start..start + octets], peer)
    }
}

/// What is to be sent.
#[derive(Default)]
pub(super) struct Outbox {
    /// The datagrams, one after the other.
    octets: Vec<u8>,
    /// Where each ends, and to whom it goes.
    ends: Vec<(usize, SocketAddr)>,
}

impl Outbox {
    /// Adds a datagram.
    pub(super) fn add(&mut self, octets: &[u8], peer: SocketAddr) {
        self.octets.extend_from_slice(octets);
        self.ends.push((self.octets.len(), peer));
    }

    /// Sends all there is, waiting where the system has no room; `failed` is told of what could not be sent.
    pub(super) async fn send(
        &mut self,
        socket: &UdpSocket,
        mut failed: impl FnMut(SocketAddr, io::Error),
    ) {
        let mut first = 0;
        while let Some((_, peer)) = self.ends.get(first) {
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

    /// Gives datagrams to the system, from one of them on; says how many it took.
    fn give(&self, socket: &UdpSocket, first: usize) -> io::Result<usize> {
        let waiting = self.ends.len() - first;
        let start = first.checked_sub(1).map_or(0, |last| self.ends[last].0);
        if waiting == 1 {
            let (end, peer) = self.ends[first];
            return socket
                .try_send_to(&self.octets[start..end], peer)
                .map(|_| 1);
        }
        let ends = &self.ends[first..(first + waiting.min(BATCH))];
        let starts = std::iter::once(start).chain(ends.iter().map(|(end, _)| *end));
        let slices: Vec<[IoSlice<'_>; 1]> = starts
            .zip(ends)
            .map(|(start, (end, _))| [IoSlice::new(&self.octets[start..*end])])
            .collect();
        let peers: Vec<Option<SockaddrStorage>> =
            ends.iter().map(|(_, peer)| Some((*peer).into())).collect();
        socket.try_io(Interest::WRITABLE, || {
            let mut headers = MultiHeaders::preallocate(slices.len(), None);
            let flags = MsgFlags::MSG_DONTWAIT;
            let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &slices, &peers, [], flags)?;
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
        let mut inbox = Inbox::new(64);
        let mut came = BTreeSet::new();
        while came.len() < 70 {
            ours.readable().await.unwrap();
            let count = inbox.receive(&ours).unwrap_or_default();
            assert!(count <= BATCH);
            came.extend((0..count).map(|place| {
                let (octets, peer) = inbox.get(place);
                (octets.to_vec(), peer)
            }));
        }
        // What is longer than there is room for is cut.
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
            outbox.add(&[number; 3], if number % 20 == 7 { nowhere } else { peer });
        }
        let mut failed = Vec::new();
        outbox.send(&ours, |peer, _| failed.push(peer)).await;
        assert_eq!(failed, vec![nowhere; 4]);
        for number in (0..80_u8).filter(|number| number % 20 != 7) {
            let mut octets = [0; 10];
            let count = theirs.recv(&mut octets).await.unwrap();
            assert_eq!(octets[..count], [number; 3]);
        }
        // It is empty, and takes more.
        outbox.add(b"last", peer);
        outbox.send(&ours, |_, _| panic!("it can be sent")).await;
        let mut octets = [0; 10];
        assert_eq!(theirs.recv(&mut octets).await.unwrap(), 4);
    }
}
