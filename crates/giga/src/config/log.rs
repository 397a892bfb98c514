//! `[log]`: what is logged, and how.

use std::str::FromStr;

use serde::Deserialize;

use crate::failure::Failure;

use super::file;
use super::resolver::{Resolver, SettingSource};
use super::setting::{DisplayedValue, Setting};

/// What is logged, and how.
#[derive(Debug)]
pub(crate) struct LogConfig {
    /// How a line looks.
    pub(crate) format: Setting<LogFormat>,
    /// A level, or levels by module: `info,coordinator=debug`.
    pub(crate) level: Setting<String>,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Pretty,
    /// For programs: one JSON object a line.
    Json,
}

impl LogConfig {
    pub(super) fn resolve(resolver: &mut Resolver, file: file::Log) -> Result<Self, Failure> {
        let format = SettingSource::new("log.format").env(&["GIGA_LOG_FORMAT"]).file(file.format);
        let level = SettingSource::new("log.level").env(&["GIGA_LOG"]).file(file.level);
        Ok(Self {
            format: resolver.setting(format, || LogFormat::Pretty)?,
            level: resolver.setting(level, || "info".to_owned())?,
        })
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "pretty" => Ok(Self::Pretty),
            "json" => Ok(Self::Json),
            other => Err(format!("`{}` is neither `pretty` nor `json`", domain::escape_for_terminal(other))),
        }
    }
}

impl DisplayedValue for LogFormat {
    fn shown(&self) -> String {
        match self {
            Self::Pretty => "pretty".to_owned(),
            Self::Json => "json".to_owned(),
        }
    }
}
