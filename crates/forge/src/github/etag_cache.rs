//! Cached answers by ETag, so that a repeated request costs no rate limit.

use std::collections::HashMap;

use bytes::Bytes;

/// The size of the cache: a few hundred pages of comments and checks.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// Answers, bounded by bytes. The least recently used one is evicted first.
#[derive(Default)]
pub(super) struct EtagCache {
    by_path: HashMap<String, Entry>,
    bytes: usize,
    turn: u64,
}

/// One answer with the server's ETag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedResponse {
    pub(super) etag: String,
    pub(super) body: Bytes,
    /// The number of the last page, where the answer is one of several.
    pub(super) last_page: Option<usize>,
}

struct Entry {
    answer: CachedResponse,
    asked_at: u64,
}

impl EtagCache {
    /// The cached answer.
    pub(super) fn recall(&mut self, path: &str) -> Option<CachedResponse> {
        self.turn += 1;
        let entry = self.by_path.get_mut(path)?;
        entry.asked_at = self.turn;
        Some(entry.answer.clone())
    }

    pub(super) fn remember(&mut self, path: &str, answer: CachedResponse) {
        self.forget(path);
        let size = size(path, &answer);
        if size > BYTES_MAX {
            return;
        }
        while self.bytes + size > BYTES_MAX {
            let oldest = self.by_path.iter().min_by_key(|(_, entry)| entry.asked_at).map(|(path, _)| path.clone());
            match oldest {
                Some(path) => self.forget(&path),
                None => break,
            }
        }
        self.turn += 1;
        self.bytes += size;
        self.by_path.insert(path.to_owned(), Entry { answer, asked_at: self.turn });
    }

    fn forget(&mut self, path: &str) {
        if let Some(entry) = self.by_path.remove(path) {
            self.bytes -= size(path, &entry.answer);
        }
    }
}

fn size(path: &str, answer: &CachedResponse) -> usize {
    path.len() + answer.etag.len() + answer.body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(len: usize) -> CachedResponse {
        CachedResponse { etag: "\"x\"".to_owned(), body: vec![0; len].into(), last_page: None }
    }

    #[test]
    fn what_is_remembered_is_bounded_by_bytes_and_the_least_wanted_goes_first() {
        let mut known = EtagCache::default();
        let third = BYTES_MAX / 3 - 100;

        for path in ["/a", "/b", "/c"] {
            known.remember(path, answer(third));
        }
        known.recall("/a");
        known.remember("/d", answer(third));
        known.remember("/far-too-long", answer(BYTES_MAX + 1));

        let left: Vec<&str> =
            ["/a", "/b", "/c", "/d", "/far-too-long"].into_iter().filter(|path| known.recall(path).is_some()).collect();
        assert_eq!(left, ["/a", "/c", "/d"]);
        assert_eq!(known.bytes, known.by_path.iter().map(|(path, entry)| size(path, &entry.answer)).sum::<usize>());
    }

    #[test]
    fn an_answer_takes_the_place_of_the_one_before() {
        let mut known = EtagCache::default();

        for len in [100, 10] {
            known.remember("/a", answer(len));
        }

        assert_eq!((known.recall("/a"), known.bytes), (Some(answer(10)), 10 + "/a\"x\"".len()));
    }
}
