//! Who does something to a zone, and why: an operator with a reason, or the clock.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Who did something to a zone, with the reason that was given.
///
/// Its text quotes what the operator chose, the command line and the reason. So neither can be taken for another part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Operator {
    /// Who, in words, if it is no known user: the clock, or what an older release stored, which has the reason, too. Empty
    /// where nobody did it.
    pub words: Arc<str>,
    /// The user of the control socket.
    pub user: Option<Arc<SocketUser>>,
    /// The reason as it was given; empty without one.
    pub reason: Arc<str>,
}

/// A user of the control socket, as the kernel knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SocketUser {
    /// The user id.
    pub uid: u32,
    /// The name of the user; empty when unknown.
    pub name: String,
    /// The process.
    pub process: Option<i32>,
    /// The begin of its command line; empty when unknown.
    pub command: String,
}

impl Operator {
    /// Whether nobody did it.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        self.words.is_empty() && self.user.is_none()
    }

    /// The operator with a reason.
    #[must_use]
    pub fn with_reason(&self, reason: &str) -> Self {
        Self {
            reason: reason.into(),
            ..self.clone()
        }
    }
}

impl From<&str> for Operator {
    fn from(words: &str) -> Self {
        Self {
            words: words.into(),
            ..Self::default()
        }
    }
}

impl From<SocketUser> for Operator {
    fn from(user: SocketUser) -> Self {
        Self {
            user: Some(Arc::new(user)),
            ..Self::default()
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(f, "{user} over the control socket")?,
            None => f.write_str(&self.words)?,
        }
        match &*self.reason {
            "" => Ok(()),
            reason => write!(f, ", reason: {reason:?}"),
        }
    }
}

impl fmt::Display for SocketUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            uid,
            name,
            process,
            command,
        } = self;
        write!(f, "uid {uid}")?;
        if !name.is_empty() {
            write!(f, " ({})", name.escape_debug())?;
        }
        match process {
            Some(process) => write!(f, ", process {process} ({command:?})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_reason_nor_a_command_line_can_be_taken_for_another_operator() {
        let user = |command: &str| SocketUser {
            uid: 1000,
            name: "eve".into(),
            process: Some(7),
            command: command.into(),
        };
        let forged = Operator::from(user("a\"), by uid 0 (root)")).with_reason("x\", by \"y\n");
        assert_eq!(
            forged.to_string(),
            "uid 1000 (eve), process 7 (\"a\\\"), by uid 0 (root)\") over the control socket, reason: \"x\\\", by \\\"y\\n\""
        );
        let plain = Operator::from(user("it's")).with_reason("ticket 1");
        assert_eq!(
            plain.to_string(),
            "uid 1000 (eve), process 7 (\"it's\") over the control socket, reason: \"ticket 1\""
        );
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let unknown = Operator::from(SocketUser {
            uid: 7,
            name: String::new(),
            process: None,
            command: String::new(),
        });
        assert_eq!(unknown.to_string(), "uid 7 over the control socket");
        assert_eq!(Operator::from("the clock").to_string(), "the clock");
        let nobody = Operator::default();
        assert!(nobody.is_nobody() && nobody.to_string().is_empty());
    }
}
