//! The part of an operator's `config.toml` that applies to a job.
//!
//! It is written for the operator's own machine and home, which a job does not have. Settings that name a program or a
//! file there would only fail, or run with the agent's rights; secrets other than the engine's own do not belong in a
//! job. The same names apply in a profile and in nested tables.

use sandbox::is_secret_name;
use toml::{Table, Value};
use tracing::warn;

use super::LOGIN;

/// Settings that name programs, directories of the operator, or services with credentials of their own.
const OF_THE_MACHINE: [&str; 12] = [
    "hooks",
    "js_repl_node_path",
    "log_dir",
    "marketplaces",
    "mcp_servers",
    "notify",
    "otel",
    "plugins",
    "projects",
    "skills",
    "sqlite_home",
    "zsh_path",
];

/// Keys that make their parent setting specific to the operator's machine.
const OF_A_PROGRAM: [&str; 2] = ["command", "config_file"];

/// Variables that name a run's own directories.
const OF_THE_RUN: [&str; 3] = ["HOME", "TMPDIR", LOGIN.folder_variable];

/// Settings whose names look like secrets and only name the variables that hold them.
const NAMES_OF_VARIABLES: [&str; 2] = ["env_key", "env_http_headers"];

/// Settings with user-chosen keys, which do not describe their content.
const NAMED_BY_PEOPLE: [&str; 2] = ["model_providers", "profiles"];

/// The part of a settings file that a job gets. Nothing of an unreadable one.
pub(super) fn fit(name: &str, file: Vec<u8>) -> Option<Vec<u8>> {
    if name != "config.toml" {
        return Some(file);
    }
    let Some(mut settings) = parsed(&file) else {
        warn!("Agents work without an operator's `{name}`: it is no TOML");
        return None;
    };
    keep_fit(&mut settings);
    // Never unchanged: a comment may hold a former secret.
    toml::to_string(&settings).ok().map(String::into_bytes)
}

/// Whether settings select another provider than the default.
pub(super) fn name_a_provider(file: &[u8]) -> bool {
    let settings = parsed(file).unwrap_or_default();
    let profiles = settings.get("profiles").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let all = profiles.filter_map(Value::as_table).chain([&settings]);
    all.into_iter().any(|settings| ["model_provider", "oss_provider"].iter().any(|name| settings.contains_key(*name)))
}

/// The provider of a run and the variable of its key, if the provider names one. By the operator's settings, overridden
/// by the engine's arguments.
pub(super) fn provider_key(file: &[u8], args: &[String]) -> Option<(String, String)> {
    let mut settings = parsed(file).unwrap_or_default();
    for written in values_of(args, "-c", "--config") {
        if let Some((path, value)) = written.split_once('=') {
            let parts: Vec<&str> = path.trim().split('.').collect();
            put(&mut settings, &parts, value_of(value));
        }
    }
    let text = |table: &Table, name: &str| Some(table.get(name)?.as_str()?.to_owned());
    let profile = values_of(args, "-p", "--profile").last().map(str::to_owned).or_else(|| text(&settings, "profile"));
    let of_profile = profile.and_then(|name| settings.get("profiles")?.get(&name)?.as_table());
    let provider = of_profile.and_then(|profile| text(profile, "model_provider"));
    let provider = provider.or_else(|| text(&settings, "model_provider"))?;
    let key = settings.get("model_providers")?.get(&provider)?.get("env_key")?.as_str()?.to_owned();
    Some((provider, key))
}

/// The values of an option, as `-c value`, `--config value` or `--config=value`.
fn values_of<'a>(args: &'a [String], short: &'a str, long: &'a str) -> impl Iterator<Item = &'a str> {
    let behind = args.iter().zip(args.iter().skip(1)).filter(move |(name, _)| *name == short || *name == long);
    let joined = args.iter().filter_map(move |arg| arg.strip_prefix(long)?.strip_prefix('='));
    behind.map(|(_, value)| value.as_str()).chain(joined)
}

/// A value as codex reads it: TOML, or else the text itself.
fn value_of(written: &str) -> Value {
    let table: Option<Table> = format!("value = {written}").parse().ok();
    table.and_then(|mut table| table.remove("value")).unwrap_or_else(|| Value::String(written.trim().to_owned()))
}

fn put(table: &mut Table, path: &[&str], value: Value) {
    match path {
        [] => {}
        [name] => {
            table.insert((*name).to_owned(), value);
        }
        [name, rest @ ..] => {
            let inner = table.entry((*name).to_owned()).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

fn parsed(file: &[u8]) -> Option<Table> {
    std::str::from_utf8(file).ok()?.parse().ok()
}

fn keep_fit(settings: &mut Table) {
    settings.retain(|name, value| is_fit(name, value));
    for (name, value) in settings.iter_mut().filter(|(name, _)| !NAMES_OF_VARIABLES.contains(&name.as_str())) {
        match value {
            Value::Table(named) if NAMED_BY_PEOPLE.contains(&name.as_str()) => {
                named.iter_mut().for_each(|(_, value)| keep_fit_within(value));
            }
            value => keep_fit_within(value),
        }
    }
}

fn keep_fit_within(value: &mut Value) {
    match value {
        Value::Table(table) => keep_fit(table),
        Value::Array(values) => values.iter_mut().for_each(keep_fit_within),
        _ => {}
    }
}

fn is_fit(name: &str, value: &Value) -> bool {
    if !matches!(value, Value::String(_) | Value::Array(_) | Value::Table(_)) {
        // Switches and numbers, such as the limit of a message's tokens.
        return true;
    }
    let is_of_the_machine = OF_THE_MACHINE.contains(&name) || OF_A_PROGRAM.iter().any(|part| value.get(part).is_some());
    let is_header = name.to_ascii_lowercase().ends_with("headers");
    let is_secret = (is_header || is_secret_name(name)) && !NAMES_OF_VARIABLES.contains(&name);
    !is_of_the_machine && !is_secret && !OF_THE_RUN.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_provider_is_found_in_settings_and_arguments() {
        let file = b"model_provider = 'gate'\n[model_providers.gate]\nenv_key = 'GATE_KEY'\n\
            [model_providers.other]\nbase_url = 'x'\n[profiles.cheap]\nmodel_provider = 'other'\n";
        let found = |args: &[&str]| provider_key(file, &args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        let key = |provider: &str, key: &str| Some((provider.to_owned(), key.to_owned()));

        assert_eq!(found(&[]), key("gate", "GATE_KEY"));
        assert_eq!(found(&["-c", "model_providers.gate.env_key=\"B\""]), key("gate", "B"));
        assert_eq!(
            found(&["--config=model_provider=mine", "-c", "model_providers.mine={ env_key = \"C\" }"]),
            key("mine", "C")
        );
        assert_eq!(found(&["-p", "cheap"]), None, "it names no key");
        assert_eq!(found(&["-c", "model_provider=\"openai\""]), None);
        assert_eq!(provider_key(b"", &[]), None);
    }

    const WRITTEN: &str = r#"
        # token = "canary"
        model = "gpt-5"
        model_provider = "authgate"
        model_reasoning_effort = "high"
        tool_output_token_limit = 4000
        cli_auth_credentials_store = "keyring"
        notify = ["/home/ada/bin/chime", "canary"]
        log_dir = "/home/ada/logs"

        [model_providers.authgate]
        name = "Gateway"
        base_url = "https://gateway.acme.example/v1"
        env_key = "GATEWAY_KEY"
        wire_api = "responses"
        requires_openai_auth = false
        experimental_bearer_token = "canary"
        query_params = { api-version = "2026-11-01", api-key = "canary" }
        http_headers = { X-Team = "canary" }
        env_http_headers = { Authorization = "GATEWAY_HEADER" }
        auth = { command = "/home/ada/bin/token" }

        [mcp_servers.github]
        command = "github-mcp"
        env = { GITHUB_PERSONAL_ACCESS_TOKEN = "canary" }

        [shell_environment_policy]
        inherit = "core"
        set = { CI = "1", GITHUB_TOKEN = "canary", CODEX_HOME = "/home/ada/.codex" }

        [otel.exporter.otlp-http]
        endpoint = "https://traces.acme.example"
        headers = { x-token = "canary" }

        [projects."/home/ada/mine"]
        trust_level = "trusted"

        [profiles.deep]
        model_reasoning_effort = "xhigh"
        [profiles.deep.mcp_servers.tracker]
        url = "https://tracker.acme.example"
        bearer_token = "canary"

        [agents.reviewer]
        config_file = "/home/ada/reviewer.toml"
    "#;

    const FIT: &str = r#"
        model = "gpt-5"
        model_provider = "authgate"
        model_reasoning_effort = "high"
        tool_output_token_limit = 4000
        agents = {}

        [model_providers.authgate]
        name = "Gateway"
        base_url = "https://gateway.acme.example/v1"
        env_key = "GATEWAY_KEY"
        wire_api = "responses"
        requires_openai_auth = false
        query_params = { api-version = "2026-11-01" }
        env_http_headers = { Authorization = "GATEWAY_HEADER" }

        [shell_environment_policy]
        inherit = "core"
        set = { CI = "1" }

        [profiles.deep]
        model_reasoning_effort = "xhigh"
    "#;

    // [T8]
    #[test]
    fn secrets_of_other_services_and_programs_of_the_operators_machine_stay_there() {
        let fit = String::from_utf8(fit("config.toml", WRITTEN.as_bytes().to_vec()).unwrap()).unwrap();

        assert_eq!(fit.parse::<Table>().unwrap(), FIT.parse::<Table>().unwrap());
        assert!(!fit.contains("canary"), "{fit}");
    }

    #[test]
    fn broken_settings_are_left_out_and_instructions_are_taken_as_they_are() {
        assert_eq!(fit("config.toml", b"model = ".to_vec()), None);
        assert_eq!(fit("AGENTS.md", b"model = ".to_vec()), Some(b"model = ".to_vec()));
    }

    #[test]
    fn a_provider_is_named_by_the_settings_or_by_a_profile_of_them() {
        let settings = ["model = 'gpt-5'", "model_provider = 'x'", "[profiles.deep]\nmodel_provider = 'x'", "model ="];

        assert_eq!(settings.map(|text| name_a_provider(text.as_bytes())), [false, true, true, false]);
    }
}
