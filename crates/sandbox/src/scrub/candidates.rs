//! Where a secret can start: nearly nowhere, so that the rest of a stream passes at the speed of a search.

use std::collections::BTreeSet;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::StreamEnd;

/// The length of a searched prefix. The rest is checked at each match; a longer one would lengthen the undecided end of
/// every chunk.
const BEGINNING_BYTES_MAX: usize = 8;

/// Finds the starts of secrets.
pub(super) struct Candidates {
    /// `None` if the prefixes cannot be searched for: then every byte is checked.
    search: Option<AhoCorasick>,
    longest: usize,
}

impl Candidates {
    /// Those with one of these prefixes.
    pub(super) fn new<'b>(beginnings: impl IntoIterator<Item = &'b [u8]>) -> Self {
        let cut = |beginning: &'b [u8]| &beginning[..beginning.len().min(BEGINNING_BYTES_MAX)];
        let beginnings: BTreeSet<&[u8]> = beginnings.into_iter().map(cut).collect();
        let longest = beginnings.iter().map(|beginning| beginning.len()).max().unwrap_or(0);
        let mut builder = AhoCorasick::builder();
        builder.kind(Some(AhoCorasickKind::DFA)).match_kind(MatchKind::LeftmostFirst);
        Self { search: builder.build(beginnings).ok(), longest }
    }

    /// How many of the next bytes belong to no secret, whatever follows.
    pub(super) fn plain(&self, rest: &[u8], more: StreamEnd) -> usize {
        let Some(search) = &self.search else { return 0 };
        let end = match more {
            // A prefix may be cut off at the end.
            StreamEnd::MayCome => rest.len().saturating_sub(self.longest.saturating_sub(1)),
            StreamEnd::No => rest.len(),
        };
        search.find(rest).map_or(end, |found| found.start().min(end))
    }
}
