//! The binary on a machine of its own: an empty home, an empty directory, an empty environment.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A machine with nothing on it.
pub(crate) struct Machine {
    folder: TempDir,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the working directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub(crate) fn giga(&self, args: &[&str]) -> Ran {
        self.giga_with(args, &[], "")
    }

    /// Starts a command whose standard input stays open.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args, &[]).spawn().unwrap()
    }

    /// Starts a command whose output goes to a file of the working directory.
    pub(crate) fn start_into(&self, log: &str, args: &[&str], variables: &[(&str, &str)]) -> Child {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path().join(log)).unwrap();
        let mut command = self.command(args, variables);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        command.spawn().unwrap()
    }

    pub(crate) fn giga_with(&self, args: &[&str], variables: &[(&str, &str)], stdin: &str) -> Ran {
        let mut child = self.command(args, variables).spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        // Recommended commands repeat the address, which is another one each time.
        let api = args.iter().position(|arg| *arg == "--api").and_then(|at| args.get(at + 1));
        let carried = api.map(|api| format!("`giga --api {api} "));
        let text = |bytes| {
            let text = String::from_utf8(bytes).unwrap();
            carried.as_ref().map_or(text.clone(), |carried| text.replace(carried, "`giga "))
        };
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn command(&self, args: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_giga"));
        command.args(args).current_dir(self.path()).env_clear();
        command.env("HOME", self.path().join("home")).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}
