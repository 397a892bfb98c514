//! The operator's own git settings for reaching remotes: credential helpers, proxies, URL aliases, ssh.
//!
//! Only fetches and pushes get them. Settings that act on a repository's content (filters, hooks, aliases) are
//! excluded.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Sections of a configuration for reaching a remote.
const SECTIONS: [&str; 3] = ["credential.", "http.", "url."];
const SSH_COMMAND: &str = "core.sshcommand";

/// Variables that credential helpers, ssh and git's transports read.
const VARIABLES: [&str; 27] = [
    "ALL_PROXY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "GH_CONFIG_DIR",
    "GH_HOST",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GNUPGHOME",
    "HTTPS_PROXY",
    "LOGNAME",
    "NO_PROXY",
    "PASSWORD_STORE_DIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "USER",
    "WAYLAND_DISPLAY",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "all_proxy",
    "https_proxy",
    "no_proxy",
];

/// The operator's access to remotes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OperatorAccess {
    home: Option<PathBuf>,
    variables: Vec<(&'static str, OsString)>,
    settings: Vec<(String, String)>,
    ssh_command: Option<String>,
}

/// Names only: values may be credentials.
impl std::fmt::Debug for OperatorAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let settings: Vec<&String> = self.settings.iter().map(|(key, _)| key).collect();
        f.debug_struct("OperatorAccess").field("home", &self.home).field("settings", &settings).finish_non_exhaustive()
    }
}

impl OperatorAccess {
    /// Reads the configuration of the system and of the account whose home is `home`, with the git on `path`.
    pub fn read(path: &OsStr, home: Option<PathBuf>) -> Self {
        let found = std::env::vars_os();
        let own = |name: &OsStr| VARIABLES.into_iter().find(|known| OsStr::new(known) == name);
        let variables: Vec<(&'static str, OsString)> =
            found.filter_map(|(name, value)| Some((own(&name)?, value))).collect();
        let (settings, ssh_command) = read_settings(path, home.as_deref(), &variables);
        let ssh_command = std::env::var("GIT_SSH_COMMAND").ok().or(ssh_command);
        Self { home, variables, settings, ssh_command }
    }

    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    pub(super) fn ssh_command(&self) -> Option<&str> {
        self.ssh_command.as_deref()
    }

    /// The environment of a git that talks to a remote.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, OsString)> {
        let count = self.settings.len();
        let settings = self.settings.iter().enumerate().flat_map(|(at, (key, value))| {
            [(format!("GIT_CONFIG_KEY_{at}"), key.into()), (format!("GIT_CONFIG_VALUE_{at}"), value.into())]
        });
        let own = self.variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        own.chain([("GIT_CONFIG_COUNT".to_owned(), count.to_string().into())]).chain(settings)
    }
}

fn read_settings(
    path: &OsStr,
    home: Option<&Path>,
    variables: &[(&'static str, OsString)],
) -> (Vec<(String, String)>, Option<String>) {
    let mut list = Command::new("git");
    list.args(["config", "--includes", "--list", "-z"]).current_dir("/").env_clear().env("PATH", path);
    // `/` is in no repository, so that only the system's and the operator's own files are read.
    list.envs(home.map(|home| ("HOME", home))).env("GIT_CEILING_DIRECTORIES", "/").env("GIT_DIR", "/dev/null");
    list.envs(variables.iter().filter(|(name, _)| *name == "XDG_CONFIG_HOME").map(|(name, value)| (*name, value)));
    let answer = list.stdin(Stdio::null()).stderr(Stdio::null()).output();
    chosen(&answer.map(|answer| answer.stdout).unwrap_or_default())
}

/// The settings of a listing for reaching a remote, in their order, and the ssh command.
fn chosen(listing: &[u8]) -> (Vec<(String, String)>, Option<String>) {
    let (mut settings, mut ssh_command) = (Vec::new(), None);
    for entry in listing.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok()) {
        let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
        if key == SSH_COMMAND {
            ssh_command = Some(value.to_owned());
        } else if SECTIONS.iter().any(|section| key.starts_with(section)) {
            settings.push((key.to_owned(), value.to_owned()));
        }
    }
    (settings, ssh_command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_reaching_a_remote_is_taken() {
        let listing =
            b"user.name\nAnn\0credential.helper\nosxkeychain\0credential.https://forge.example.username\nann\0\
            filter.lfs.smudge\ngit-lfs smudge -- %f\0alias.x\n!rm\0core.hookspath\n/hooks\0core.sshcommand\nssh -i k\0\
            url.git@forge.example:.insteadof\nhttps://forge.example/\0http.proxy\nhttp://proxy\0";

        let (settings, ssh_command) = chosen(listing);

        let keys: Vec<&str> = settings.iter().map(|(key, _)| key.as_str()).collect();
        let expected = [
            "credential.helper",
            "credential.https://forge.example.username",
            "url.git@forge.example:.insteadof",
            "http.proxy",
        ];
        assert_eq!((keys.as_slice(), ssh_command.as_deref()), (expected.as_slice(), Some("ssh -i k")));
    }

    #[test]
    fn the_operators_own_configuration_is_read_and_no_repositorys() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("more"), "[credential]\n\thelper = store\n").unwrap();
        let settings = "[include]\n\tpath = more\n[http]\n\tproxy = http://proxy.example\n[core]\n\tpager = less\n";
        std::fs::write(home.path().join(".gitconfig"), settings).unwrap();
        let path = std::env::var_os("PATH").unwrap();

        let (found, _) = read_settings(&path, Some(home.path()), &[]);

        let has = |key: &str, value: &str| found.iter().any(|(k, v)| k == key && v == value);
        assert!(has("credential.helper", "store") && has("http.proxy", "http://proxy.example"), "{found:?}");
        assert!(!found.iter().any(|(key, _)| key.starts_with("core.")), "{found:?}");
    }
}
