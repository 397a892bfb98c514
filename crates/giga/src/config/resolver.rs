//! Takes each setting from the first source that has it, and records the sources.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use toml::Spanned;

use crate::failure::Failure;
use domain::suggest;

use super::UnknownVariable;
use super::environment::Environment;
use super::file::line_at;
use super::setting::{DisplayedValue, ListedSetting, Origin, Setting};

/// Variables that are read elsewhere, or that a factory sets for its engines.
const ELSEWHERE: [&str; 9] = [
    "GIGA_CONFIG",
    "GIGA_JOIN",
    "GIGA_WEB_DIR",
    "GIGA_MCP_MAX_WAIT_S",
    "GIGA_KILL_AT",
    "GIGA_CLOCK_SHIFT",
    "GIGA_JOB_ID",
    "GIGA_EPOCH",
    "GIGA_ATTEMPT",
];

/// Where one setting may come from, and its name.
pub(super) struct SettingSource<T> {
    key: &'static str,
    #[cfg(test)]
    flag_name: Option<&'static str>,
    flag: Option<(&'static str, T)>,
    variables: &'static [&'static str],
    file: Option<Spanned<T>>,
}

impl<T> SettingSource<T> {
    pub(super) fn new(key: &'static str) -> Self {
        Self {
            key,
            #[cfg(test)]
            flag_name: None,
            flag: None,
            variables: &[],
            file: None,
        }
    }

    pub(super) fn flag(mut self, name: &'static str, value: Option<T>) -> Self {
        #[cfg(test)]
        {
            self.flag_name = Some(name);
        }
        self.flag = value.map(|value| (name, value));
        self
    }

    /// Variables, the first that is set counts.
    pub(super) fn env(mut self, variables: &'static [&'static str]) -> Self {
        self.variables = variables;
        self
    }

    pub(super) fn file(mut self, value: Option<Spanned<T>>) -> Self {
        self.file = value;
        self
    }
}

/// Where a setting may come from, beside the file.
#[cfg(test)]
#[derive(Debug, Clone)]
pub(super) struct Sources {
    pub(super) key: &'static str,
    pub(super) flag: Option<&'static str>,
    pub(super) variables: &'static [&'static str],
}

/// A value that a variable can hold.
pub(super) trait FromVariable: Sized {
    fn from_variable(text: &str) -> Result<Self, String>;
}

/// Takes settings from where they are.
pub(super) struct Resolver {
    environment: Environment,
    path: Option<PathBuf>,
    text: String,
    listing: Vec<ListedSetting>,
    variables: Vec<&'static str>,
    #[cfg(test)]
    sources: Vec<Sources>,
}

impl Resolver {
    pub(super) fn new(environment: Environment, path: Option<PathBuf>, text: String) -> Self {
        Self {
            environment,
            path,
            text,
            listing: Vec::new(),
            variables: ELSEWHERE.to_vec(),
            #[cfg(test)]
            sources: Vec::new(),
        }
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// A setting that always has a value.
    pub(super) fn setting<T: FromVariable + DisplayedValue>(
        &mut self,
        ask: SettingSource<T>,
        default: impl FnOnce() -> T,
    ) -> Result<Setting<T>, Failure> {
        let key = ask.key;
        let setting = self.find(ask)?.unwrap_or_else(|| Setting { value: default(), origin: Origin::Default });
        self.list(key, setting.value.shown(), &setting.origin);
        Ok(setting)
    }

    /// A setting that may be absent.
    pub(super) fn optional<T: FromVariable + DisplayedValue>(
        &mut self,
        ask: SettingSource<T>,
    ) -> Result<Setting<Option<T>>, Failure> {
        let key = ask.key;
        let setting = match self.find(ask)? {
            Some(Setting { value, origin }) => Setting { value: Some(value), origin },
            None => Setting { value: None, origin: Origin::Default },
        };
        self.list(key, setting.value.shown(), &setting.origin);
        Ok(setting)
    }

    /// A table, which only the file can give.
    pub(super) fn table<T>(&mut self, key: &'static str, value: Option<T>, shown: fn(&T) -> String) -> Setting<T>
    where
        T: Default,
    {
        let setting = match (value, &self.path) {
            (Some(value), Some(path)) => Setting { value, origin: Origin::File { path: path.clone(), line: None } },
            (value, _) => Setting { value: value.unwrap_or_default(), origin: Origin::Default },
        };
        self.list(key, shown(&setting.value), &setting.origin);
        setting
    }

    /// The first place that has a value. Not listed yet.
    pub(super) fn find<T: FromVariable>(&mut self, ask: SettingSource<T>) -> Result<Option<Setting<T>>, Failure> {
        self.variables.extend(ask.variables);
        #[cfg(test)]
        if !self.sources.iter().any(|known| known.key == ask.key && known.variables == ask.variables) {
            self.sources.push(Sources { key: ask.key, flag: ask.flag_name, variables: ask.variables });
        }
        if let Some((name, value)) = ask.flag {
            return Ok(Some(Setting { value, origin: Origin::Flag(name) }));
        }
        for name in ask.variables {
            if let Some(text) = self.environment.get(name) {
                let value = T::from_variable(&in_units(name, text));
                let value = value.map_err(|why| Failure::usage(format!("{name}: {why}")))?;
                return Ok(Some(Setting { value, origin: Origin::Variable(name) }));
            }
        }
        let Some(found) = ask.file else { return Ok(None) };
        let origin = self.place(&found);
        Ok(Some(Setting { value: found.into_inner(), origin }))
    }

    /// Where in the file something is written.
    pub(super) fn place<T>(&self, written: &Spanned<T>) -> Origin {
        let path = self.path.clone().unwrap_or_default();
        Origin::File { path, line: Some(line_at(&self.text, written.span().start)) }
    }

    /// Remembers a setting for people.
    pub(super) fn list(&mut self, key: &'static str, value: String, origin: &Origin) {
        self.listing.push(ListedSetting { key, value, origin: origin.to_string() });
    }

    /// A path from the file, relative to the file's directory, with `~` for the home directory.
    pub(super) fn placed(&self, path: Option<Spanned<PathBuf>>) -> Option<Spanned<PathBuf>> {
        let path = path?;
        let (span, path) = (path.span(), path.into_inner());
        Some(Spanned::new(span, self.seen_from_file(&path)))
    }

    /// A program from the file: a name is searched on the PATH, a path is relative to the file's directory.
    pub(super) fn placed_program(&self, program: &mut String) {
        if program.contains('/') {
            *program = self.absolute(Path::new(&*program)).to_string_lossy().into_owned();
        }
    }

    /// A repository's address from the file: a path is relative to the file's directory, everything else is unchanged.
    pub(super) fn placed_repository(&self, url: &mut String) {
        let is_path =
            ["./", "../", "~/"].iter().any(|prefix| url.starts_with(prefix)) || matches!(url.as_str(), "." | "..");
        if is_path {
            let path = self.absolute(Path::new(&*url));
            *url = path.canonicalize().unwrap_or(path).to_string_lossy().into_owned();
        }
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        let path = self.seen_from_file(path);
        std::path::absolute(&path).unwrap_or(path)
    }

    fn seen_from_file(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), self.environment.home()) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => self.path.as_deref().and_then(Path::parent).map_or(path.to_owned(), |folder| folder.join(path)),
        }
    }

    /// Where each setting may come from.
    #[cfg(test)]
    pub(super) fn sources(&self) -> Vec<Sources> {
        self.sources.clone()
    }

    /// The list of all settings, and the unknown variables.
    pub(super) fn finish(self) -> (Vec<ListedSetting>, Vec<UnknownVariable>) {
        let ours = self.variables.iter().copied().filter(|name| name.starts_with("GIGA_"));
        let strangers =
            self.environment.names().filter(|name| name.starts_with("GIGA_") && !self.variables.contains(name));
        let strangers = strangers
            .map(|name| UnknownVariable { name: name.to_owned(), meant: suggest(name, ours.clone()) })
            .collect();
        (self.listing, strangers)
    }
}

/// A number in a variable whose name includes the unit, with that unit.
fn in_units(name: &str, text: &str) -> String {
    if name.ends_with("_SEC") || name.ends_with("_SECONDS") { format!("{text}s") } else { text.to_owned() }
}

/// Reads any value that has a text form.
pub(super) fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|error: T::Err| error.to_string())
}

macro_rules! from_variable {
    ($($kind:ty),*) => {
        $(impl FromVariable for $kind {
            fn from_variable(text: &str) -> Result<Self, String> {
                parsed(text)
            }
        })*
    };
}

from_variable!(
    String,
    u8,
    u32,
    std::net::SocketAddr,
    super::artifacts::PlaceChoice,
    super::size::Size,
    super::duration::HumanDuration,
    super::log::LogFormat,
    super::store::StoreChoice,
    super::broker::BrokerChoice,
    super::broker::ReceiveFrom,
    sandbox::SandboxMode,
    domain::BranchName,
    domain::ProductId,
    domain::FactoryId,
    domain::Capability
);

impl FromVariable for PathBuf {
    fn from_variable(text: &str) -> Result<Self, String> {
        Ok(Self::from(text))
    }
}

impl FromVariable for super::secret::Secret {
    fn from_variable(text: &str) -> Result<Self, String> {
        Ok(Self::new(text))
    }
}

impl FromVariable for bool {
    fn from_variable(text: &str) -> Result<Self, String> {
        match text.trim() {
            "1" | "true" | "yes" | "on" => Ok(true),
            "0" | "false" | "no" | "off" => Ok(false),
            other => Err(format!("`{}` is neither `true` nor `false`", domain::escape_for_terminal(other))),
        }
    }
}

impl<T: FromVariable> FromVariable for Vec<T> {
    fn from_variable(text: &str) -> Result<Self, String> {
        text.split(',').filter(|part| !part.trim().is_empty()).map(T::from_variable).collect()
    }
}
