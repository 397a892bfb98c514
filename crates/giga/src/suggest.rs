//! The known word that the user probably meant.

/// No known word is longer; a longer one is no typing error.
const WORD_CHARS_MAX: usize = 48;
const DISTANCE_MAX: usize = 2;

/// The candidate that `word` is a slip of the finger away from.
pub(crate) fn suggest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let scored = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    // Two changes make any short word out of any other.
    let close = scored.filter(|(distance, candidate)| *distance <= DISTANCE_MAX && distance * 2 < candidate.len());
    close.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// How many letters must be added, dropped or replaced.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        assert_eq!(suggest("lissten", ["listen", "hosts"]), Some("listen"));
        assert_eq!(suggest("tls-cert", ["tls_cert", "tls_key"]), Some("tls_cert"));
    }

    #[test]
    fn an_unrelated_word_suggests_nothing() {
        assert_eq!(suggest("port", ["api", "ca", "hosts"]), None);
        assert_eq!(suggest(&"x".repeat(1_000_000), ["listen"]), None);
    }
}
