//! Reviews: whose bearer token it is, and whether that account may read something. The API server decides both.
//!
//! The objects are `TokenReview` (`authentication.k8s.io/v1`) and `SubjectAccessReview` (`authorization.k8s.io/v1`).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Settings;
use super::connection::{Auth, ConnectError, Connection};
use super::fault::Fault;
use crate::source::ErrorClass;

/// How long a review may take.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// The account of a token.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// Its name, such as `system:serviceaccount:NAMESPACE:NAME`.
    pub name: String,
    /// Its uid, if it has one.
    pub uid: Option<String>,
    /// Its groups.
    pub groups: Vec<String>,
    /// What else the API server says about it.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The object to read: cluster-wide, of a group of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readable<'a> {
    /// The API group.
    pub group: &'a str,
    /// The resource, in the plural.
    pub resource: &'a str,
    /// The object's name; all objects when `None`.
    pub name: Option<&'a str>,
}

/// The API server gave no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// It is away, or refuses the review.
    #[error("{0}")]
    Refused(String),
    /// It is too slow.
    #[error("no answer within {} s", REVIEW_TIMEOUT.as_secs())]
    Late,
}

/// Asks an API server for reviews.
#[derive(Debug)]
pub struct Reviews {
    connection: Connection,
    /// The audiences that a token may be for; that of the API server when there are none.
    audiences: Vec<String>,
}

impl Reviews {
    /// Reads the configuration and creates a client. Sends no request.
    ///
    /// # Errors
    /// When the configuration, a certificate or a token cannot be read.
    pub async fn open(auth: Auth, audiences: Vec<String>) -> Result<Self, ConnectError> {
        let connection = Connection::open(auth, &Settings::default()).await?;
        Ok(Self {
            connection,
            audiences,
        })
    }

    /// The account of a token; `None` when the token is not good.
    ///
    /// # Errors
    /// When there is no verdict.
    pub async fn account_of(&self, token: &str) -> Result<Option<Account>, ReviewError> {
        let audiences = (!self.audiences.is_empty()).then(|| self.audiences.clone());
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences,
            },
            ..TokenReview::default()
        };
        let status = self.review(review).await?.status.unwrap_or_default();
        // A server that does not know audiences names none: the token is not for us then.
        let named = status.audiences.unwrap_or_default();
        let is_ours =
            self.audiences.is_empty() || self.audiences.iter().any(|our| named.contains(our));
        let is_good = status.authenticated == Some(true) && is_ours;
        let user = status.user.filter(|_| is_good);
        Ok(user.map(account).filter(|account| !account.name.is_empty()))
    }

    /// Whether an account may `get` something.
    ///
    /// # Errors
    /// When there is no verdict.
    pub async fn may_get(
        &self,
        account: &Account,
        object: Readable<'_>,
    ) -> Result<bool, ReviewError> {
        let attributes = ResourceAttributes {
            group: Some(object.group.to_owned()),
            resource: Some(object.resource.to_owned()),
            name: object.name.map(ToOwned::to_owned),
            verb: Some("get".to_owned()),
            version: Some("v1".to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(account.name.clone()),
                uid: account.uid.clone(),
                groups: Some(account.groups.clone()),
                extra: Some(account.extra.clone()),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let status = self.review(review).await?.status.unwrap_or_default();
        Ok(status.allowed && status.denied != Some(true))
    }

    /// Sends a review and returns it with its verdict. If our own credentials are refused, they are read again, once.
    async fn review<R>(&self, review: R) -> Result<R, ReviewError>
    where
        R: kube::Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let mut was_renewed = false;
        loop {
            let client = self.connection.client().await;
            let api = Api::<R>::all(client.client);
            let parameters = PostParams::default();
            let sent = timeout(REVIEW_TIMEOUT, api.create(&parameters, &review)).await;
            let fault = match sent {
                Ok(Ok(reviewed)) => return Ok(reviewed),
                Ok(Err(error)) => Fault::of(&error),
                Err(_late) => return Err(ReviewError::Late),
            };
            let is_refused = fault.class() == ErrorClass::Unauthorized;
            let renewed =
                is_refused && !was_renewed && self.connection.renew(client.number).await.is_ok();
            if !renewed {
                return Err(ReviewError::Refused(fault.text()));
            }
            was_renewed = true;
        }
    }
}

/// The account that a review names.
fn account(user: UserInfo) -> Account {
    Account {
        name: user.username.unwrap_or_default(),
        uid: user.uid,
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    }
}
