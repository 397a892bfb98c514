//! `[coordinator]`: how a coordinator behaves.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use coordinator::{QuotaWindowPolicy, Settings};
use domain::RetryPolicy;

use crate::failure::Failure;

use super::broker::BrokerChoice;
use super::duration::HumanDuration;
use super::file;
use super::overrides::Overrides;
use super::resolver::{Resolver, SettingSource};
use super::setting::Setting;
use super::store::StoreChoice;

/// The default listen address of a coordinator.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7878);

/// What a checkout and a build need at the very least.
const DISK_FREE_MIN_MIB: u32 = 1024;

/// How a coordinator behaves.
#[derive(Debug)]
pub(crate) struct CoordinatorConfig {
    /// Where it keeps what it must not forget.
    pub(crate) store: Setting<StoreChoice>,
    /// What delivers offers to connected factories.
    pub(crate) broker: Setting<BrokerChoice>,
    /// A file with its credentials for the broker.
    pub(crate) broker_credentials_file: Setting<Option<PathBuf>>,
    /// A file with the seed of the account that factories belong to.
    pub(crate) broker_signing_key_file: Setting<Option<PathBuf>>,
    /// The account's public key, if the seed is that of one of its signing keys.
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "only a build with NATS signs logins"))]
    pub(crate) broker_account: Setting<Option<String>>,
    /// Where it listens.
    pub(crate) listen: Setting<SocketAddr>,
    /// Its certificate chain, in PEM.
    pub(crate) tls_cert: Setting<Option<PathBuf>>,
    /// The certificate's key, in PEM.
    pub(crate) tls_key: Setting<Option<PathBuf>>,
    /// Whether a proxy in front of it terminates TLS.
    pub(crate) behind_proxy: Setting<bool>,
    /// Names that clients may call it by.
    pub(crate) hosts: Setting<Vec<String>>,
    /// Where the other coordinators on its database reach it.
    pub(crate) advertise: Setting<Option<String>>,
    /// How long a lease lasts without renewal.
    pub(crate) lease_ttl: Setting<HumanDuration>,
    /// How often a factory renews.
    pub(crate) renew_every: Setting<HumanDuration>,
    /// How long a factory may be silent.
    pub(crate) stale_after: Setting<HumanDuration>,
    /// How long a factory has to accept an offer.
    pub(crate) accept_within: Setting<HumanDuration>,
    /// How long a factory has for a promotion or a merge.
    pub(crate) errand_within: Setting<HumanDuration>,
    /// How often an open pull request is polled.
    pub(crate) look_every: Setting<HumanDuration>,
    /// How often a pull request may send its job back.
    pub(crate) feedback_rounds_max: Setting<u32>,
    /// Rework rounds that merge conflicts may start.
    pub(crate) conflict_rounds_max: Setting<u32>,
    /// A file with what GitHub signs its messages with.
    pub(crate) github_webhook_secret_file: Setting<Option<PathBuf>>,
    /// The directory of the profiles that every product can use.
    pub(crate) profiles: Setting<Option<PathBuf>>,
    /// How long a job waits before that is worth an alert.
    pub(crate) starving_after: Setting<HumanDuration>,
    /// How long a review or a question waits before its first reminder.
    pub(crate) remind_after: Setting<HumanDuration>,
    /// How long a question waits before its job fails.
    pub(crate) question_expires_after: Setting<Option<HumanDuration>>,
    /// How often memory is compared with the store while there is open work.
    pub(crate) sweep_every: Setting<HumanDuration>,
    /// How long a rotated token keeps working.
    pub(crate) token_overlap: Setting<HumanDuration>,
    /// Free space below which a factory gets no new work, in MiB.
    pub(crate) disk_free_min_mib: Setting<u32>,
    /// Whether critical jobs may preempt others, until the flag is set at run time.
    pub(crate) preemption: Setting<bool>,
    /// How long a preempted run has to save its work.
    pub(crate) preemption_grace: Setting<HumanDuration>,
    /// Whether an engine's credential gets work again automatically when its usage window resets.
    pub(crate) quota_resume: Setting<bool>,
    /// Whether the ceilings of budgets are enforced, until `PUT /flags` says otherwise.
    pub(crate) budgets: Setting<bool>,
    /// Whether polled products are compared with push mode.
    pub(crate) shadow: Setting<bool>,
    /// What follows failures.
    pub(crate) retry: RetryConfig,
}

/// `[coordinator.retry]`: the retry policy of manifests that set none.
#[derive(Debug)]
pub(crate) struct RetryConfig {
    /// Attempts in all.
    pub(crate) attempts_max: Setting<u32>,
    /// The first pause.
    pub(crate) backoff: Setting<HumanDuration>,
    /// The longest pause.
    pub(crate) backoff_max: Setting<HumanDuration>,
    /// Leases that a job may lose.
    pub(crate) lost_leases_max: Setting<u32>,
    /// Offers that may expire.
    pub(crate) unaccepted_max: Setting<u32>,
}

impl CoordinatorConfig {
    pub(super) fn resolve(
        resolver: &mut Resolver,
        flags: &Overrides,
        file: file::Coordinator,
    ) -> Result<Self, Failure> {
        let default = Settings::default();
        let cert = SettingSource::new("coordinator.tls_cert")
            .flag("--tls-cert", flags.tls_cert.clone())
            .env(&["GIGA_TLS_CERT"])
            .file(resolver.placed(file.tls_cert));
        let key = SettingSource::new("coordinator.tls_key")
            .flag("--tls-key", flags.tls_key.clone())
            .env(&["GIGA_TLS_KEY"])
            .file(resolver.placed(file.tls_key));
        let store = flags.store.as_deref().map(str::parse).transpose();
        let store = store.map_err(|why| Failure::usage(format!("--store: {why}")))?;
        let store =
            SettingSource::new("coordinator.store").flag("--store", store).env(&["GIGA_STORE"]).file(file.store);
        let broker = flags.broker.as_deref().map(str::parse).transpose();
        let broker = broker.map_err(|why| Failure::usage(format!("--broker: {why}")))?;
        let broker =
            SettingSource::new("coordinator.broker").flag("--broker", broker).env(&["GIGA_BROKER"]).file(file.broker);
        let broker_credentials = SettingSource::new("coordinator.broker_credentials_file")
            .env(&["GIGA_BROKER_CREDENTIALS_FILE"])
            .file(resolver.placed(file.broker_credentials_file));
        let broker_signing_key = SettingSource::new("coordinator.broker_signing_key_file")
            .env(&["GIGA_BROKER_SIGNING_KEY_FILE"])
            .file(resolver.placed(file.broker_signing_key_file));
        let broker_account =
            SettingSource::new("coordinator.broker_account").env(&["GIGA_BROKER_ACCOUNT"]).file(file.broker_account);
        let listen = listen(flags, file.listen);
        let proxy = SettingSource::new("coordinator.behind_proxy")
            .flag("--behind-proxy", flags.behind_proxy)
            .env(&["GIGA_BEHIND_PROXY"])
            .file(file.behind_proxy);
        let hosts = SettingSource::new("coordinator.hosts")
            .flag("--host", flags.hosts.clone())
            .env(&["GIGA_HOSTS"])
            .file(file.hosts);
        let advertise = SettingSource::new("coordinator.advertise")
            .flag("--advertise", flags.advertise.clone())
            .env(&["GIGA_ADVERTISE"])
            .file(file.advertise);
        let lease_ttl = SettingSource::new("coordinator.lease_ttl").env(&["GIGA_LEASE_TTL"]).file(file.lease_ttl);
        let renew_every = SettingSource::new("coordinator.renew_every")
            .env(&["GIGA_RENEW_EVERY", "AQ_FLEET_LEASE_RENEW_SEC"])
            .file(file.renew_every);
        let stale_after =
            SettingSource::new("coordinator.stale_after").env(&["GIGA_STALE_AFTER"]).file(file.stale_after);
        let accept_within =
            SettingSource::new("coordinator.accept_within").env(&["GIGA_ACCEPT_WITHIN"]).file(file.accept_within);
        let errand_within =
            SettingSource::new("coordinator.errand_within").env(&["GIGA_ERRAND_WITHIN"]).file(file.errand_within);
        let look_every = SettingSource::new("coordinator.look_every").env(&["GIGA_LOOK_EVERY"]).file(file.look_every);
        let rounds = SettingSource::new("coordinator.feedback_rounds_max")
            .env(&["GIGA_FEEDBACK_ROUNDS_MAX"])
            .file(file.feedback_rounds_max);
        let conflicts = SettingSource::new("coordinator.conflict_rounds_max")
            .env(&["GIGA_CONFLICT_ROUNDS_MAX"])
            .file(file.conflict_rounds_max);
        let webhook = SettingSource::new("coordinator.github_webhook_secret_file")
            .env(&["GIGA_GITHUB_WEBHOOK_SECRET_FILE"])
            .file(resolver.placed(file.github_webhook_secret_file));
        let profiles =
            SettingSource::new("coordinator.profiles").env(&["GIGA_PROFILES"]).file(resolver.placed(file.profiles));
        let starving =
            SettingSource::new("coordinator.starving_after").env(&["GIGA_STARVING_AFTER"]).file(file.starving_after);
        let remind = SettingSource::new("coordinator.remind_after").env(&["GIGA_REMIND_AFTER"]).file(file.remind_after);
        let question_expires = SettingSource::new("coordinator.question_expires_after")
            .env(&["GIGA_QUESTION_EXPIRES_AFTER"])
            .file(file.question_expires_after);
        let sweep = SettingSource::new("coordinator.sweep_every").env(&["GIGA_SWEEP_EVERY"]).file(file.sweep_every);
        let overlap =
            SettingSource::new("coordinator.token_overlap").env(&["GIGA_TOKEN_OVERLAP"]).file(file.token_overlap);
        let disk_free = SettingSource::new("coordinator.disk_free_min_mib")
            .env(&["GIGA_DISK_FREE_MIN_MIB"])
            .file(file.disk_free_min_mib);
        let resume = SettingSource::new("coordinator.quota_resume").env(&["GIGA_QUOTA_RESUME"]).file(file.quota_resume);
        let budgets =
            SettingSource::new("coordinator.budgets").env(&["GIGA_BUDGETS", "FLEET_BUDGETS"]).file(file.budgets);
        let shadow =
            SettingSource::new("coordinator.shadow").env(&["GIGA_SHADOW", "AQ_FLEET_SHADOW"]).file(file.shadow);
        let preemption = SettingSource::new("coordinator.preemption")
            .env(&["GIGA_PREEMPTION", "FLEET_PREEMPTION"])
            .file(file.preemption);
        let grace = SettingSource::new("coordinator.preemption_grace")
            .env(&["GIGA_PREEMPTION_GRACE"])
            .file(file.preemption_grace);
        Ok(Self {
            store: resolver.setting(store, StoreChoice::default)?,
            broker: resolver.setting(broker, BrokerChoice::default)?,
            broker_credentials_file: resolver.optional(broker_credentials)?,
            broker_signing_key_file: resolver.optional(broker_signing_key)?,
            broker_account: resolver.optional(broker_account)?,
            listen: resolver.setting(listen, || LISTEN)?,
            tls_cert: resolver.optional(cert)?,
            tls_key: resolver.optional(key)?,
            behind_proxy: resolver.setting(proxy, || false)?,
            hosts: resolver.setting(hosts, Vec::new)?,
            advertise: resolver.optional(advertise)?,
            lease_ttl: resolver.setting(lease_ttl, || HumanDuration(default.lease_ttl))?,
            renew_every: resolver.setting(renew_every, || HumanDuration(default.renew_every))?,
            stale_after: resolver.setting(stale_after, || HumanDuration(default.stale_after))?,
            accept_within: resolver.setting(accept_within, || HumanDuration(default.accept_within))?,
            errand_within: resolver.setting(errand_within, || HumanDuration(default.errand_within))?,
            look_every: resolver.setting(look_every, || HumanDuration(default.look_every))?,
            feedback_rounds_max: resolver.setting(rounds, || default.feedback_rounds_max)?,
            conflict_rounds_max: resolver.setting(conflicts, || default.conflict_rounds_max)?,
            github_webhook_secret_file: resolver.optional(webhook)?,
            profiles: resolver.optional(profiles)?,
            starving_after: resolver.setting(starving, || HumanDuration(default.starving_after))?,
            remind_after: resolver.setting(remind, || HumanDuration(default.remind_after))?,
            question_expires_after: resolver.optional(question_expires)?,
            sweep_every: resolver.setting(sweep, || HumanDuration(default.sweep_every))?,
            token_overlap: resolver.setting(overlap, || HumanDuration(default.token_overlap))?,
            disk_free_min_mib: resolver.setting(disk_free, || DISK_FREE_MIN_MIB)?,
            preemption: resolver.setting(preemption, || default.preemption)?,
            preemption_grace: resolver.setting(grace, || HumanDuration(default.preemption_grace))?,
            quota_resume: resolver.setting(resume, || default.windows.auto_resume)?,
            budgets: resolver.setting(budgets, || default.budgets)?,
            shadow: resolver.setting(shadow, || default.shadow)?,
            retry: RetryConfig::resolve(resolver, file.retry, &default.retry)?,
        })
    }

    /// The options of a coordinator.
    pub(crate) fn settings(&self) -> Settings {
        let retry = RetryPolicy {
            attempts_max: self.retry.attempts_max.value,
            backoff: self.retry.backoff.value.0,
            backoff_max: self.retry.backoff_max.value.0,
            lost_leases_max: self.retry.lost_leases_max.value,
            unaccepted_max: self.retry.unaccepted_max.value,
        };
        Settings {
            lease_ttl: self.lease_ttl.value.0,
            renew_every: self.renew_every.value.0,
            stale_after: self.stale_after.value.0,
            accept_within: self.accept_within.value.0,
            errand_within: self.errand_within.value.0,
            look_every: self.look_every.value.0,
            feedback_rounds_max: self.feedback_rounds_max.value,
            conflict_rounds_max: self.conflict_rounds_max.value,
            starving_after: self.starving_after.value.0,
            remind_after: self.remind_after.value.0,
            question_expires_after: self.question_expires_after.value.map(|after| after.0),
            sweep_every: self.sweep_every.value.0,
            token_overlap: self.token_overlap.value.0,
            preemption: self.preemption.value,
            preemption_grace: self.preemption_grace.value.0,
            disk_free_min_bytes: u64::from(self.disk_free_min_mib.value) * 1024 * 1024,
            budgets: self.budgets.value,
            shadow: self.shadow.value,
            retry,
            windows: QuotaWindowPolicy { auto_resume: self.quota_resume.value, ..QuotaWindowPolicy::default() },
            ..Settings::default()
        }
    }
}

/// Where a coordinator listens.
pub(super) fn listen(flags: &Overrides, file: Option<toml::Spanned<SocketAddr>>) -> SettingSource<SocketAddr> {
    SettingSource::new("coordinator.listen").flag("--listen", flags.listen).env(&["GIGA_LISTEN"]).file(file)
}

impl RetryConfig {
    fn resolve(resolver: &mut Resolver, file: file::Retry, default: &RetryPolicy) -> Result<Self, Failure> {
        let attempts = SettingSource::new("coordinator.retry.attempts_max").file(file.attempts_max);
        let backoff = SettingSource::new("coordinator.retry.backoff").file(file.backoff);
        let backoff_max = SettingSource::new("coordinator.retry.backoff_max").file(file.backoff_max);
        let lost = SettingSource::new("coordinator.retry.lost_leases_max").file(file.lost_leases_max);
        let unaccepted = SettingSource::new("coordinator.retry.unaccepted_max").file(file.unaccepted_max);
        Ok(Self {
            attempts_max: resolver.setting(attempts, || default.attempts_max)?,
            backoff: resolver.setting(backoff, || HumanDuration(default.backoff))?,
            backoff_max: resolver.setting(backoff_max, || HumanDuration(default.backoff_max))?,
            lost_leases_max: resolver.setting(lost, || default.lost_leases_max)?,
            unaccepted_max: resolver.setting(unaccepted, || default.unaccepted_max)?,
        })
    }
}
