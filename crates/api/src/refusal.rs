//! The reasons for which a request gets no answer, with their status.

use std::fmt;

use dns::Name;
use history::{AuditError, Fault, SCHEMA};
use http::StatusCode;
use serde_json::json;

/// The reason for which a request gets no answer.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The path names no endpoint.
    NoEndpoint,
    /// The method is neither GET nor HEAD.
    Method,
    /// Path and query are too long.
    LongUrl,
    /// The request has a body.
    Body,
    /// The request is malformed; why, and the fix.
    Wrong(String),
    /// It has no usable token or certificate.
    Unauthenticated(&'static str),
    /// The reader may not read this. The right that it lacks.
    Forbidden(String),
    /// The reader asks too often, or too much at once.
    TooMany,
    /// Too many ask at once.
    Busy,
    /// The API server gave no verdict.
    NoVerdict,
    /// The zone is not in the store. The reader may not know which ones are.
    NoZone(Name),
    /// The question has no answer.
    History(AuditError),
    /// The answer failed.
    Failed(String),
}

impl From<AuditError> for Refusal {
    /// The error, without the list of all zones of the server.
    fn from(error: AuditError) -> Self {
        if let AuditError::NoZone { zone, .. } = error {
            return Self::NoZone(zone);
        }
        Self::History(error)
    }
}

impl Refusal {
    /// The status of HTTP.
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::NoEndpoint => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::LongUrl => StatusCode::URI_TOO_LONG,
            Self::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Wrong(_) | Self::NoZone(_) => StatusCode::BAD_REQUEST,
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy | Self::NoVerdict => StatusCode::SERVICE_UNAVAILABLE,
            Self::History(error) => match error.fault() {
                Fault::Wrong => StatusCode::BAD_REQUEST,
                Fault::NotKnown => StatusCode::GONE,
                Fault::Failed => StatusCode::INTERNAL_SERVER_ERROR,
            },
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The result in metrics, and the word for programs.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::NoEndpoint
            | Self::Method
            | Self::LongUrl
            | Self::Body
            | Self::Wrong(_)
            | Self::NoZone(_) => "wrong",
            Self::Unauthenticated(_) => "unauthenticated",
            Self::Forbidden(_) => "forbidden",
            Self::TooMany => "limited",
            Self::Busy | Self::NoVerdict => "unavailable",
            Self::History(error) => match error.fault() {
                Fault::Wrong => "wrong",
                Fault::NotKnown => "unknown",
                Fault::Failed => "failed",
            },
            Self::Failed(_) => "failed",
        }
    }

    /// The exit code that the command line has for it.
    pub(crate) fn exit(&self) -> u8 {
        match self.word() {
            "wrong" => 2,
            "unknown" => 3,
            _ => 1,
        }
    }

    /// Whether the same request may succeed a second later.
    pub(crate) const fn is_passing(&self) -> bool {
        matches!(self, Self::TooMany | Self::Busy | Self::NoVerdict)
    }

    /// The line of JSON that says it.
    pub(crate) fn line(&self) -> String {
        let line = json!({
            "schema": SCHEMA,
            "fault": self.word(),
            "exit": self.exit(),
            "error": self.to_string(),
        });
        format!("{line}\n")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEndpoint => f.write_str("no such endpoint; /openapi.json lists all"),
            Self::Method => f.write_str("this API only reads: the method is GET or HEAD"),
            Self::LongUrl => f.write_str("the path and the query are too long"),
            Self::Body => f.write_str("a request has no body"),
            Self::Wrong(why) | Self::Forbidden(why) | Self::Failed(why) => f.write_str(why),
            Self::Unauthenticated(why) => f.write_str(why),
            Self::TooMany => f.write_str("too many requests; ask again in a second"),
            Self::Busy => f.write_str("too many questions at once; ask again in a second"),
            Self::NoVerdict => {
                f.write_str("the API server gives no verdict about this reader; ask again later")
            }
            Self::NoZone(zone) => write!(f, "no zone {zone} here"),
            Self::History(error) => error.fmt(f),
        }
    }
}
