//! Where a coordinator keeps what it must not forget.

use std::str::FromStr;

use serde::Deserialize;
use store::PostgresUrl;

use super::setting::DisplayedValue;

/// Where a coordinator keeps what it must not forget: `sqlite`, or `postgres://…`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum StoreChoice {
    /// A file in the data directory.
    Sqlite,
    /// A database on a server.
    Postgres(Box<PostgresUrl>),
}

impl FromStr for StoreChoice {
    type Err = String;

    /// The error does not repeat the value: it may hold a password.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "sqlite" => Ok(Self::Sqlite),
            url if url.contains("://") => match PostgresUrl::parse(url) {
                Ok(url) => Ok(Self::Postgres(Box::new(url))),
                Err(error) => Err(error.to_string()),
            },
            _ => Err("a store is `sqlite` or an address such as `postgres://user@host/database`".to_owned()),
        }
    }
}

impl TryFrom<String> for StoreChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl DisplayedValue for StoreChoice {
    fn shown(&self) -> String {
        match self {
            Self::Sqlite => "sqlite".to_owned(),
            Self::Postgres(url) => url.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [§12]
    #[test]
    fn a_store_is_a_file_or_an_address_and_its_password_is_never_shown() {
        let shown = |text: &str| text.parse::<StoreChoice>().map(|store| store.shown());

        assert_eq!(shown("sqlite"), Ok("sqlite".to_owned()));
        assert_eq!(shown("postgres://ada:s3cret@db/fleet"), Ok("postgres://ada:…@db:5432/fleet".to_owned()));
        for bad in ["mysql://ada:s3cret@db/fleet", "postgres://ada:s3cret@db:x/fleet", "s3cret"] {
            assert!(shown(bad).is_err_and(|why| !why.contains("s3cret")), "{bad}");
        }
    }
}
