//! Settings that override a repository's own, and the credential for a remote.

use std::ffi::OsString;
use std::path::Path;

use super::{GitCommand, OperatorAccess};
use crate::large_files;
use crate::remote::{Remote, Transport};

/// These override every configuration file. Most of them could otherwise name a program. A silent remote times out
/// after a minute, also for an abandoned git: it may hold a lock.
const HARDENING: [&str; 18] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.alternateRefsCommand=true",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "protocol.allow=never",
];

/// An ssh without prompts that times out on a silent remote.
const SSH: &str = "-oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15 -oServerAliveCountMax=4";

/// Clears the credential helpers; only those named after this apply.
const NO_HELPERS: &str = "credential.helper=";

/// The name of its remote in a partial mirror.
pub(crate) const PROMISOR: &str = "origin";
const PROMISED: &str = "remote.origin.promisor=true";
const PROMISED_LATER: &str = "remote.origin.partialCloneFilter=blob:none";

/// A credential is passed by environment, never by command line, which every user of the machine can read.
const LOGIN_USER: &str = "GIGAFACTORY_GIT_USER";
const LOGIN_PASSWORD: &str = "GIGAFACTORY_GIT_PASSWORD";
const LOGIN_HELPER: &str = "credential.helper=!printf 'username=%s\\npassword=%s\\n' \"$GIGAFACTORY_GIT_USER\" \"$GIGAFACTORY_GIT_PASSWORD\" #";

impl GitCommand<'_> {
    /// Every setting of this command, which overrides all others.
    pub(super) fn settings(&self) -> Vec<String> {
        let mut settings: Vec<String> = HARDENING.map(str::to_owned).to_vec();
        let operator = self.operator();
        let ssh = operator.and_then(OperatorAccess::ssh_command).unwrap_or("ssh");
        settings.push(format!("core.sshCommand={ssh} {SSH}"));
        // A credential in the URL takes precedence over the operator's helpers.
        if operator.is_none() || self.login().is_some() {
            settings.push(NO_HELPERS.to_owned());
        }
        let asked = self.asked().map(Remote::transport).filter(|asked| *asked != self.transport);
        for transport in std::iter::once(self.transport).chain(asked) {
            settings.extend(allowed(transport).iter().map(|&setting| setting.to_owned()));
        }
        if let Some(remote) = self.promisor {
            let url = format!("remote.{PROMISOR}.url={}", remote.url());
            settings.extend([PROMISED.to_owned(), PROMISED_LATER.to_owned(), url]);
        }
        settings.extend(self.large_files.map(large_files::settings).unwrap_or_default());
        settings.extend(self.login().map(|_| LOGIN_HELPER.to_owned()));
        settings
    }

    /// Every variable of this command's environment.
    pub(super) fn environment(&self) -> Vec<(String, OsString)> {
        let git = self.git;
        let home = self.operator().and_then(OperatorAccess::home).unwrap_or(&git.home);
        let mut variables: Vec<(&'static str, OsString)> = vec![
            ("PATH", git.path.clone()),
            ("HOME", home.into()),
            ("LC_ALL", "C".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_CONFIG_GLOBAL", self.trusted.unwrap_or(Path::new("/dev/null")).into()),
            ("GIT_ATTR_NOSYSTEM", "1".into()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("GIT_NO_LAZY_FETCH", if self.asked().is_some() { "0" } else { "1" }.into()),
            ("GIT_NO_REPLACE_OBJECTS", "1".into()),
            ("GIT_OPTIONAL_LOCKS", "0".into()),
            ("GIT_PROTOCOL_FROM_USER", "0".into()),
            ("GIT_AUTHOR_NAME", git.identity.name().into()),
            ("GIT_AUTHOR_EMAIL", git.identity.email().into()),
            ("GIT_COMMITTER_NAME", git.identity.name().into()),
            ("GIT_COMMITTER_EMAIL", git.identity.email().into()),
        ];
        if let Some(index) = self.index {
            variables.push(("GIT_INDEX_FILE", index.into()));
        }
        if self.transport == Transport::Network {
            let socket = git.access.ssh_auth_sock.clone().map(|socket| ("SSH_AUTH_SOCK", socket.into()));
            let askpass = git.access.askpass.clone().map(|program| ("GIT_ASKPASS", program.into()));
            variables.extend(socket.into_iter().chain(askpass));
        }
        if let Some((user, password)) = self.login() {
            variables.extend([(LOGIN_USER, user.into()), (LOGIN_PASSWORD, password.into())]);
        }
        let operator = self.operator().into_iter().flat_map(OperatorAccess::variables);
        // The factory's configuration overrides the operator's, so it comes later.
        operator.chain(variables.into_iter().map(|(name, value)| (name.to_owned(), value))).collect()
    }

    /// The operator's access to remotes, for a command that talks to one over a network.
    fn operator(&self) -> Option<&OperatorAccess> {
        (self.transport == Transport::Network && !self.is_alone).then_some(&self.git.operator)
    }

    /// The promisor remote for missing contents. Git knows it in any case: the contents are not lost.
    fn asked(&self) -> Option<&Remote> {
        self.promisor.filter(|_| !self.is_alone)
    }

    /// The credential for the remote, if its URL has one.
    fn login(&self) -> Option<(&str, &str)> {
        if self.is_alone {
            return None;
        }
        self.remote.or(self.promisor).or(self.large_files).and_then(Remote::login)
    }
}

fn allowed(transport: Transport) -> &'static [&'static str] {
    match transport {
        Transport::None => &[],
        Transport::Network => &["protocol.https.allow=always", "protocol.ssh.allow=always"],
        Transport::Folder => &["protocol.file.allow=always"],
    }
}
