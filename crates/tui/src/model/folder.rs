//! The page of a folder queue: its files, by folder.

use domain::{JobId, Timestamp};

use super::{Cursor, Filter};

/// The files of a folder queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderListing {
    /// The files, in the order of the folders, then by name.
    pub files: Vec<FolderFile>,
    /// Files that are not listed, because there are too many.
    pub more: usize,
}

/// A file of a folder queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderFile {
    /// The folder, such as `inbox`.
    pub folder: &'static str,
    /// The file's name.
    pub name: String,
    /// When it was last changed.
    pub changed_at: Option<Timestamp>,
    /// The job that it was submitted as.
    pub job: Option<JobId>,
}

/// The page.
#[derive(Debug, Clone, Default)]
pub(crate) struct FolderPage {
    pub(crate) dir: String,
    pub(crate) listing: FolderListing,
    pub(crate) is_loaded: bool,
    pub(crate) error: Option<String>,
    pub(crate) filter: Filter,
    pub(crate) cursor: Cursor,
}

impl FolderPage {
    pub(crate) fn new(dir: String) -> Self {
        Self { dir, ..Self::default() }
    }

    pub(crate) fn rows(&self) -> Vec<&FolderFile> {
        self.listing.files.iter().filter(|file| self.filter.admits_text(&[&file.name, file.folder])).collect()
    }

    pub(crate) fn count(&self, folder: &str) -> usize {
        self.listing.files.iter().filter(|file| file.folder == folder).count()
    }

    pub(crate) fn replace(&mut self, listing: FolderListing) {
        let selected = self.rows().get(self.cursor.selected).map(|file| file.name.clone());
        (self.listing, self.is_loaded, self.error) = (listing, true, None);
        if let Some(row) = selected.and_then(|name| self.rows().iter().position(|file| file.name == name)) {
            self.cursor.selected = row;
        }
    }
}
