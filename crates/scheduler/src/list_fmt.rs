//! Formats lists of names.

use std::fmt;

/// Names in back quotes with a word before the last: "`a`, `b` and `c`".
pub(crate) struct NameList<'a, T> {
    names: &'a [T],
    last: &'static str,
}

impl<'a, T> NameList<'a, T> {
    /// "`a` and `b`".
    pub(crate) fn all(names: &'a [T]) -> Self {
        Self { names, last: "and" }
    }

    /// "`a` or `b`".
    pub(crate) fn any(names: &'a [T]) -> Self {
        Self { names, last: "or" }
    }
}

impl<T: fmt::Display> fmt::Display for NameList<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.names.iter().enumerate() {
            match at {
                0 => {}
                at if at + 1 == self.names.len() => write!(f, " {} ", self.last)?,
                _ => f.write_str(", ")?,
            }
            write!(f, "`{name}`")?;
        }
        Ok(())
    }
}
