//! Entity tags for conditional requests.

use coordinator::Error;
use domain::{Generation, Revision};
use http::{HeaderMap, header};

use crate::problem::Problem;

/// The tag of a revision. Revisions restart after a restore, so the tag includes the generation.
pub(crate) fn of_revision(generation: Generation, revision: Revision) -> String {
    match generation {
        Generation(0) => format!("\"{revision}\""),
        generation => format!("\"{generation}.{revision}\""),
    }
}

/// Whether the client has the version of `tag`. Compared weakly, as the standard requires for `If-None-Match`.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    known.split(',').any(|known| known.trim() == "*" || bare(known) == bare(tag))
}

/// The revision that a change expects, from `If-Match`; `None` for any. A tag of another generation, or a weak one,
/// matches nothing.
pub(crate) fn expected(headers: &HeaderMap, generation: Generation) -> Result<Option<Revision>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let tag = value.to_str().unwrap_or_default().trim();
    if tag == "*" {
        return Ok(None);
    }
    if tag.contains(',') {
        return Err(Problem::invalid("`If-Match`: one tag at a time"));
    }
    let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or_default();
    let (of, number) = inner.split_once('.').unwrap_or(("0", inner));
    match (of.parse(), number.parse()) {
        (Ok(of), Ok(number)) if Generation(of) == generation => Ok(Some(Revision(number))),
        _ => Err(Error::Outdated.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_by(tag: &str, generation: u64) -> Result<Option<Revision>, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_MATCH, tag.parse().unwrap());
        expected(&headers, Generation(generation)).map_err(|problem| problem.into_body().status)
    }

    #[test]
    fn a_tag_parses_to_its_revision() {
        for generation in [0, 3] {
            let tag = of_revision(Generation(generation), Revision(7));

            assert_eq!(expected_by(&tag, generation), Ok(Some(Revision(7))));
            assert_eq!(expected_by(&tag, generation + 1), Err(412));
        }
        assert_eq!(expected(&HeaderMap::new(), Generation(0)).ok(), Some(None));
    }

    #[test]
    fn a_foreign_tag_matches_nothing() {
        assert_eq!(expected_by("*", 0), Ok(None));
        for tag in ["7", "W/\"7\"", "\"seven\"", "\"\"", "\""] {
            assert_eq!(expected_by(tag, 0), Err(412), "{tag}");
        }
        assert_eq!(expected_by("\"7\", \"8\"", 0), Err(422));
    }
}
