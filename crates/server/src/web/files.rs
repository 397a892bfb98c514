//! Where the files of the web UI come from.

use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use rust_embed::{EmbeddedFile, RustEmbed};
use sha2::{Digest, Sha256};

/// The result of `make web`; empty in a build without it.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Dist;

/// The files of the web UI.
#[derive(Debug, Clone)]
pub(crate) enum WebFiles {
    /// Those in the binary.
    Embedded(fn(&str) -> Option<EmbeddedFile>),
    /// Those of a directory, read for each request: for development.
    Directory(PathBuf),
}

/// One file.
pub(crate) struct WebFile {
    pub(crate) bytes: Bytes,
    /// The hash of its content.
    pub(crate) digest: String,
}

impl WebFiles {
    /// The files of `directory`, or those in the binary.
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        directory.map_or(Self::Embedded(Dist::get), Self::Directory)
    }

    /// The file of a path relative to the root of the UI.
    pub(crate) async fn get(&self, path: &str) -> Option<WebFile> {
        match self {
            Self::Embedded(get) => {
                let file = get(path)?;
                let bytes = match file.data {
                    std::borrow::Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                    std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
                };
                Some(WebFile { bytes, digest: short(&file.metadata.sha256_hash()) })
            }
            Self::Directory(root) => {
                let bytes = tokio::fs::read(root.join(inner(path)?)).await.ok()?;
                let digest = short(&Sha256::digest(&bytes));
                Some(WebFile { bytes: bytes.into(), digest })
            }
        }
    }
}

/// Whether this binary includes the web UI.
pub fn is_embedded() -> bool {
    Dist::get("index.html").is_some()
}

/// A path that stays inside its directory.
fn inner(path: &str) -> Option<&Path> {
    let path = Path::new(path);
    let is_plain =
        |part: Component<'_>| matches!(part, Component::Normal(name) if !name.to_string_lossy().starts_with('.'));
    path.components().all(is_plain).then_some(path)
}

fn short(digest: &[u8]) -> String {
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(RustEmbed)]
    #[folder = "src/web"]
    struct Sources;

    #[tokio::test]
    async fn an_embedded_file_has_the_digest_of_its_content() {
        let (embedded, directory) = (WebFiles::Embedded(Sources::get), WebFiles::new(Some("src/web".into())));

        let file = embedded.get("files.rs").await.unwrap();
        let same = directory.get("files.rs").await.unwrap();

        assert_eq!((file.digest, file.bytes), (same.digest, same.bytes));
        assert!(embedded.get("../web.rs").await.is_none());
    }

    #[tokio::test]
    async fn a_directory_gives_no_files_outside_of_it() {
        let files = WebFiles::new(Some("src/web".into()));

        for path in ["../web.rs", "/etc/hostname", "./files.rs", "a/../files.rs", ".env", "", "//etc/hostname"] {
            assert!(files.get(path).await.is_none(), "{path}");
        }
    }
}
