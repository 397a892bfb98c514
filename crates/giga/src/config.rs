//! Every setting, with its source: flags, then `GIGA_*` variables, then `giga.toml`, then the defaults.

mod artifacts;
mod broker;
mod client;
mod coordinator;
mod data;
mod duration;
mod environment;
mod factory;
mod file;
mod housekeeping;
mod limits;
mod log;
mod overrides;
mod polling;
#[cfg(test)]
mod reference;
mod resolver;
mod secret;
mod setting;
mod size;
mod store;
mod toml_errors;
mod tracker;
mod webhook;

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::WebhookName;

pub(crate) use self::broker::{BrokerChoice, ReceiveFrom};
pub(crate) use self::coordinator::CoordinatorConfig;
pub(crate) use self::factory::FactoryConfig;
pub(crate) use artifacts::ArtifactConfig;
pub(crate) use client::{ClientConfig, FINGERPRINT, TokenSource, fingerprint, is_fingerprint, is_loopback};
pub(crate) use data::DataDir;
pub(crate) use duration::HumanDuration;
pub(crate) use environment::Environment;
pub(crate) use log::{LogConfig, LogFormat};
pub(crate) use overrides::Overrides;
pub(crate) use setting::{ListedSetting, Origin, Setting};
pub(crate) use tracker::{GithubTracker, TrackerConfig};
pub(crate) use webhook::Webhook;

use crate::cli::GlobalArgs;
use crate::failure::Failure;

use file::File;
use resolver::{Resolver, SettingSource};

/// Everything that can be set, resolved.
#[derive(Debug)]
pub(crate) struct Config {
    /// The file that was read, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// Where data lives.
    pub(crate) data: DataDir,
    /// How clients reach the coordinator.
    pub(crate) client: ClientConfig,
    /// How a coordinator behaves.
    pub(crate) coordinator: CoordinatorConfig,
    /// What a factory offers and how it works.
    pub(crate) factory: FactoryConfig,
    /// The trackers whose items become jobs.
    pub(crate) tracker: TrackerConfig,
    /// The receivers of outgoing webhooks.
    pub(crate) webhooks: Setting<BTreeMap<WebhookName, Webhook>>,
    /// Where artifacts are kept.
    pub(crate) artifacts: ArtifactConfig,
    /// What is logged, and how.
    pub(crate) log: LogConfig,
    /// Every setting for people, in the order of the file.
    pub(crate) listing: Vec<ListedSetting>,
    /// Where each setting may come from, for the reference page.
    #[cfg(test)]
    sources: Vec<resolver::Sources>,
    /// `GIGA_*` variables that are set and mean nothing.
    pub(crate) strangers: Vec<UnknownVariable>,
    /// `--accept-data-loss`: a flag only, for it is decided each time.
    pub(crate) accept_data_loss: bool,
    /// The flags, to read the other settings again.
    flags: Overrides,
}

/// A variable that looks like one of ours and is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownVariable {
    /// Its name.
    pub(crate) name: String,
    /// The one that was probably meant.
    pub(crate) meant: Option<&'static str>,
}

impl Config {
    /// Reads the flags, the environment and the file of this process.
    pub(crate) fn load(global: &GlobalArgs, own: Overrides) -> Result<Self, Failure> {
        let environment = Environment::of_this_process();
        let file = File::find(global.config.as_deref(), &environment)?;
        Self::resolve(&own.with_global(global)?, environment, file)
    }

    /// The settings from the environment of this process, without any file.
    pub(crate) fn without_file() -> Result<Self, Failure> {
        Self::resolve(&Overrides::default(), Environment::of_this_process(), File::default())
    }

    /// Reads the file and the environment again, under the same flags.
    pub(crate) fn reload(&self) -> Result<Self, Failure> {
        let environment = Environment::of_this_process();
        let file = File::find(self.file.as_deref(), &environment)?;
        Self::resolve(&self.flags, environment, file)
    }

    /// The directory of the fleet's profiles, which may not exist.
    pub(crate) fn profiles(&self) -> Option<PathBuf> {
        let beside = || Some(self.file.as_ref()?.parent()?.join("profiles"));
        self.coordinator.profiles.value.clone().or_else(beside)
    }

    /// Drops the settings for remote clients: a local queue has none.
    pub(crate) fn keep_to_this_process(&mut self) {
        self.coordinator.tls_cert.value = None;
        self.coordinator.tls_key.value = None;
        self.coordinator.behind_proxy.value = false;
    }

    fn resolve(flags: &Overrides, environment: Environment, file: File) -> Result<Self, Failure> {
        let File { path, text, content } = file;
        let mut resolver = Resolver::new(environment, path.clone(), text);
        let data = data(&mut resolver, flags.data.clone(), content.data)?;
        let listener = listener(&mut resolver, flags, &content.coordinator)?;
        let client = ClientConfig::resolve(&mut resolver, flags, content.client, &data, listener.as_ref())?;
        let coordinator = CoordinatorConfig::resolve(&mut resolver, flags, content.coordinator)?;
        let factory = FactoryConfig::resolve(&mut resolver, flags, content.factory, &data)?;
        let tracker = TrackerConfig::resolve(&mut resolver, content.tracker)?;
        let webhooks = webhook::resolve(&mut resolver, content.webhooks)?;
        let artifacts = ArtifactConfig::resolve(&mut resolver, content.artifacts)?;
        let log = LogConfig::resolve(&mut resolver, content.log)?;
        #[cfg(test)]
        let sources = resolver.sources();
        let (listing, strangers) = resolver.finish();
        Ok(Self {
            file: path,
            data,
            client,
            coordinator,
            factory,
            tracker,
            artifacts,
            webhooks,
            log,
            listing,
            #[cfg(test)]
            sources,
            strangers,
            accept_data_loss: flags.accept_data_loss,
            flags: flags.clone(),
        })
    }
}

/// The address at which a coordinator with this configuration listens, if configured: clients with the same one connect there.
fn listener(
    resolver: &mut Resolver,
    flags: &Overrides,
    file: &file::Coordinator,
) -> Result<Option<client::Listener>, Failure> {
    let ask = coordinator::listen(flags, file.listen.clone());
    let has_tls =
        flags.tls_cert.is_some() || resolver.environment().get("GIGA_TLS_CERT").is_some() || file.tls_cert.is_some();
    Ok(resolver.find(ask)?.map(|address| client::Listener { address, has_tls }))
}

/// What a text means as a configuration file.
#[cfg(test)]
pub(crate) fn of_file(text: &str) -> Result<Config, Failure> {
    let file = File::parse(std::path::Path::new("giga.toml"), text.to_owned())?;
    Config::resolve(&Overrides::default(), Environment::of([("HOME", "/home/ada")]), file)
}

fn data(
    resolver: &mut Resolver,
    flag: Option<PathBuf>,
    file: Option<toml::Spanned<PathBuf>>,
) -> Result<DataDir, Failure> {
    let default = resolver.environment().data_folder();
    let ask = SettingSource::new("data").flag("--data", flag).env(&["GIGA_DATA"]).file(resolver.placed(file));
    Ok(DataDir::new(resolver.setting(ask, || default)?))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;
    use std::time::Duration;

    use ::factory::{PollWhen, Polling};

    use super::client::TokenSource;
    use super::*;

    fn resolve(flags: &Overrides, env: &[(&str, &str)], text: &str) -> Result<Config, Failure> {
        let home = [("HOME", "/home/ada")];
        let environment = Environment::of(home.iter().chain(env).map(|(name, value)| (*name, *value)));
        Config::resolve(flags, environment, File::parse(Path::new("/etc/giga/giga.toml"), text.to_owned())?)
    }

    fn listed<'c>(config: &'c Config, key: &str) -> (&'c str, &'c str) {
        let row = config.listing.iter().find(|row| row.key == key).unwrap();
        (&row.value, &row.origin)
    }

    // [§12]
    #[test]
    fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
        let file = "[coordinator]\n\nlisten = \"127.0.0.1:1\"\n";
        let env = [("GIGA_LISTEN", "127.0.0.1:2")];
        let flag =
            |port: u16| Overrides { listen: Some(SocketAddr::from(([127, 0, 0, 1], port))), ..Default::default() };

        let by_default = resolve(&Overrides::default(), &[], "").unwrap();
        let by_file = resolve(&Overrides::default(), &[], file).unwrap();
        let by_env = resolve(&Overrides::default(), &env, file).unwrap();
        let by_flag = resolve(&flag(3), &env, file).unwrap();

        assert_eq!(listed(&by_default, "coordinator.listen"), ("127.0.0.1:7878", "default"));
        assert_eq!(listed(&by_file, "coordinator.listen"), ("127.0.0.1:1", "/etc/giga/giga.toml:3"));
        assert_eq!(listed(&by_env, "coordinator.listen"), ("127.0.0.1:2", "GIGA_LISTEN"));
        assert_eq!(listed(&by_flag, "coordinator.listen"), ("127.0.0.1:3", "--listen"));
    }

    // [§12]
    #[test]
    fn names_from_older_scripts_work_below_ours() {
        let old = [
            ("AQ_FLEET_API", "http://old:1"),
            ("AQ_PRODUCT_ID", "notes"),
            ("AQ_FLEET_REPO_BASE", "/src"),
            ("AQ_FLEET_LEASE_RENEW_SEC", "20"),
        ];
        let both = [("AQ_FLEET_API", "http://old:1"), ("GIGA_API", "http://new:1")];

        let config = resolve(&Overrides::default(), &old, "[client]\napi = \"http://file:1\"\n").unwrap();
        let newer = resolve(&Overrides::default(), &both, "").unwrap();

        assert_eq!(listed(&config, "client.api"), ("http://old:1", "AQ_FLEET_API"));
        assert_eq!(listed(&config, "client.product"), ("notes", "AQ_PRODUCT_ID"));
        assert_eq!(listed(&config, "factory.repo_base"), ("/src", "AQ_FLEET_REPO_BASE"));
        assert_eq!(config.coordinator.renew_every.value, HumanDuration(Duration::from_secs(20)));
        assert_eq!(listed(&newer, "client.api"), ("http://new:1", "GIGA_API"));
    }

    // [§12]
    #[test]
    fn how_a_factory_asks_for_work_can_be_set_by_the_names_of_older_scripts() {
        let old = [("AQ_FLEET", "1"), ("AQ_FLEET_ROUTE", "0"), ("AQ_FLEET_GATE", "1"), ("POLL_SECONDS", "3")];
        let newer = [("POLL_SECONDS", "3"), ("GIGA_POLL_EVERY", "20s"), ("AQ_FLEET_ROUTE", "0"), ("GIGA_ROUTE", "1")];

        let by_old = resolve(&Overrides::default(), &old, "[factory]\npoll_every = \"40s\"\n").unwrap();
        let by_newer = resolve(&Overrides::default(), &newer, "").unwrap();

        let every = Duration::from_secs(3);
        let expected = Polling { every, when: PollWhen::Always, gated: true };
        assert_eq!(by_old.factory.polling.reconciled(), (expected, vec![]));
        assert_eq!(listed(&by_old, "factory.poll_every"), ("3s", "POLL_SECONDS"));
        assert_eq!(listed(&by_old, "factory.route"), ("false", "AQ_FLEET_ROUTE"));
        assert_eq!(listed(&by_newer, "factory.poll_every"), ("20s", "GIGA_POLL_EVERY"));
        assert_eq!(listed(&by_newer, "factory.route"), ("true", "GIGA_ROUTE"));
    }

    // [T7] [§12]
    #[test]
    fn a_pause_that_cannot_be_is_clamped_with_a_warning_and_so_is_a_folder_queue() {
        let config = resolve(&Overrides::default(), &[("POLL_SECONDS", "0"), ("AQ_FLEET", "0")], "").unwrap();

        let (polling, warnings) = config.factory.polling.reconciled();

        assert_eq!(polling.every, Duration::from_secs(1));
        let clamped = "POLL_SECONDS: asking for work every 0s is out of bounds: every 1s";
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].starts_with("AQ_FLEET selects the local folder queue"), "{warnings:?}");
        assert_eq!(warnings[1], clamped);
    }

    // [§12]
    #[test]
    fn flags_of_the_coordinator_are_read_by_their_older_names() {
        let env = [("AQ_FLEET_SHADOW", "1"), ("FLEET_PREEMPTION", "1"), ("FLEET_BUDGETS", "1")];

        let config = resolve(&Overrides::default(), &env, "").unwrap();

        let settings = config.coordinator.settings();
        assert!(settings.shadow && settings.preemption && settings.budgets, "{settings:?}");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_one_that_was_meant() {
        let failure = resolve(&Overrides::default(), &[], "[coordinator]\nlissten = \"127.0.0.1:1\"\n").unwrap_err();

        assert_eq!(failure.message(), "/etc/giga/giga.toml:2: unknown key `lissten`");
        assert_eq!(failure.hint_text(), Some("did you mean `listen`?"));
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line_or_its_variable() {
        let in_file = resolve(&Overrides::default(), &[], "\n[coordinator]\nlease_ttl = \"soon\"\n").unwrap_err();
        let in_env = resolve(&Overrides::default(), &[("GIGA_LEASE_TTL", "30")], "").unwrap_err();

        let expected = "/etc/giga/giga.toml:3: `soon` is not a span of time: write `90s`, `2m` or `1h30m`";
        assert_eq!(in_file.message(), expected);
        assert_eq!(in_env.message(), "GIGA_LEASE_TTL: `30` has no unit: write `30s`, `30m` or `30h`");
    }

    #[test]
    fn a_limit_is_written_in_units_or_by_the_older_name_that_ends_in_its_unit() {
        let new = "[factory.limits]\nwall = \"1h30m\"\ngrace = \"0s\"\ndisk = \"10GiB\"\ndisk_free = \"1B\"\n";
        let old = "[factory.limits]\nengine_wall_ms = 5400000\ngrace_ms = 0\nworktree_growth_mib_max = 10240\n\
                   disk_free_mib_min = 1\n";

        let by_new = resolve(&Overrides::default(), &[], new).unwrap();
        let by_old = resolve(&Overrides::default(), &[], old).unwrap();

        let expected = sandbox::Limits {
            engine_wall_ms: 5_400_000,
            grace_ms: 0,
            worktree_growth_mib_max: 10 * 1024,
            disk_free_mib_min: 1,
            ..Default::default()
        };
        assert_eq!((&by_new.factory.limits, &by_old.factory.limits), (&expected, &expected));
        assert_eq!(listed(&by_new, "factory.limits.wall"), ("1h30m", "/etc/giga/giga.toml:2"));
        assert_eq!(listed(&by_old, "factory.limits.disk"), ("10GiB", "/etc/giga/giga.toml:4"));
        assert_eq!(listed(&by_old, "factory.limits.idle"), ("15m", "default"));
    }

    #[test]
    fn a_limit_that_is_written_twice_or_lets_nothing_run_is_refused_with_what_to_do() {
        let twice = "[factory.limits]\nwall = \"1h\"\nengine_wall_ms = 5\n";

        let twice = resolve(&Overrides::default(), &[], twice).unwrap_err();
        let nothing = resolve(&Overrides::default(), &[], "[factory.limits]\nidle = \"0s\"\n").unwrap_err();
        let bare = resolve(&Overrides::default(), &[], "[factory.limits]\ndisk = \"10\"\n").unwrap_err();
        let number = resolve(&Overrides::default(), &[], "[factory.limits]\nwall = 10\n").unwrap_err();

        assert_eq!(twice.message(), "/etc/giga/giga.toml:3: `engine_wall_ms` and `wall` are the same limit");
        assert_eq!(twice.hint_text(), Some("keep `wall` and remove `engine_wall_ms`"));
        assert_eq!(nothing.message(), "/etc/giga/giga.toml:2: `idle` must be greater than zero");
        assert_eq!(bare.message(), "/etc/giga/giga.toml:2: `10` has no unit: write `10MiB` or `10GiB`");
        assert!(number.hint_text().is_some_and(|hint| hint.starts_with("put it in quotes")), "{number}");
    }

    #[test]
    fn paths_in_a_file_are_seen_from_the_file() {
        let text = "data = \"~/fleet\"\n[coordinator]\ntls_cert = \"cert.pem\"\ntls_key = \"/k.pem\"\n";

        let config = resolve(&Overrides::default(), &[], text).unwrap();

        assert_eq!(config.data.path(), Path::new("/home/ada/fleet"));
        assert_eq!(config.coordinator.tls_cert.value.as_deref(), Some(Path::new("/etc/giga/cert.pem")));
        assert_eq!(config.coordinator.tls_key.value.as_deref(), Some(Path::new("/k.pem")));
    }

    #[test]
    fn engines_and_repositories_in_a_file_are_seen_from_the_file() {
        let text = "[factory.repos]\napp = \"./app\"\nfar = \"git@forge.example:far.git\"\n\
                    [factory.engines.mine]\nargv = [\"tools/agent\", \"./x\"]\n\
                    [factory.engines.other]\nkind = \"claude\"\nprogram = \"~/bin/claude\"\n[factory.engines.bare]\nargv = [\"agent\"]\n";

        let config = resolve(&Overrides::default(), &[], text).unwrap();

        let urls: Vec<&str> = config.factory.repos.value.values().map(|repo| repo.url.as_str()).collect();
        assert_eq!(urls, ["/etc/giga/app", "git@forge.example:far.git"]);
        let program = |name: &str| {
            let name: domain::EngineName = name.parse().unwrap();
            config.factory.engines.value[&name].program(&name).unwrap().to_owned()
        };
        assert_eq!(program("mine"), "/etc/giga/tools/agent");
        assert_eq!(
            config.factory.engines.value.values().nth(1).unwrap().argv[1],
            "./x",
            "an argument is the program's"
        );
        assert_eq!((program("other"), program("bare")), ("/home/ada/bin/claude".to_owned(), "agent".to_owned()));
    }

    #[test]
    fn clients_look_where_a_coordinator_of_the_same_file_listens() {
        let open = resolve(&Overrides::default(), &[], "[coordinator]\nlisten = \"127.0.0.1:9001\"\n").unwrap();
        let wide = "[coordinator]\nlisten = \"0.0.0.0:9001\"\ntls_cert = \"c.pem\"\ntls_key = \"k.pem\"\n";
        let wide = resolve(&Overrides::default(), &[], wide).unwrap();
        let none = resolve(&Overrides::default(), &[], "[coordinator]\nlisten = \"127.0.0.1:0\"\n").unwrap();

        let expected = ("http://127.0.0.1:9001", "/etc/giga/giga.toml:2 (coordinator.listen)");
        assert_eq!(listed(&open, "client.api"), expected);
        assert_eq!(wide.client.api.value, "https://127.0.0.1:9001");
        assert_eq!((open.client.stopped, none.client.stopped.is_some()), (None, true));
    }

    #[test]
    fn a_data_directory_that_is_named_stands_for_its_own_coordinator_alone() {
        let data = tempfile::tempdir().unwrap();
        let flags = Overrides { data: Some(data.path().to_owned()), ..Default::default() };
        let env = [("GIGA_API", "http://127.0.0.1:1")];

        let stopped = resolve(&flags, &env, "").unwrap();
        std::fs::write(data.path().join("endpoint"), format!("https://127.0.0.1:2\nsha256:{}\n", "ab".repeat(32)))
            .unwrap();
        let running = resolve(&flags, &env, "").unwrap();
        let with_api = Overrides { api: Some("http://127.0.0.1:3".to_owned()), ..flags };
        let elsewhere = resolve(&with_api, &[], "").unwrap();

        assert_eq!(stopped.client.stopped.as_deref(), Some(data.path()));
        assert_eq!(
            (running.client.api.value.as_str(), running.client.pinned),
            ("https://127.0.0.1:2", Some([0xab; 32]))
        );
        assert_eq!((elsewhere.client.stopped, elsewhere.client.pinned), (None, None));
    }

    // [I12] [attack: secrets in logs, events, artifacts]
    #[test]
    fn a_token_never_shows_more_than_its_kind() {
        let env = [("GIGA_TOKEN", "giga_adm_c2VjcmV0c2VjcmV0")];

        let config = resolve(&Overrides::default(), &env, "").unwrap();

        assert_eq!(listed(&config, "client.token"), ("giga_adm_…", "GIGA_TOKEN"));
        assert!(!format!("{config:?}").contains("c2VjcmV0"));
    }

    #[test]
    fn the_coordinators_own_token_is_for_this_machine_alone() {
        let near = resolve(&Overrides::default(), &[("GIGA_API", "http://[::1]:7878")], "").unwrap();
        let far = resolve(&Overrides::default(), &[("GIGA_API", "https://127.0.0.1.example.com")], "").unwrap();

        let expected = TokenSource::Beside("/home/ada/.local/share/gigafactory/admin.token".into());
        assert_eq!(near.client.token.value, expected);
        assert_eq!(far.client.token.value, TokenSource::Nowhere);
    }

    #[test]
    fn a_variable_that_means_nothing_is_noticed() {
        let config = resolve(&Overrides::default(), &[("GIGA_LISTN", "127.0.0.1:1"), ("GIGANTIC", "1")], "").unwrap();

        let expected = UnknownVariable { name: "GIGA_LISTN".to_owned(), meant: Some("GIGA_LISTEN") };
        assert_eq!(config.strangers, [expected]);
    }
}
