//! Where artifacts are kept: a directory, or a bucket of an object store.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where artifacts are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobPlace {
    /// A directory.
    Directory(PathBuf),
    /// A bucket or container.
    Bucket(Bucket),
}

/// A bucket or container of an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Whose it is.
    pub provider: ObjectProvider,
    /// The bucket or container.
    pub name: String,
    /// Where blobs begin in it; empty for the top.
    pub prefix: String,
}

/// A kind of object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectProvider {
    /// Amazon S3, and what speaks its protocol.
    S3,
    /// Azure Blob Storage.
    Azure,
    /// Google Cloud Storage.
    Gcs,
}

impl ObjectProvider {
    const ALL: [Self; 3] = [Self::S3, Self::Azure, Self::Gcs];

    fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Azure => "az",
            Self::Gcs => "gs",
        }
    }
}

impl FromStr for BlobPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text {
                "" => Err("expected a directory, or an address such as `s3://bucket/prefix`".to_owned()),
                path => Ok(Self::Directory(path.into())),
            };
        };
        let provider = ObjectProvider::ALL.into_iter().find(|provider| provider.scheme() == scheme);
        let provider = provider.ok_or("expected `s3://…`, `az://…` (Azure Blob), `gs://…`, or a directory")?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if name.is_empty() || !is_plain(name) {
            return Err("the bucket or container has letters, digits, `.`, `_` and `-` only".to_owned());
        }
        let prefix = prefix.trim_end_matches('/');
        let is_path = |part: &str| !part.is_empty() && part != "." && part != ".." && is_plain(part);
        if !prefix.is_empty() && !prefix.split('/').all(is_path) {
            return Err("the prefix has letters, digits, `.`, `_`, `-` and `/` only".to_owned());
        }
        Ok(Self::Bucket(Bucket { provider, name: name.to_owned(), prefix: prefix.to_owned() }))
    }
}

impl fmt::Display for BlobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Bucket(bucket) => bucket.fmt(f),
        }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.provider.scheme(), self.name)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [J8]
    #[test]
    fn a_place_reads_as_it_is_written() {
        for text in ["/var/artifacts", "artifacts", "s3://acme/giga/artifacts", "az://acme", "gs://acme/x"] {
            assert_eq!(text.parse::<BlobPlace>().unwrap().to_string(), text);
        }
        for text in ["", "http://acme/x", "s3://", "s3:///x", "az://a b", "s3://acme/../x", "gs://acme//x"] {
            assert!(text.parse::<BlobPlace>().is_err(), "{text}");
        }
    }
}
