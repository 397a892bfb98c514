//! `[artifacts]`: where the files of runs are kept, and for how long.

use std::time::Duration;

use coordinator::Settings;
use domain::ArtifactLimits;
use serde::Deserialize;
use store::BlobPlace;
use toml::Spanned;

use crate::failure::Failure;

use super::duration::HumanDuration;
use super::resolver::{Resolver, SettingSource};
use super::setting::{DisplayedValue, Setting};
use super::size::Size;

/// The longest that providers sign a URL for.
const URL_TTL_MAX: Duration = Duration::from_hours(7 * 24);

/// Where artifacts are kept.
#[derive(Debug)]
pub(crate) struct ArtifactConfig {
    /// The bucket or the directory; a directory in the data directory when absent.
    pub(crate) store: Setting<Option<PlaceChoice>>,
    /// Another endpoint than the provider's own.
    pub(crate) endpoint: Setting<Option<String>>,
    /// Whether the logs and the evidence of runs are kept there too.
    pub(crate) logs: Setting<bool>,
    retention: Setting<HumanDuration>,
    file_max: Setting<Size>,
    job_max: Setting<Size>,
    signed_urls: Setting<Option<HumanDuration>>,
}

/// `[artifacts]` in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Artifacts {
    store: Option<Spanned<PlaceChoice>>,
    endpoint: Option<Spanned<String>>,
    logs: Option<Spanned<bool>>,
    retention: Option<Spanned<HumanDuration>>,
    file_max: Option<Spanned<Size>>,
    job_max: Option<Spanned<Size>>,
    signed_urls: Option<Spanned<HumanDuration>>,
}

/// A bucket or a directory.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct PlaceChoice(pub(crate) BlobPlace);

impl std::str::FromStr for PlaceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl TryFrom<String> for PlaceChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl DisplayedValue for PlaceChoice {
    fn shown(&self) -> String {
        self.0.to_string()
    }
}

impl ArtifactConfig {
    pub(super) fn resolve(resolver: &mut Resolver, file: Artifacts) -> Result<Self, Failure> {
        let default = Settings::default();
        let place = file.store.map(|place| placed(resolver, place));
        let store = SettingSource::new("artifacts.store").env(&["GIGA_ARTIFACTS_STORE"]).file(place);
        let endpoint = SettingSource::new("artifacts.endpoint").env(&["GIGA_ARTIFACTS_ENDPOINT"]).file(file.endpoint);
        let logs = SettingSource::new("artifacts.logs").env(&["GIGA_ARTIFACTS_LOGS"]).file(file.logs);
        let retention =
            SettingSource::new("artifacts.retention").env(&["GIGA_ARTIFACTS_RETENTION"]).file(file.retention);
        let file_max = SettingSource::new("artifacts.file_max").env(&["GIGA_ARTIFACTS_FILE_MAX"]).file(file.file_max);
        let job_max = SettingSource::new("artifacts.job_max").env(&["GIGA_ARTIFACTS_JOB_MAX"]).file(file.job_max);
        let urls =
            SettingSource::new("artifacts.signed_urls").env(&["GIGA_ARTIFACTS_SIGNED_URLS"]).file(file.signed_urls);
        let config = Self {
            store: resolver.optional(store)?,
            endpoint: resolver.optional(endpoint)?,
            logs: resolver.setting(logs, || false)?,
            retention: resolver.setting(retention, || HumanDuration(default.artifact_retention))?,
            file_max: resolver.setting(file_max, || Size(default.artifacts.file_bytes_max))?,
            job_max: resolver.setting(job_max, || Size(default.artifacts.job_bytes_max))?,
            signed_urls: resolver.optional(urls)?,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.file_max.value.0 > domain::ARTIFACT_BYTES_MAX {
            return Err(Failure::usage(format!(
                "artifacts.file_max: at most {}",
                domain::byte_size(domain::ARTIFACT_BYTES_MAX)
            )));
        }
        let bucket = matches!(self.store.value, Some(PlaceChoice(BlobPlace::Bucket(_))));
        if self.endpoint.value.is_some() && !bucket {
            return Err(Failure::usage("artifacts.endpoint: only an object store has an endpoint")
                .hint("set artifacts.store to `s3://bucket` or `az://container`"));
        }
        let is_address = |endpoint: &String| endpoint.starts_with("https://") || endpoint.starts_with("http://");
        if self.endpoint.value.as_ref().is_some_and(|endpoint| !is_address(endpoint)) {
            return Err(Failure::usage("artifacts.endpoint: expected an address such as `https://storage.example`"));
        }
        match self.signed_urls.value {
            Some(_) if !bucket => Err(Failure::usage("artifacts.signed_urls: a directory signs no URLs")
                .hint("remove it, or set artifacts.store to an object store")),
            Some(HumanDuration(ttl)) if ttl.is_zero() || ttl > URL_TTL_MAX => {
                Err(Failure::usage("artifacts.signed_urls: between 1 s and 7 days"))
            }
            _ => Ok(()),
        }
    }

    /// Puts the settings into those of the coordinator.
    pub(crate) fn set_in(&self, settings: Settings) -> Settings {
        Settings {
            artifacts: ArtifactLimits { file_bytes_max: self.file_max.value.0, job_bytes_max: self.job_max.value.0 },
            artifact_retention: self.retention.value.0,
            artifact_url_ttl: self.signed_urls.value.map(|ttl| ttl.0),
            ..settings
        }
    }
}

/// A directory in the file is relative to the file.
fn placed(resolver: &Resolver, place: Spanned<PlaceChoice>) -> Spanned<PlaceChoice> {
    let span = place.span();
    match place.into_inner() {
        PlaceChoice(BlobPlace::Directory(path)) => {
            let path = resolver.placed(Some(Spanned::new(span.clone(), path)));
            let path = path.map(Spanned::into_inner).unwrap_or_default();
            Spanned::new(span, PlaceChoice(BlobPlace::Directory(path)))
        }
        bucket => Spanned::new(span, bucket),
    }
}

#[cfg(test)]
mod tests {
    use super::super::of_file;

    // [J8]
    #[test]
    fn only_an_object_store_has_an_endpoint_and_signs_urls() {
        let failure = |text: &str| of_file(text).unwrap_err().message().to_owned();

        assert!(failure("[artifacts]\nendpoint = \"http://x\"\n").contains("only an object store has an endpoint"));
        assert!(failure("[artifacts]\nsigned_urls = \"5m\"\n").contains("a directory signs no URLs"));
        assert!(failure("[artifacts]\nstore = \"az://a\"\nendpoint = \"x\"\n").contains("expected an address"));
        let config = of_file("[artifacts]\nstore = \"s3://a/b\"\nsigned_urls = \"5m\"\nfile_max = \"1GiB\"\n").unwrap();
        let settings = config.artifacts.set_in(config.coordinator.settings());
        assert_eq!(settings.artifacts.file_bytes_max, 1 << 30);
        assert_eq!(settings.artifact_url_ttl, Some(std::time::Duration::from_mins(5)));
    }
}
