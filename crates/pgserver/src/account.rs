//! The user account that runs the server: PostgreSQL refuses to run as root.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::error::Error;

/// The user that runs the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Account {
    /// The current user.
    Ourselves,
    /// Another user, because the current user is root.
    Other { uid: u32, gid: u32 },
}

/// Accounts that root runs the server as; the first one that exists is used.
const NAMES: [&str; 2] = ["postgres", "nobody"];

impl Account {
    pub(crate) fn find() -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        NAMES.iter().find_map(|name| named(&accounts, name)).ok_or(Error::NoAccount)
    }

    /// The user id, used in directory names.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Ourselves => rustix::process::geteuid().as_raw(),
            Self::Other { uid, .. } => uid,
        }
    }

    /// Changes the owner of a file or directory to the account.
    pub(crate) fn own(self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Ourselves => Ok(()),
            Self::Other { uid, gid } => chown(path, Some(uid), Some(gid)).map_err(Error::files(path)),
        }
    }

    /// Builds a command that runs as the account.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Self::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
        // The account may have no access to the current working directory.
        command.current_dir("/");
        command
    }
}

fn named(accounts: &str, name: &str) -> Option<Account> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let uid = fields.next()?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(Account::Other { uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_matched_by_its_whole_name() {
        let accounts = "root:x:0:0::/:/bin/sh\nnobody2:x:1:1::/:\nnobody:x:65534:65533:nobody:/:/bin/false\n";

        assert_eq!(named(accounts, "nobody"), Some(Account::Other { uid: 65534, gid: 65533 }));
        assert_eq!(named(accounts, "postgres"), None);
    }
}
