//! Addresses of archives.

use std::path::{Path, PathBuf};

use object_store::ObjectStoreScheme;
use object_store::path::Path as ObjectPath;
use url::Url;

/// The address of an archive that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) url: Url,
    /// The part of the address that names objects, without the bucket.
    pub(crate) prefix: ObjectPath,
    pub(crate) kind: Kind,
}

/// The interface of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder(PathBuf),
    S3,
    Google,
    Azure,
}

/// Why an address is no archive.
#[derive(Debug, thiserror::Error)]
pub enum BadAddress {
    /// It is no URL.
    #[error("it is no URL ({0}); write file:///FOLDER or s3://BUCKET/FOLDER")]
    NoUrl(#[from] url::ParseError),
    /// Its scheme is not known.
    #[error("{0} is no scheme of an archive; those are file, s3, gs and az")]
    OtherScheme(String),
    /// It names a user or a password.
    #[error(
        "it has a user or a password; keys are taken from the environment, see docs/archive.md"
    )]
    Secret,
    /// It has a query or a fragment.
    #[error("it has a ? or a #")]
    Query,
    /// It names no bucket.
    #[error("it names no bucket: write {0}://BUCKET/FOLDER")]
    NoBucket(String),
    /// It names no folder.
    #[error("it names no folder: write file:///FOLDER")]
    NoFolder,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`BadAddress`] when it is not that of an archive.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let url = Url::parse(text)?;
        if !["file", "s3", "gs", "az"].contains(&url.scheme()) {
            return Err(BadAddress::OtherScheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadAddress::Secret);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BadAddress::Query);
        }
        if url.scheme() != "file" && url.host_str().is_none_or(str::is_empty) {
            return Err(BadAddress::NoBucket(url.scheme().to_owned()));
        }
        let other = |_| BadAddress::OtherScheme(url.scheme().to_owned());
        let (scheme, prefix) = ObjectStoreScheme::parse(&url).map_err(other)?;
        let (kind, prefix) = match scheme {
            ObjectStoreScheme::Local => {
                let folder = url.to_file_path().map_err(|()| BadAddress::NoFolder)?;
                (Kind::Folder(folder), ObjectPath::default())
            }
            ObjectStoreScheme::AmazonS3 => (Kind::S3, prefix),
            ObjectStoreScheme::GoogleCloudStorage => (Kind::Google, prefix),
            ObjectStoreScheme::MicrosoftAzure => (Kind::Azure, prefix),
            ObjectStoreScheme::Memory | ObjectStoreScheme::Http | _ => {
                return Err(BadAddress::OtherScheme(url.scheme().to_owned()));
            }
        };
        Ok(Self { url, prefix, kind })
    }

    /// The folder of an archive on this machine.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Folder(folder) => Some(folder),
            Kind::S3 | Kind::Google | Kind::Azure => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_folder_or_a_bucket_without_secrets() {
        let folder = Address::parse("file:///var/backups/dns").unwrap();
        assert_eq!(folder.folder(), Some(Path::new("/var/backups/dns")));
        let bucket = Address::parse("s3://bucket/some/dns").unwrap();
        assert_eq!(
            (bucket.kind, bucket.prefix.as_ref()),
            (Kind::S3, "some/dns")
        );
        for (bad, why) in [
            ("bucket", "no URL"),
            ("ftp://host/dns", "ftp is no scheme"),
            ("s3://key:secret@bucket/dns", "user or a password"),
            ("s3://bucket/dns?region=x", "a ? or a #"),
            ("s3:///dns", "no bucket"),
        ] {
            let error = Address::parse(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
