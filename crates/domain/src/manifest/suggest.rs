//! "Did you mean" suggestions.

/// Longer than every known key and variable; longer words get no suggestion.
const WORD_CHARS_MAX: usize = 48;
const DISTANCE_MAX: usize = 2;

/// The candidate within a small edit distance of `word`.
pub fn suggest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let word = plain(word);
    if word.len() > WORD_CHARS_MAX {
        return None;
    }
    candidates
        .map(|candidate| (distance(&word, &plain(candidate)), candidate))
        // An edit distance of two turns any short word into any other.
        .filter(|(distance, candidate)| *distance <= DISTANCE_MAX && distance * 2 < candidate.len().max(word.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Letters only: `deps_mode` and `deps-mode` are spellings of `depsMode`.
fn plain(word: &str) -> Vec<char> {
    let letters = word.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    letters.take(WORD_CHARS_MAX + 1).map(|c| c.to_ascii_lowercase()).collect()
}

fn distance(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closest_key(word: &str) -> Option<&'static str> {
        suggest(word, ["title", "base", "tags", "depsMode", "onDepFailure", "capabilities"].into_iter())
    }

    #[test]
    fn a_typo_suggests_its_key() {
        assert_eq!(closest_key("titel"), Some("title"));
        assert_eq!(closest_key("tag"), Some("tags"));
        assert_eq!(closest_key("capabilites"), Some("capabilities"));
    }

    #[test]
    fn another_spelling_suggests_its_key() {
        assert_eq!(closest_key("deps_mode"), Some("depsMode"));
        assert_eq!(closest_key("on-dep-failure"), Some("onDepFailure"));
        assert_eq!(suggest("tls-cert", ["tls_cert", "tls_key"].into_iter()), Some("tls_cert"));
        assert_eq!(suggest("GIGA_LISTN", ["GIGA_LISTEN", "GIGA_LOG"].into_iter()), Some("GIGA_LISTEN"));
    }

    #[test]
    fn an_unrelated_word_suggests_nothing() {
        assert_eq!(closest_key("name"), None);
        assert_eq!(closest_key("owner"), None);
        assert_eq!(closest_key(""), None);
        assert_eq!(closest_key(&"x".repeat(100_000)), None);
    }
}
