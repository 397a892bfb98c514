//! Which paths the programs of a factory cannot access [T8].

mod caches;
mod opening;
mod surroundings;
mod tools;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use engines::EngineKind;
use sandbox::{EnvironmentConfig, PathAccess, Sandbox, SandboxMode, SandboxSummary, Scrubber, find_program, own_homes};
use tracing::{info, warn};
use workspace::StateDir;

use self::surroundings::Programs;
use super::{WorkerError, WorkerSettings};

/// Common places of credentials in a home directory, for homes that cannot be hidden as a whole.
const CREDENTIALS: [&str; 14] = [
    ".ssh",
    ".gnupg",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/gcloud",
    ".aws",
    ".azure",
    ".kube",
    ".docker/config.json",
    ".npmrc",
    ".pypirc",
    ".config/gigafactory",
];

/// System-wide program directories.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/etc", "/dev"];

/// Variables that name a directory for temporary files.
const TEMPORARY: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

impl WorkerSettings {
    /// Protects a file from changes by programs, and from reads if it holds what would be scrubbed from a log.
    pub fn keep(&mut self, file: &Path) {
        let scrubber = Scrubber::new(self.known_secrets());
        let kept = match fs::read_to_string(file).is_ok_and(|text| scrubber.text(&text) != text) {
            true => &mut self.hidden,
            false => &mut self.fixed,
        };
        kept.push(file.to_owned());
    }

    /// The sandbox that protects this factory's own files, if the machine has one. Logs which.
    pub(super) fn sandbox(&self, state: &StateDir) -> Result<Option<Sandbox>, WorkerError> {
        let name = &self.name;
        let account = self.run_as.as_deref().map(|account| format!("account `{account}`"));
        match (settle(self.confine, self.confine.in_force())?, account) {
            (SandboxSummary::None(why), None) => {
                warn!(factory.id = %name, "Agents of factory `{name}` can reach its own files, tokens among them: {why}");
                Ok(None)
            }
            (SandboxSummary::None(why), Some(account)) => {
                info!(factory.id = %name, "Agents of factory `{name}` are isolated by {account} alone: {why}");
                Ok(None)
            }
            (SandboxSummary::Kernel(means), account) => {
                let gap = means.gap.as_ref().filter(|_| account.is_none());
                let by = account.map_or_else(|| means.to_string(), |account| format!("{means}, and {account}"));
                info!(factory.id = %name, "Agents of factory `{name}` are sandboxed by {by}");
                if let Some(gap) = gap {
                    warn!(factory.id = %name, "Agents of factory `{name}` are not kept from everything: {gap}");
                }
                self.say_what_stays_open()?;
                let sandbox = self.marks(state);
                self.say_what_is_narrow(&sandbox);
                Ok(Some(sandbox))
            }
        }
    }

    /// What every program can access, whatever run it belongs to: the machine, without secrets, with what the operator
    /// opened, and without changes to programs.
    fn marks(&self, state: &StateDir) -> Sandbox {
        let (logins, own) = (self.closed_logins(), [state.root().to_owned()]);
        let sandbox = logins.iter().fold(self.machine(), |sandbox, path| sandbox.hiding_in_place(path));
        let secret: Vec<PathBuf> = self.secret_places().into_iter().chain(own).collect();
        let sandbox = secret.iter().fold(sandbox, |sandbox, path| sandbox.hiding(path));
        let hidden: Vec<PathBuf> = secret.into_iter().chain(logins).collect();

        let written = self.written().chain(self.temporary());
        let read = self.readable.iter().cloned().map(|path| (path, PathAccess::Read));
        let given = read.chain(written.map(|path| (path, PathAccess::Everything)));
        let given = given.filter(|(path, _)| !hidden.iter().any(|hidden| real(hidden) == real(path)));
        let given = given.filter(|(path, _)| !self.is_led_by_agents(path));
        // Its mark replaces the one that closes a home, however the home was spelled.
        let homes = self.homes();
        let as_marked = |path: PathBuf| homes.iter().find(|home| **home == real(&path)).cloned().unwrap_or(path);
        let given = given.map(|(path, reach)| (as_marked(path), reach));
        let sandbox = given.fold(sandbox, |sandbox, (path, reach)| sandbox.with(path, reach));

        let is_hidden = |path: &PathBuf| hidden.iter().any(|hidden| real(path).starts_with(real(hidden)));
        let tools = self.tools_in_homes().into_iter().filter(|path| !is_hidden(path));
        let sandbox = tools.fold(sandbox, |sandbox, path| sandbox.at_least(&path, PathAccess::Read));
        let sandbox = self.unchanging().iter().fold(sandbox, |sandbox, path| sandbox.at_most(path, PathAccess::Read));

        let named = self.named_programs();
        let sandbox = named.iter().fold(sandbox, |sandbox, path| sandbox.at_least(path, PathAccess::Read));
        // The empty home is for the programs that are asked for their version.
        sandbox.with(state.empty_home(), PathAccess::Everything)
    }

    /// The machine without home directories.
    fn machine(&self) -> Sandbox {
        let homes = self.homes();
        // An agent with write access to a repository on this disk could move any branch of it. A home is not opened for
        // the repositories in it.
        let remotes = self.local_remotes().filter(|path| !homes.iter().any(|home| home.starts_with(real(path))));
        let read = remotes.map(|path| (path, PathAccess::Read));
        let hidden = homes.iter().map(|home| (home.clone(), PathAccess::Nothing));
        let marks = hidden.chain(surroundings::marks(self.programs())).chain(read);
        marks.fold(Sandbox::default(), |sandbox, (path, reach)| sandbox.with(path, reach))
    }

    /// The home directories of the factory's account and of its git: hidden from programs unless the configuration
    /// opens one.
    fn homes(&self) -> Vec<PathBuf> {
        let own = operators_homes().into_iter().chain(self.git.home.clone()).filter(|home| is_place(home));
        let homes: BTreeSet<PathBuf> = own.map(|home| real(&home)).collect();
        homes.into_iter().collect()
    }

    fn secret_places(&self) -> Vec<PathBuf> {
        let shared = operators_homes().into_iter().filter(|home| home.is_absolute() && !is_place(home));
        let credentials = shared.flat_map(|home| CREDENTIALS.map(|name| home.join(name)));
        let credentials = credentials.chain(self.git.askpass.clone()).filter(|path| path.exists());
        let socket = self.git.ssh_auth_sock.clone().filter(|_| Sandbox::keeps_from_sockets());
        // The URL of a clone's origin may hold a password or a token.
        let clones = self.repositories();
        let clones: Vec<PathBuf> = clones.iter().flat_map(|repository| repository.files_with_login()).collect();
        let files = self.hidden.iter().cloned().chain(self.forge.token_file.clone()).chain(clones);
        files.chain(credentials).chain(socket).collect()
    }

    fn local_remotes(&self) -> impl Iterator<Item = PathBuf> {
        let repositories = self.repositories().into_iter();
        let folders = repositories.flat_map(|repository| repository.folders().map(Path::to_owned).collect::<Vec<_>>());
        folders.chain(self.repo_base.clone())
    }

    /// The directories in which the factory and its programs look for programs.
    fn path(&self) -> Vec<PathBuf> {
        let set = self.environments().filter_map(|environment| environment.set.get("PATH").map(Into::into));
        let paths = std::env::var_os("PATH").into_iter().chain(set);
        let folders = paths.flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
        folders.filter(|folder| folder.is_absolute()).map(|folder| real(&folder)).collect()
    }

    /// Paths that the configuration names as a program, or as an argument of one.
    fn named_programs(&self) -> Vec<PathBuf> {
        let path = std::env::var_os("PATH");
        let engines = self.engines.iter();
        let unconfigured: Vec<&str> = EngineKind::offered_unconfigured().filter_map(EngineKind::program).collect();
        let programs = engines.clone().filter_map(|(name, config)| config.program(name)).chain(unconfigured);
        let programs = programs.filter_map(|program| find_program(program, path.as_deref()));
        let homes = self.homes();
        let programs = programs.flat_map(|program| {
            let below = |home: &PathBuf| tools::of_program(home, &program);
            homes.iter().flat_map(below).collect::<Vec<_>>()
        });
        let words = engines.flat_map(|(_, config)| config.argv.iter().chain(&config.args));
        let words = words.chain(self.tools.values().flatten()).map(PathBuf::from);
        programs.chain(words.filter(|word| word.is_absolute() && word.is_file())).collect()
    }

    fn temporary(&self) -> impl Iterator<Item = PathBuf> {
        let set = self.environments().flat_map(|environment| TEMPORARY.map(|name| environment.set.get(name)));
        set.flatten().map(PathBuf::from).filter(|folder| folder.is_absolute())
    }

    fn programs(&self) -> Programs {
        let is_root = rustix::process::geteuid().is_root() && self.run_as.is_none();
        if is_root { Programs::OfRoot } else { Programs::OfAnybody }
    }

    /// Logs what the kernel does not restrict here, or fails where a full sandbox is required.
    fn say_what_stays_open(&self) -> Result<(), WorkerError> {
        let name = &self.name;
        if self.programs() == Programs::OfRoot {
            warn!(
                factory.id = %name,
                "Agents of factory `{name}` run as root, which weakens the sandbox: set `run_as` to another \
                 account, or run the factory under one"
            );
        }
        let is_open = self.run_as.is_none() && !Sandbox::keeps_from_sockets();
        let Some(socket) = self.git.ssh_auth_sock.as_ref().filter(|_| is_open) else { return Ok(()) };
        let why = format!(
            "this kernel lets programs of the same account use the ssh agent at {} (`git.ssh_auth_sock`): name another \
             account with `run_as`, or give git a key in a `git.home` of its own",
            socket.display()
        );
        if self.confine == SandboxMode::Required {
            return Err(WorkerError::NotConfined(why));
        }
        warn!(factory.id = %name, "Agents of factory `{name}` can push as it does: {why}");
        Ok(())
    }

    /// What the configuration opens and does not exist, with the setting that names it.
    fn opened_but_missing(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let named = self.readable.iter().map(|path| ("read", path));
        let named = named.chain(self.writable.iter().map(|path| ("write", path)));
        named.filter(|(_, path)| !path.exists())
    }

    /// Warns about directories that are not opened, and about those in which programs can create nothing directly, because
    /// something below is hidden.
    fn say_what_is_narrow(&self, sandbox: &Sandbox) {
        let homes = self.environments().filter_map(|environment| environment.home.clone());
        let folders: Vec<PathBuf> = homes.chain([std::env::temp_dir()]).chain(self.writable.iter().cloned()).collect();
        for folder in folders.iter().chain(&self.readable).filter(|folder| self.is_led_by_agents(folder)) {
            warn!(
                factory.id = %self.name,
                "{} is not opened for agents: it is behind a link that an agent could have made. Name what it leads to",
                folder.display()
            );
        }
        for folder in folders.iter().filter(|folder| sandbox.narrows(folder)) {
            warn!(
                factory.id = %self.name,
                "Agents cannot create files directly in {}, because a protected directory is inside it: keep the \
                 factory's `state`, the coordinator's `data` and programs elsewhere",
                folder.display()
            );
        }
        for (setting, folder) in self.opened_but_missing() {
            warn!(
                factory.id = %self.name,
                "`{setting}` names {}, which does not exist: create it, or remove it from the setting; agents cannot create it",
                folder.display()
            );
        }
        let commands = self.engines.iter().filter(|(name, config)| config.kind(name) == EngineKind::COMMAND);
        let environments = commands.map(|(_, config)| &config.environment).chain([&self.environment]);
        let set = environments.flat_map(|environment| &environment.set);
        let is_closed =
            |path: &Path| path.is_absolute() && path.exists() && sandbox.reach_at(path) == PathAccess::Nothing;
        for (variable, folder) in set.filter(|(_, value)| is_closed(Path::new(value))) {
            warn!(
                factory.id = %self.name,
                "`{variable}` leads to {folder}, which is kept from agents: open it with `read` or `write`"
            );
        }
        let opened = |environment: &EnvironmentConfig| match &environment.home {
            Some(home) => self.with_home_open(sandbox.clone(), home),
            None => sandbox.clone(),
        };
        let caches =
            self.environments().flat_map(|environment| caches::only_readable(environment, &opened(environment)));
        for (variable, folder) in caches.collect::<BTreeSet<_>>() {
            warn!(
                factory.id = %self.name,
                "`{variable}` leads to {folder}, which agents can only read, so that builds with something new in them \
                 fail: open it with `write`, or give the repository a folder of its own with `caches`"
            );
        }
    }
}

/// The home directories of the factory's account: the one in its environment, and the account's own. They differ for a
/// service and with `sudo`.
fn operators_homes() -> Vec<PathBuf> {
    // Accounts without a home name one that does not exist.
    let own = own_homes().into_iter().filter(|home| home.is_dir());
    std::env::home_dir().into_iter().chain(own).collect()
}

/// Whether a home is a directory of its own, so that hiding it hides nothing else. Service accounts have homes among
/// the system's programs.
fn is_place(home: &Path) -> bool {
    home.is_absolute() && home.parent().is_some() && !SYSTEM.iter().any(|folder| home.starts_with(folder))
}

/// A path without links in it, if it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The detected sandbox; an error if there is none and the mode requires one.
pub(super) fn settle(wish: SandboxMode, found: SandboxSummary) -> Result<SandboxSummary, WorkerError> {
    match found {
        SandboxSummary::None(why) if wish == SandboxMode::Required => Err(WorkerError::NotConfined(why)),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::SandboxBackend;

    // [T8] [attack: a prompt-injected agent steals secrets]
    #[test]
    fn a_factory_that_must_confine_its_agents_and_cannot_does_not_work() {
        let none = || SandboxSummary::None("no Landlock".to_owned());
        let kernel = || SandboxSummary::Kernel(SandboxBackend { name: "landlock".to_owned(), gap: None });

        let refused = settle(SandboxMode::Required, none()).unwrap_err();

        let expected = "`confine` is \"required\", and agents cannot be confined: no Landlock";
        assert_eq!(refused.to_string(), expected);
        assert_eq!(settle(SandboxMode::Required, kernel()).unwrap(), kernel());
        assert_eq!(settle(SandboxMode::Auto, none()).unwrap(), none());
    }

    // [T8]
    #[test]
    fn a_home_around_everything_or_among_the_systems_programs_is_not_hidden() {
        let homes = ["/", "", "home", "/usr/sbin", "/home/ada"];

        assert_eq!(homes.map(|home| is_place(Path::new(home))), [false, false, false, false, true]);
    }
}
