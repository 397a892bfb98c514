//! The colours. They only repeat what the text states.

/// Whether there are colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Palette {
    /// There are.
    Coloured,
    /// There are none.
    Plain,
}

/// What a colour repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tint {
    /// It went well.
    Good,
    /// Needs attention.
    Warn,
    /// It went badly.
    Bad,
    /// A heading.
    Strong,
    /// Less important than other text.
    Faint,
}

impl Palette {
    /// Whether the user wants colours at all.
    pub(crate) fn is_welcome() -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|kind| kind != "dumb")
    }

    /// The text in a colour.
    pub(crate) fn paint(self, text: &str, tint: Tint) -> String {
        if self == Self::Plain {
            return text.to_owned();
        }
        let code = match tint {
            Tint::Good => 32,
            Tint::Warn => 33,
            Tint::Bad => 31,
            Tint::Strong => 1,
            Tint::Faint => 2,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}
