//! The encodings in which files of the web UI are built.

use http::{HeaderMap, header};

/// How a file is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Brotli,
    Gzip,
    Identity,
}

impl Encoding {
    /// The smallest first.
    pub(super) const COMPRESSED: [Self; 2] = [Self::Brotli, Self::Gzip];

    /// Its name in headers.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Gzip => Some("gzip"),
            Self::Identity => None,
        }
    }

    /// The ending of the file.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
            Self::Identity => "",
        }
    }

    /// The encodings that a client accepts, the smallest first; identity is always accepted.
    pub(super) fn accepted(headers: &HeaderMap) -> Vec<Self> {
        let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let named: Vec<_> = values.flat_map(|value| value.split(',')).filter_map(wanted).collect();
        let is_named = |encoding: &Self| encoding.name().is_some_and(|name| named.contains(&name.to_owned()));
        Self::COMPRESSED.into_iter().filter(is_named).chain([Self::Identity]).collect()
    }
}

/// The name in an entry of `Accept-Encoding`, unless its weight is zero.
fn wanted(entry: &str) -> Option<String> {
    let (name, parameters) = entry.split_once(';').unwrap_or((entry, ""));
    let weight = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
    let is_refused = weight.is_some_and(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight == 0.0));
    (!is_refused).then(|| name.trim().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(value: &str) -> Vec<Encoding> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
        Encoding::accepted(&headers)
    }

    #[test]
    fn the_smallest_accepted_encoding_comes_first() {
        use Encoding::{Brotli, Gzip, Identity};

        assert_eq!(accepted("gzip, deflate, br, zstd"), [Brotli, Gzip, Identity]);
        assert_eq!(accepted("GZIP;q=0.5"), [Gzip, Identity]);
        assert_eq!(accepted("br;q=0, gzip;q=0.000, deflate"), [Identity]);
        assert_eq!(Encoding::accepted(&HeaderMap::new()), [Identity]);
    }
}
