//! How many columns a text takes on a terminal.

/// The columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// The text cut to a number of columns; what was cut off shows as `…`.
pub(super) fn cut(text: &str, columns_max: usize) -> String {
    if columns(text) <= columns_max {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += columns_of(c);
        if used > columns_max {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

fn columns_of(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f | 0x200b..=0x200d | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_fits_and_says_that_it_was_cut() {
        assert_eq!(cut("fix the parser", 7), "fix th…");
        assert_eq!(cut("fix", 3), "fix");
        assert_eq!(cut("構文解析", 5), "構文…");
        assert_eq!(columns("構文…"), 5);
    }
}
