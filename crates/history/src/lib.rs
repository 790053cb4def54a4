//! Commands about the past: log, show, diff, blame, verify, export, status, from the store or over the control
//! socket.

mod act;
mod answer;
mod blame;
mod control;
mod corefile;
mod diff;
mod doubts;
mod error;
mod evidence;
mod export;
mod follow;
mod group;
mod log;
mod making;
mod moment;
mod networks;
mod old_part;
mod order;
mod page;
mod parts;
mod past;
mod pieces;
mod printable;
mod process;
mod remark;
mod requests;
mod set_back;
mod shares;
mod show;
mod status;
mod stream;
mod turns;
mod verify;
mod waiting;
mod watched;
mod why;

pub use answer::{Follow, OrderText, Question, Request, answer};
pub use control::{ControlSocket, PastNow, Refused, Rights, ask, is_served, serve_control};
pub use error::{AuditError, Fault, Output, SCHEMA};
pub use evidence::{
    FileEntry, FileVerdict, Manifest, ManifestError, Note, NoteError, NotedZone, SignedNote,
    check_history, read_notes,
};
pub use follow::{Cursor, Given};
pub use making::{Piece, ReaderTimes};
pub use moment::{Moment, MomentError, Present};
pub use networks::write_condensed;
pub use order::until_ms;
pub use parts::ZoneParts;
pub use past::{BlockLine, Grounds, Order, Past};
pub use pieces::Pieces;
pub use requests::Requests;
pub use shares::{NoPlace, Share, Shares};
pub use show::each_record;
pub use status::{
    AheadLine, ArchiveLine, FollowerLine, HeldLine, HeldNamespaceLine, HistoryLine, ListenerLine,
    NoteLine, OrderLine, ReplicaLine, ResetLine, RestrictionLine, SandboxLine, SecondaryLine,
    SourceLine, Status, ZoneLine,
};
pub use stream::{Streamed, stream, stream_to_socket};
pub use turns::{Turns, read_at_once};
pub use verify::{Anchors, NOT_NAMED, Noted, write_file_verdict, write_verdicts};

#[cfg(test)]
mod tests;
