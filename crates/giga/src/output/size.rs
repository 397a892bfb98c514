//! Sizes as people read them.

/// A size in its largest unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => {
            let tenths = bytes.saturating_mul(10) / unit;
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_read_at_a_glance() {
        assert_eq!(
            [0, 1023, 1536, 5 << 20, (3 << 30) + (1 << 29)].map(size),
            ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.5 GiB"]
        );
    }
}
