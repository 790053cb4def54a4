//! What a replica is part of: the program that serves versions, makes them and tells secondaries of them.

use dns::{Name, Serial};
use replicas::chain::{Epoch, Tip};
use replicas::lease::Loss;

/// Takes what the replica wants of the program. No call may wait: the loop does nothing else meanwhile.
pub trait Host: Send {
    /// This version of a zone is visible now, with all before it. It is on disk.
    fn show(&mut self, zone: &Name, tip: &Tip);

    /// NOTIFY is due for this version.
    fn notify(&mut self, zone: &Name, serial: Serial);

    /// The own watch has to be proven fresh, and the secondaries are to be asked for their serials:
    /// [`Handle::proven`](crate::driver::Handle::proven) is the answer.
    fn prove(&mut self, epoch: Epoch);

    /// Versions may be made from now on. With `must_publish` each zone gets one, even with the same content.
    fn lead(&mut self, epoch: Epoch, must_publish: bool);

    /// No versions may be made any more.
    fn stop(&mut self, loss: Loss);

    /// The step that was proposed for a zone is not in the journal, and its serial is not used.
    fn declined(&mut self, zone: &Name);
}
