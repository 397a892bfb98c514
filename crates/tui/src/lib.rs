//! The terminal client, `giga dash`.
