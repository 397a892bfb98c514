//! Commands that a hint recommends, with the global flags of this command line: without them they would mean another fleet.

use crate::cli::GlobalArgs;

/// The global flags that select the fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FleetFlags {
    /// Which settings and data: every command of a fleet needs them.
    settings: String,
    /// How clients reach the coordinator.
    client: String,
}

impl FleetFlags {
    pub(super) fn of(global: &GlobalArgs) -> Self {
        let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let flag = |name: &str, value: Option<String>| value.map(|value| format!("{name} {} ", quoted(&value)));
        let settings =
            [flag("--config", global.config.as_deref().map(path)), flag("--data", global.data.as_deref().map(path))];
        let client = [flag("--api", global.api.clone()), flag("--product", global.product.clone())];
        Self { settings: settings.into_iter().flatten().collect(), client: client.into_iter().flatten().collect() }
    }

    /// The text with these flags in each command that it recommends, such as `` `giga up` ``. A token is never repeated.
    pub(super) fn in_commands(&self, text: &str) -> String {
        const COMMAND: &str = "`giga ";
        if self.settings.is_empty() && self.client.is_empty() {
            return text.to_owned();
        }
        let mut pieces = text.split(COMMAND);
        let mut whole = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            whole.push_str(COMMAND);
            match piece.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default() {
                "init" | "schema" | "completions" | "local" => {}
                "up" | "serve" => whole.push_str(&self.settings),
                verb if verb.starts_with(|c: char| c.is_ascii_lowercase()) => {
                    whole.push_str(&self.settings);
                    whole.push_str(&self.client);
                }
                _ => {}
            }
            whole.push_str(piece);
        }
        whole
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:~@%+=,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recommended_commands_carry_the_flags_that_were_used() {
        let data = GlobalArgs { data: Some("my fleet".into()), token: Some("secret".to_owned()), ..Default::default() };
        let api = GlobalArgs { api: Some("http://h:1".to_owned()), ..data.clone() };

        for (flags, text, expected) in [
            (GlobalArgs::default(), "start it with `giga up`", "start it with `giga up`"),
            (
                data.clone(),
                "start it with `giga up`, see `giga --help`",
                "start it with `giga --data 'my fleet' up`, see `giga --help`",
            ),
            (data, "`giga init` writes one", "`giga init` writes one"),
            (api.clone(), "`giga jobs` lists them", "`giga --data 'my fleet' --api http://h:1 jobs` lists them"),
            (api, "or `giga up`", "or `giga --data 'my fleet' up`"),
        ] {
            assert_eq!(FleetFlags::of(&flags).in_commands(text), expected);
        }
    }
}
