//! The part of an operator's `settings.json` that applies to a job.
//!
//! It is written for the operator's own machine and home, which a job does not have. Settings that name a program there
//! would only fail, or run with the agent's rights; secrets other than the engine's own do not belong in a job.

use sandbox::is_secret_name;
use serde_json::{Map, Value};
use tracing::warn;

use super::LOGIN;

/// Settings that name programs, or things that are installed in the operator's directory.
const OF_THE_MACHINE: [&str; 13] = [
    "apiKeyHelper",
    "awsAuthRefresh",
    "awsCredentialExport",
    "enabledPlugins",
    "extraKnownMarketplaces",
    "fileSuggestion",
    "gcpAuthRefresh",
    "hooks",
    "otelHeadersHelper",
    "pluginConfigs",
    "proxyAuthHelper",
    "statusLine",
    "subagentStatusLine",
];

/// Variables that name a run's own directories.
const OF_THE_RUN: [&str; 3] = ["HOME", "TMPDIR", LOGIN.folder_variable];

/// The headers of the engine's own service. Those of other services hold their credentials.
const OWN_HEADERS: &str = "ANTHROPIC_CUSTOM_HEADERS";

/// The part of a settings file that a job gets. Nothing of an unreadable one.
pub(super) fn fit(name: &str, file: Vec<u8>) -> Option<Vec<u8>> {
    if name != "settings.json" {
        return Some(file);
    }
    let settings = serde_json::from_slice::<Map<String, Value>>(&file);
    let mut settings =
        settings.inspect_err(|_| warn!("Agents work without an operator's `{name}`: it is no JSON")).ok()?;
    let count = settings.len();
    settings.retain(|name, value| !OF_THE_MACHINE.contains(&name.as_str()) && value.get("command").is_none());
    let variables = settings.get_mut("env").and_then(Value::as_object_mut);
    let withheld = variables.map_or(0, |variables| {
        let count = variables.len();
        variables.retain(|name, value| is_for_jobs(name, value));
        count - variables.len()
    });
    // Unchanged, if nothing is removed.
    if settings.len() == count && withheld == 0 { Some(file) } else { serde_json::to_vec(&settings).ok() }
}

/// Whether settings get the engine's key from a program, which no job can run.
pub(super) fn name_a_helper(file: &[u8]) -> bool {
    serde_json::from_slice::<Value>(file)
        .is_ok_and(|settings| settings.get("apiKeyHelper").is_some_and(Value::is_string))
}

/// Whether settings hold a variable that is not empty.
pub(super) fn set(file: &[u8], variable: &str) -> bool {
    let settings: Value = serde_json::from_slice(file).unwrap_or_default();
    settings["env"][variable].as_str().is_some_and(|value| !value.is_empty())
}

fn is_for_jobs(name: &str, value: &Value) -> bool {
    let is_number = value.as_str().is_none_or(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    let is_own = LOGIN.keys.contains(&name);
    let is_secret = is_secret_name(name) || (name.ends_with("HEADERS") && name != OWN_HEADERS);
    !OF_THE_RUN.contains(&name) && (is_own || is_number || !is_secret)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // [T8]
    #[test]
    fn what_names_programs_of_the_operators_machine_stays_there() {
        let settings = json!({
            "model": "opus",
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "~/bin/chime"}]}]},
            "statusLine": {"type": "command", "command": "~/bin/line"},
            "somethingNew": {"type": "command", "command": "~/bin/new"},
            "apiKeyHelper": "~/bin/key",
            "enabledPlugins": {"lint@acme": true},
            "permissions": {"deny": ["Read(./.env)"]},
            "env": {
                "ANTHROPIC_API_KEY": "sk-own",
                "ANTHROPIC_BASE_URL": "https://gateway.acme.example",
                "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000",
                "ANTHROPIC_CUSTOM_HEADERS": "x-team: acme",
                "GITHUB_TOKEN": "canary",
                "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer canary",
                "CLAUDE_CONFIG_DIR": "/home/ada/.claude",
            },
        });

        let fit = fit("settings.json", settings.to_string().into_bytes()).unwrap();

        let expected = json!({
            "model": "opus",
            "permissions": {"deny": ["Read(./.env)"]},
            "env": {
                "ANTHROPIC_API_KEY": "sk-own",
                "ANTHROPIC_BASE_URL": "https://gateway.acme.example",
                "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000",
                "ANTHROPIC_CUSTOM_HEADERS": "x-team: acme",
            },
        });
        assert_eq!(serde_json::from_slice::<Value>(&fit).unwrap(), expected);
    }

    #[test]
    fn settings_that_fit_are_left_as_they_are_written_and_broken_ones_are_left_out() {
        let written = b"{ \"model\":  \"opus\" }".to_vec();
        assert_eq!(fit("settings.json", written.clone()), Some(written));
        assert_eq!(fit("settings.json", b"{ // mine".to_vec()), None);
        assert_eq!(fit("CLAUDE.md", b"{ // mine".to_vec()), Some(b"{ // mine".to_vec()));
    }
}
