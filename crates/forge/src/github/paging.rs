//! Paged listings, read within bounds.

use http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use tracing::warn;

use super::GitHub;
use crate::ForgeError;

/// Items on one page, GitHub's maximum.
const PAGE: usize = 100;

/// Pages that are read of one listing: the first, where our own comment is, and the last, where new comments are. More
/// than two thousand comments are not read.
const PAGES_MAX: usize = 20;

impl GitHub {
    /// All items of a listing.
    pub(super) async fn all<A: DeserializeOwned>(&self, below: &str) -> Result<Vec<A>, ForgeError> {
        self.every_page(below, |page: Vec<A>| page).await
    }

    /// All items of a listing whose pages wrap them.
    pub(super) async fn every_page<P: DeserializeOwned, A>(
        &self,
        below: &str,
        things: impl Fn(P) -> Vec<A>,
    ) -> Result<Vec<A>, ForgeError> {
        let (first, last) = self.page(below, 1).await?;
        let last = last.unwrap_or(1);
        let mut all = things(first);
        let mut is_full = all.len() >= PAGE;
        let begin = (last + 2).saturating_sub(PAGES_MAX).max(2);
        if begin > 2 {
            warn!("The listing {below} has {last} pages: pages 2 to {} are not read", begin - 1);
        }
        // An unchanged first page may not name a new last page: a full page is followed by another.
        for number in begin..begin + PAGES_MAX {
            if number > last && !is_full {
                break;
            }
            let (page, _) = self.page(below, number).await?;
            let page = things(page);
            is_full = page.len() >= PAGE;
            all.extend(page);
        }
        Ok(all)
    }

    async fn page<P: DeserializeOwned>(&self, below: &str, number: usize) -> Result<(P, Option<usize>), ForgeError> {
        self.api.page(&self.path(&format!("{below}?per_page={PAGE}&page={number}"))).await
    }
}

/// The number of the last page, as `Link: <…?page=7>; rel="last"` gives it.
pub(super) fn last_page(headers: &HeaderMap) -> Option<usize> {
    let links = headers.get(header::LINK)?.to_str().ok()?;
    let last = links.split(',').find(|link| link.contains("rel=\"last\""))?;
    let (address, _) = last.split_once('>')?;
    let (_, query) = address.split_once('?')?;
    query.split('&').find_map(|part| part.strip_prefix("page="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // [F5]
    #[test]
    fn the_last_page_is_read_from_the_links() {
        let of = |links: &str| last_page(&[(header::LINK, links.parse().unwrap())].into_iter().collect());
        let next = "<https://forge.example/repositories/1/issues/2/comments?per_page=100&page=2>; rel=\"next\"";

        assert_eq!(of(&format!("{next}, <https://forge.example/x?page=7&per_page=100>; rel=\"last\"")), Some(7));
        assert_eq!(of(next), None);
        assert_eq!(of("<>; rel=\"last\""), None);
        assert_eq!(last_page(&HeaderMap::new()), None);
    }
}
