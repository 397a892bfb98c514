//! docs/reference/settings.md, generated from the settings that the code resolves.

use testkit::page;

use super::{Config, Environment, File, Overrides};

const HEAD: &str = "\
# Settings

A setting comes from the first of: its flag, its environment variable, `giga.toml`, the default. `giga doctor` shows every setting in force with its source. Of several variables the first that is set counts.

Durations are written as `90s`, `2m` or `1h30m`, sizes as `10MiB` or `10GiB`. Paths in the file are relative to its directory. An unknown key or `GIGA_*` variable is reported with the closest known name.

The file is `giga.toml` in the working directory, or in the platform's configuration directory; `--config FILE` and `GIGA_CONFIG` name another one.

";

/// What each setting means.
const MEANINGS: &[(&str, &str)] = &[
    ("data", "Data directory of the coordinator and its clients on this machine."),
    (
        "client.api",
        "Address of the coordinator; of several, all of them, separated by commas. When absent: that of the coordinator on this machine.",
    ),
    ("client.token", "Token to authenticate with. When absent, on the coordinator's machine: `<data>/admin.token`."),
    ("client.token_file", "File that holds the token."),
    ("client.product", "Product to use."),
    (
        "client.ca",
        "Certificate of the authority in PEM, or `sha256:` and the fingerprint of the coordinator's certificate.",
    ),
    (
        "client.dash",
        "`true`: `giga dash` shows the coordinator; `false`: the folder queue of the working directory. \
         When absent: the folder queue if the working directory is one.",
    ),
    ("coordinator.store", "`sqlite`, or the URL of a PostgreSQL database. See [PostgreSQL](../how-to/postgresql.md)."),
    (
        "coordinator.broker",
        "`embedded`, or the address of a NATS server that factories may receive from. See [NATS](../how-to/nats.md).",
    ),
    ("coordinator.broker_credentials_file", "Credentials file (`.creds`) of the coordinator at the broker."),
    (
        "coordinator.broker_signing_key_file",
        "File with the seed of the broker's account, or of a signing key of it. It signs the logins of factories.",
    ),
    ("coordinator.broker_account", "Public key of that account, if the seed is of a signing key."),
    ("coordinator.listen", "Address to listen on: a numeric IP address and a port."),
    ("coordinator.tls_cert", "Certificate chain, in PEM."),
    ("coordinator.tls_key", "Key of the certificate, in PEM."),
    ("coordinator.behind_proxy", "A proxy in front of the coordinator terminates TLS."),
    ("coordinator.hosts", "Names by which clients may call the coordinator."),
    (
        "coordinator.advertise",
        "Address at which the other coordinators on the same PostgreSQL database reach this one; makes it one of several. See [several coordinators](../how-to/several-coordinators.md).",
    ),
    ("coordinator.lease_ttl", "How long a lease lasts without renewal."),
    ("coordinator.renew_every", "How often a factory renews its leases."),
    ("coordinator.stale_after", "Time without a heartbeat after which a factory is stale."),
    ("coordinator.accept_within", "How long a factory has to accept an offer."),
    ("coordinator.errand_within", "How long a factory has for a promotion or a merge."),
    ("coordinator.look_every", "How often an open pull request is polled."),
    ("coordinator.feedback_rounds_max", "Rounds in which feedback on a pull request may requeue its job."),
    ("coordinator.conflict_rounds_max", "Rework rounds that merge conflicts may start; 0 for none."),
    ("coordinator.github_webhook_secret_file", "File with the secret of GitHub's webhook."),
    (
        "coordinator.profiles",
        "Directory of the profiles that every product can use. When absent: `profiles` beside `giga.toml`. \
         See [profiles](../how-to/profiles.md).",
    ),
    ("coordinator.starving_after", "How long a job waits before the alert `queue_starvation`."),
    (
        "coordinator.remind_after",
        "How long a review or a question waits before its first reminder; the pauses between further ones double.",
    ),
    (
        "coordinator.question_expires_after",
        "How long a question waits before its job fails; until it is answered when absent.",
    ),
    ("coordinator.sweep_every", "How often memory is compared with the store while there is open work."),
    ("coordinator.token_overlap", "How long a rotated token keeps working."),
    ("coordinator.disk_free_min_mib", "Free space below which a factory gets no new work, in MiB."),
    (
        "coordinator.preemption",
        "Whether a critical job without a seat may preempt a preemptible one, until `giga mode --preemption` sets it.",
    ),
    ("coordinator.preemption_grace", "How long a preempted run has to save its work and to release its seat."),
    ("coordinator.quota_resume", "Whether a credential gets work again automatically when its usage window resets."),
    (
        "coordinator.budgets",
        "Whether the ceilings of budgets are enforced. `giga budget enforce` changes it at run time.",
    ),
    (
        "coordinator.shadow",
        "Whether products that factories poll for are compared with push mode. A fleet whose modes were never set starts in `shadow`.",
    ),
    ("coordinator.retry.attempts_max", "Attempts of a job in all. A manifest can set its own retry policy."),
    ("coordinator.retry.backoff", "First pause before a retry; it doubles."),
    ("coordinator.retry.backoff_max", "Longest pause before a retry."),
    ("coordinator.retry.lost_leases_max", "Leases that a job may lose before it is dead-lettered."),
    ("coordinator.retry.unaccepted_max", "Offers that may expire before a job is dead-lettered as undeliverable."),
    ("factory.name", "Name of the factory. It cannot change after enrolment."),
    ("factory.seats", "Jobs at one time."),
    ("factory.engine_seats", "Jobs at one time by engine, where fewer."),
    ("factory.repo_seats", "Jobs at one time by repository on this factory, where fewer."),
    ("factory.cost", "Cost of a seat relative to other factories; cheaper ones are preferred."),
    ("factory.state", "State directory: mirrors, worktrees, records."),
    ("factory.repo_base", "Directory whose repositories are offered."),
    ("factory.default_base", "Base branch of repositories found there."),
    ("factory.ref_prefix", "Prefix of the factory's refs."),
    ("factory.delete_branch", "Whether a merged branch is deleted."),
    ("factory.capabilities", "Capabilities in addition to the detected ones."),
    ("factory.tools", "Tools to probe for, each with its command line. See [capabilities](../how-to/capabilities.md)."),
    ("factory.checkpoint_every", "How often work in progress is saved."),
    ("factory.fleet", "`false` selects the folder queue of older scripts; `giga local DIR` runs it."),
    (
        "factory.receive",
        "`broker`: offers come from the coordinator's broker if it can be reached, else through the coordinator (the \
         default of builds with NATS); `inbox`: through the coordinator only.",
    ),
    ("factory.route", "`false`: poll for work whatever the dispatch mode is."),
    ("factory.gate", "Poll the queue version before claiming."),
    ("factory.poll_every", "Interval of claims or polls, from 1 s to 1 h."),
    ("factory.gc_every", "How often the factory cleans up; `0s` for never."),
    ("factory.gc_retention", "How long failed and interrupted runs are kept."),
    ("factory.disk_floor_mib", "Free space below which the factory cleans up and takes no new job, in MiB."),
    ("factory.run_as", "Account that engines, setup and verify commands run as."),
    ("factory.confine", "`auto`, `required` or `off`. See [sandbox](../how-to/sandbox.md)."),
    ("factory.hide", "Paths that agents cannot access."),
    ("factory.read", "Paths that agents can read, in addition."),
    ("factory.write", "Paths that agents can write, in addition."),
    ("factory.engines", "Engines in addition to the detected ones. See [engines](../how-to/engines.md)."),
    ("factory.prices", "Prices of models, in US dollars for a million tokens."),
    ("factory.repos", "Repositories. See [repositories](../how-to/repositories.md)."),
    ("factory.environment", "Variables of setup and verify commands: `pass`, `set`, and their `home`."),
    ("factory.git", "How git reaches remotes. See [repositories](../how-to/repositories.md#credentials-of-git)."),
    ("factory.forge", "Where pull requests are opened. See [pull requests](../how-to/pull-requests.md)."),
    ("factory.author", "Author of commits."),
    ("factory.limits.wall", "An engine from start to end."),
    ("factory.limits.idle", "An engine without output."),
    ("factory.limits.tool_idle", "An engine without output while a tool call is in progress."),
    ("factory.limits.grace", "Time between SIGTERM and SIGKILL."),
    ("factory.limits.verify", "All setup or all verify commands of a run together."),
    ("factory.limits.disk", "Growth of a worktree."),
    ("factory.limits.disk_free", "Space that must stay free on the disk."),
    ("factory.limits.disk_every", "How often the disk is checked."),
    ("factory.limits.output", "Output of a program that is kept."),
    ("factory.limits.git_local", "A git command on this machine."),
    ("factory.limits.git_network", "A git command that uses a remote."),
    ("factory.limits.remote_away", "How long a run waits for an unreachable remote."),
    ("tracker.github", "GitHub Issues as a tracker. See [trackers](../how-to/tracker.md)."),
    ("tracker.sources", "Trackers that send signed webhooks. See [trackers](../how-to/tracker.md#other-trackers)."),
    ("webhooks", "Who is told about jobs and alerts. See [webhooks](../how-to/webhooks.md)."),
    (
        "artifacts.store",
        "Where artifacts are kept: a directory, `s3://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `gs://BUCKET/PREFIX`. The data directory when absent. See [artifacts](../how-to/artifacts.md).",
    ),
    ("artifacts.endpoint", "Endpoint of an object store, if it is not the provider's own."),
    (
        "artifacts.logs",
        "Whether the logs and the evidence of runs are kept there too, so that every coordinator has them.",
    ),
    ("artifacts.retention", "How long the artifacts of a finished job are kept."),
    ("artifacts.file_max", "Largest artifact."),
    ("artifacts.job_max", "All artifacts of a job together."),
    (
        "artifacts.signed_urls",
        "How long signed URLs of an object store work, to which downloads are redirected. The coordinator passes the bytes on when absent.",
    ),
    ("log.format", "`pretty` or `json`."),
    ("log.level", "A level, or levels by module: `info,coordinator=debug`."),
];

#[test]
fn the_page_of_settings_is_current() {
    let environment = Environment::of([("HOME", "/home/ada"), ("XDG_DATA_HOME", "/home/ada/.local/share")]);
    let config = Config::resolve(&Overrides::default(), environment, File::default()).unwrap();
    let default_of = |key: &str| {
        let listed = config.listing.iter().find(|listed| listed.key == key)?;
        let shown = match key {
            // What depends on the machine is described by the meaning.
            "factory.name" => "the machine's name",
            "client.token" => "-",
            _ => listed.value.as_str(),
        };
        Some(shown.replace("/home/ada", "~")).filter(|shown| shown != "-")
    };
    let quoted = |names: Vec<&str>| match names.is_empty() {
        true => "–".to_owned(),
        false => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    };

    let rows = MEANINGS.iter().map(|(key, meaning)| {
        let sources = || config.sources.iter().filter(|source| source.key == *key);
        let variables = sources().flat_map(|source| source.variables.iter().copied()).collect();
        let flags = sources().find_map(|source| source.flag).into_iter().collect();
        let default = default_of(key).map_or_else(|| "–".to_owned(), |shown| format!("`{shown}`"));
        [format!("`{key}`"), quoted(variables), quoted(flags), default, (*meaning).to_owned()]
    });
    let table = page::table(["key", "variable", "flag", "default", "meaning"], rows);

    page::matches("reference/settings.md", &format!("{HEAD}{table}"));
}

#[test]
fn every_setting_has_a_meaning() {
    let config =
        Config::resolve(&Overrides::default(), Environment::of([("HOME", "/home/ada")]), File::default()).unwrap();
    let known = config.listing.iter().map(|listed| listed.key).chain(config.sources.iter().map(|source| source.key));
    let known: Vec<_> = known.collect();

    let unexplained: Vec<_> = known.iter().filter(|key| !MEANINGS.iter().any(|(name, _)| name == *key)).collect();
    let obsolete: Vec<_> = MEANINGS.iter().filter(|(name, _)| !known.contains(name)).collect();

    assert!(unexplained.is_empty() && obsolete.is_empty(), "unexplained: {unexplained:?}, obsolete: {obsolete:?}");
}
