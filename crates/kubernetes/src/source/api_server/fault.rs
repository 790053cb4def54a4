//! The faults of lists and watches, and how to react to them.

use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

use kube::core::Status;
use provenance::Kind;

use crate::source::ErrorClass;

/// The longest pause that a server may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The reason why a list or a watch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// No connection, or it broke.
    Transport(String),
    /// No data for this long.
    Silent(Duration),
    Status {
        /// The HTTP code, or that of an error event.
        code: u16,
        message: String,
        /// The pause that the server asks for.
        retry_after: Option<Duration>,
    },
    /// An error event in a watch. The position is not reliable after it.
    ErrorEvent { code: u16, message: String },
    /// An answer that violates the API.
    Malformed(String),
    /// The watch was closed as soon as it was opened.
    ClosedAtOnce,
}

pub(super) const fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Namespace => "namespaces",
        Kind::Service => "services",
        Kind::EndpointSlice => "endpointslices",
        Kind::ServiceImport => "serviceimports",
        Kind::Pod => "pods",
    }
}

impl Fault {
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "all others are of the connection"
    )]
    pub(super) fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::SerdeError(error) => Self::Malformed(error.to_string()),
            kube::Error::FromUtf8(error) => Self::Malformed(error.to_string()),
            other => Self::Transport(chain(other)),
        }
    }

    fn of_status(status: &Status) -> Self {
        let seconds = status
            .details
            .as_ref()
            .map_or(0, |details| details.retry_after_seconds);
        let retry_after = Duration::from_secs(seconds.into()).min(LONGEST_RETRY_AFTER);
        Self::Status {
            code: status.code,
            message: text_of(status),
            retry_after: (!retry_after.is_zero()).then_some(retry_after),
        }
    }

    pub(super) fn of_event(status: &Status) -> Self {
        Self::ErrorEvent {
            code: status.code,
            message: text_of(status),
        }
    }

    /// The server's position is before ours.
    pub(super) fn went_back() -> Self {
        Self::ErrorEvent {
            code: 410,
            message: "the server has gone back to an earlier state".to_owned(),
        }
    }

    pub(super) const fn class(&self) -> ErrorClass {
        match self {
            Self::Transport(_) | Self::Silent(_) => ErrorClass::Transport,
            Self::Status { code: 410, .. } | Self::ErrorEvent { code: 410, .. } => ErrorClass::Gone,
            Self::Status { code: 401, .. } => ErrorClass::Unauthorized,
            Self::Status { code: 403, .. } => ErrorClass::Forbidden,
            Self::Status { .. } | Self::ErrorEvent { .. } => ErrorClass::Status,
            Self::Malformed(_) => ErrorClass::Malformed,
            Self::ClosedAtOnce => ErrorClass::Closed,
        }
    }

    /// Whether the position of the watch is lost, so that only a new list helps: 410 in either form, and the errors
    /// that servers and proxies send instead. A server that was restored from a backup answers 504 with "too large
    /// resource version" for ever.
    pub(super) fn loses_position(&self) -> bool {
        match self {
            Self::ErrorEvent { .. } | Self::Malformed(_) => true,
            Self::Status { code, message, .. } => {
                matches!(code, 400 | 404 | 410 | 422)
                    || message
                        .to_ascii_lowercase()
                        .contains("too large resource version")
            }
            Self::Transport(_) | Self::Silent(_) | Self::ClosedAtOnce => false,
        }
    }

    /// Whether new credentials or certificates could help, so that they are read again.
    pub(super) const fn may_be_credentials(&self) -> bool {
        match self {
            Self::Transport(_) | Self::Status { code: 401, .. } => true,
            Self::Silent(_)
            | Self::Status { .. }
            | Self::ErrorEvent { .. }
            | Self::Malformed(_)
            | Self::ClosedAtOnce => false,
        }
    }

    /// The pause that the server asks for.
    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Transport(_)
            | Self::Silent(_)
            | Self::ErrorEvent { .. }
            | Self::Malformed(_)
            | Self::ClosedAtOnce => None,
        }
    }

    /// Whether an operator must act. Then it is a problem and not only a reason to be stale.
    pub(super) const fn needs_a_person(&self) -> bool {
        matches!(
            self,
            Self::Status {
                code: 401 | 403 | 404,
                ..
            }
        )
    }

    /// Describes the fault of a request that is about no kind.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Status { code, message, .. } | Self::ErrorEvent { code, message } => {
                format!("status {code}: {message}")
            }
            Self::Transport(why) => format!("cannot reach the API server: {why}"),
            Self::Malformed(why) => format!("answer not understood: {why}"),
            Self::Silent(_) | Self::ClosedAtOnce => "no answer".to_owned(),
        }
    }

    /// Describes the fault for a kind.
    pub(super) fn message(&self, kind: Kind) -> String {
        let plural = plural(kind);
        match self {
            Self::Status {
                code: 403, message, ..
            } => {
                // The API server names the verb that it refused.
                let verb = if message.contains("cannot watch") {
                    "watch"
                } else {
                    "list"
                };
                let group = match kind {
                    Kind::Namespace | Kind::Service | Kind::Pod => "",
                    Kind::EndpointSlice => " in discovery.k8s.io",
                    Kind::ServiceImport => " in multicluster.x-k8s.io",
                };
                format!(
                    "may not {verb} {plural}: {message}; the ClusterRole needs list and watch on \
                     {plural}{group}"
                )
            }
            Self::Status {
                code: 401, message, ..
            } => format!(
                "credentials refused when asking for {plural}: {message}; check the token or \
                 certificate (its file is read again before each try)"
            ),
            Self::Status { code: 404, .. } if kind == Kind::ServiceImport => {
                "the cluster has no serviceimports in multicluster.x-k8s.io: the zones of multicluster wait for the CRD, all others work"
                    .to_owned()
            }
            Self::Status { code, message, .. } => format!("{plural}: status {code}: {message}"),
            Self::ErrorEvent { code, message } => format!("{plural}: error {code}: {message}"),
            Self::Transport(why) => format!("{plural}: cannot reach the API server: {why}"),
            Self::Silent(wait) => format!("{plural}: no answer for {} s", wait.as_secs_f32()),
            Self::Malformed(why) => format!("{plural}: answer not understood: {why}"),
            Self::ClosedAtOnce => format!("{plural}: the API server closes each watch at once"),
        }
    }
}

fn text_of(status: &Status) -> String {
    if status.message.is_empty() {
        status.reason.clone()
    } else {
        status.message.clone()
    }
}

/// An error with its causes, because the client's errors do not show them.
pub(super) fn chain(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            write!(text, ": {more}").expect("writing to a String cannot fail");
        }
        cause = error.source();
    }
    text
}
