//! Checks of the sandbox of agents.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::{Account, SandboxMode, SandboxSummary};

use crate::config::FactoryConfig;

use super::check::Check;

/// Whom everything on the machine obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunAccount {
    Root,
    Anybody,
}

const ANOTHER_ACCOUNT: &str =
    "set `run_as` under [factory] to another account, or run the factory under an account that is not root";

/// What keeps agents from the factory's own files?
pub(super) fn confinement(factory: &FactoryConfig) -> Check {
    let confine = factory.confine.value;
    let runner = if rustix::process::geteuid().is_root() { RunAccount::Root } else { RunAccount::Anybody };
    judged(confine, confine.in_force(), factory.run_as.value.as_deref(), runner)
}

/// Checks that all paths exist that the configuration opens to them: they cannot create missing ones.
pub(super) fn opened(factory: &FactoryConfig) -> Vec<Check> {
    let missing = |(setting, path): (&str, &PathBuf)| {
        let found = format!("`{setting}` names {}, which does not exist", path.display());
        (!path.exists())
            .then(|| Check::warn("agents", found, "create it, or remove it from the setting: agents cannot create it"))
    };
    let read = factory.read.value.iter().map(|path| ("read", path));
    read.chain(factory.write.value.iter().map(|path| ("write", path))).filter_map(missing).collect()
}

/// Can the account of agents execute this program? They start it for the tools of their run.
pub(super) fn own_program(factory: &FactoryConfig) -> Option<Check> {
    let name = factory.run_as.value.as_deref()?;
    let account = match Account::named(name) {
        Ok(account) => account,
        Err(error) => {
            return Some(Check::fail("agents", error.to_string(), "no factory starts here until it is fixed"));
        }
    };
    let program = std::env::current_exe().ok()?;
    Some(executable(&program, name, account.uid(), account.gid()))
}

fn executable(program: &Path, name: &str, uid: u32, gid: u32) -> Check {
    let mut version = Command::new(program);
    version.arg("--version").current_dir("/").env_clear().stdin(Stdio::null()).uid(uid).gid(gid);
    let why = match version.output() {
        Ok(output) if output.status.success() => {
            return Check::ok("agents", format!("account `{name}` can execute {}", program.display()));
        }
        Ok(output) => format!("it ended with {}", output.status),
        Err(error) => error.to_string(),
    };
    Check::fail(
        "agents",
        format!("account `{name}` cannot execute {}, which serves the tools of a run: {why}", program.display()),
        "install giga where every account can execute it, such as /usr/local/bin",
    )
}

fn judged(confine: SandboxMode, found: SandboxSummary, account: Option<&str>, runner: RunAccount) -> Check {
    match (found, account, runner) {
        (SandboxSummary::None(why), ..) if confine == SandboxMode::Required => {
            Check::fail("agents", "the required sandbox is not available: no factory starts here", why)
        }
        (SandboxSummary::None(why), Some(account), _) => {
            Check::ok("agents", format!("isolated by account `{account}` alone: {why}"))
        }
        (SandboxSummary::None(why), None, RunAccount::Root) => {
            let found = "not sandboxed, and run as root: they can read and change everything on this machine";
            Check::warn("agents", found, format!("{why}; {ANOTHER_ACCOUNT}"))
        }
        (SandboxSummary::None(why), None, RunAccount::Anybody) => {
            Check::warn("agents", "not sandboxed: they can read what this account can, including tokens", why)
        }
        (SandboxSummary::Kernel(means), Some(account), _) => {
            Check::ok("agents", format!("sandboxed by {means} and account `{account}`"))
        }
        (SandboxSummary::Kernel(means), None, RunAccount::Root) => {
            let found = format!("sandboxed by {means}, but agents run as root, which weakens the sandbox");
            let gap = means.gap.map(|gap| format!("{gap}; ")).unwrap_or_default();
            Check::warn("agents", found, format!("{gap}{ANOTHER_ACCOUNT}"))
        }
        (SandboxSummary::Kernel(means), None, RunAccount::Anybody) => {
            let found = format!("sandboxed by {means}");
            match means.gap {
                Some(gap) => Check::warn("agents", format!("{found}, partly"), gap),
                None => Check::ok("agents", found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sandbox::SandboxBackend;

    use super::super::check::CheckOutcome;
    use super::*;

    fn kernel(gap: Option<&str>) -> SandboxSummary {
        SandboxSummary::Kernel(SandboxBackend { name: "Landlock (ABI 2)".to_owned(), gap: gap.map(str::to_owned) })
    }

    // [T8]
    #[test]
    fn root_without_another_account_is_pointed_out_and_most_of_all_where_nothing_confines_it() {
        let off = || SandboxSummary::None("`confine` is off".to_owned());
        let judged = |found, account| judged(SandboxMode::Auto, found, account, RunAccount::Root);

        let (open, confined, account) = (judged(off(), None), judged(kernel(None), None), judged(off(), Some("agent")));

        assert_eq!(
            [open.verdict, confined.verdict, account.verdict],
            [CheckOutcome::Warn, CheckOutcome::Warn, CheckOutcome::Ok]
        );
        assert_eq!(open.found, "not sandboxed, and run as root: they can read and change everything on this machine");
        assert_eq!(open.remedy, Some(format!("`confine` is off; {ANOTHER_ACCOUNT}")));
        assert_eq!(confined.remedy.as_deref(), Some(ANOTHER_ACCOUNT));
    }

    // [T8]
    #[test]
    fn a_program_that_the_account_cannot_execute_is_reported() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        const NOBODY: u32 = 65_534;
        let hidden = tempfile::tempdir().unwrap();
        let program = hidden.path().join("giga");
        std::fs::copy("/bin/true", &program).unwrap();
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(hidden.path(), owner_only).unwrap();

        let closed = executable(&program, "agent", NOBODY, NOBODY);
        let open = executable(Path::new("/bin/true"), "agent", NOBODY, NOBODY);

        assert_eq!((closed.verdict, open.verdict), (CheckOutcome::Fail, CheckOutcome::Ok), "{closed:?}");
        assert!(closed.found.contains("account `agent` cannot execute"), "{}", closed.found);
    }

    // [T8]
    #[test]
    fn a_kernel_that_confines_in_part_is_told_with_its_gap() {
        let judged = |found| judged(SandboxMode::Auto, found, None, RunAccount::Anybody);

        let (whole, in_part) = (judged(kernel(None)), judged(kernel(Some("they can empty files"))));

        assert_eq!(whole, Check::ok("agents", "sandboxed by Landlock (ABI 2)"));
        assert_eq!(in_part, Check::warn("agents", "sandboxed by Landlock (ABI 2), partly", "they can empty files"));
    }
}
