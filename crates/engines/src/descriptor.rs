//! The kinds of engines: one [`EngineDescriptor`] for each, beside the engine's code, all of them in [`DESCRIPTORS`].

use std::fmt;
use std::sync::Arc;

use domain::EngineName;
use sandbox::Environment;
use serde::{Deserialize, Deserializer, de};

use super::price_list::ListPrice;
use super::registry::{EngineContext, SignInMethod};
use super::{Engine, EngineConfig, TemplateError};

/// Every kind of engine. The order is that of preference among engines that are offered without configuration.
const DESCRIPTORS: [&EngineDescriptor; 5] = [
    &super::command::DESCRIPTOR,
    &super::claude::DESCRIPTOR,
    &super::codex::DESCRIPTOR,
    &super::devin::DESCRIPTOR,
    &super::acp::DESCRIPTOR,
];

/// The names of all kinds.
const NAMES: [&str; DESCRIPTORS.len()] = {
    let mut names = [""; DESCRIPTORS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = DESCRIPTORS[at].name;
        at += 1;
    }
    names
};

/// What one kind of engine has of its own. How it detects itself, builds its command, resumes its session and reads its
/// output is in the [`Engine`] that it makes.
pub(crate) struct EngineDescriptor {
    /// Its name, as `kind` in the configuration.
    pub(crate) name: &'static str,
    /// The names of engines that are of this kind when their configuration has neither `kind` nor `argv`.
    pub(crate) engine_names: &'static [&'static str],
    /// Its program, unless another is configured.
    pub(crate) program: Option<&'static str>,
    /// Whether `argv` is its command line.
    pub(crate) takes_argv: bool,
    /// Whether its turns are known while it runs, so that `turns_max` can end it.
    pub(crate) reports_turns: fn(&EngineConfig) -> bool,
    /// Whether it has web tools that the setting `web` controls.
    pub(crate) has_web_tools: bool,
    /// List prices of its models.
    pub(crate) prices: &'static [ListPrice],
    /// How an engine of this kind is made.
    pub(crate) maker: EngineMaker,
}

/// How an engine is made.
#[derive(Clone, Copy)]
pub(crate) enum EngineMaker {
    /// Once.
    Configured(MakeConfigured),
    /// Again at each detection, with the credential that is there then. Once it is signed in, it is offered without
    /// configuration.
    SignedIn { method: &'static SignInMethod, make: MakeSignedIn },
}

/// Makes an engine from its configuration alone.
pub(crate) type MakeConfigured =
    fn(EngineName, &EngineConfig, Environment, &EngineContext) -> Result<Arc<dyn Engine>, TemplateError>;

/// Makes an engine with the present credential.
pub(crate) type MakeSignedIn = fn(EngineName, &EngineConfig, Environment, &EngineContext) -> Arc<dyn Engine>;

/// The kind of an engine: one of a fixed list.
#[derive(Clone, Copy)]
pub struct EngineKind(&'static EngineDescriptor);

impl EngineKind {
    /// Any command line.
    pub const COMMAND: Self = Self(&super::command::DESCRIPTOR);

    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        DESCRIPTORS.into_iter().map(Self)
    }

    /// The kind called `name` in the configuration.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name() == name)
    }

    /// The kinds that are offered without configuration, once they are signed in.
    pub fn offered_unconfigured() -> impl Iterator<Item = Self> {
        Self::all().filter(|kind| kind.sign_in().is_some())
    }

    /// The kind of the engine called `engine`, if nothing else is configured.
    pub(crate) fn of_engine(engine: &EngineName) -> Self {
        Self::all().find(|kind| kind.0.engine_names.contains(&engine.as_str())).unwrap_or(Self::COMMAND)
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The default program of such an engine.
    pub fn program(self) -> Option<&'static str> {
        self.0.program
    }

    /// How it signs in, if the factory copies its credential.
    pub(crate) fn sign_in(self) -> Option<&'static SignInMethod> {
        match self.0.maker {
            EngineMaker::Configured(_) => None,
            EngineMaker::SignedIn { method, .. } => Some(method),
        }
    }

    pub(crate) fn descriptor(self) -> &'static EngineDescriptor {
        self.0
    }
}

impl PartialEq for EngineKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for EngineKind {}

impl fmt::Debug for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'de> Deserialize<'de> for EngineKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_and_every_engine_name_is_listed_once() {
        let names: BTreeSet<&str> = NAMES.into_iter().collect();
        let engines: Vec<&str> = EngineKind::all().flat_map(|kind| kind.0.engine_names).copied().collect();

        assert_eq!(names.len(), NAMES.len());
        assert_eq!(engines.iter().collect::<BTreeSet<_>>().len(), engines.len());
    }

    // A credential that is copied back is recognised by the name of its file.
    #[test]
    fn no_two_kinds_share_a_credential_file() {
        let files: Vec<&str> = EngineKind::all().filter_map(EngineKind::sign_in).map(|method| method.file).collect();

        assert_eq!(files.iter().collect::<BTreeSet<_>>().len(), files.len());
    }

    #[test]
    fn an_unknown_kind_is_refused_with_the_known_ones() {
        let error = serde_json::from_str::<EngineKind>(r#""cladue""#).unwrap_err().to_string();

        assert!(error.contains("unknown variant `cladue`, expected one of `command`, `claude`, `codex`"), "{error}");
    }
}
