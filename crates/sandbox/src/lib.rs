//! Runs untrusted programs: under a guard, in a sandbox of the kernel, perhaps under another account, with a cleared
//! environment and scrubbed output; and handles files that such programs can change concurrently.

mod dirfd;
mod disk;
mod file_lock;
mod find_program;
mod guard;
mod limits;
mod process;
mod scrub;
mod toolchains;

pub use dirfd::{DirFd, DirLock, FileAttributes, PendingFile};
pub use disk::{
    UNFINISHED_SUFFIX, folder_bytes, free_bytes, make_private_folder, remove_file, remove_folder, replace_file,
    replace_shared_file,
};
pub use file_lock::{FileLock, LockError};
pub use find_program::find_program;
pub use guard::{GUARD_FAILED, PROGRAM_NOT_FOUND, run_guard};
pub use limits::Limits;
pub use process::{
    Account, AccountError, BootInstant, Bounds, End, Environment, EnvironmentConfig, FinishedProgram, Group, Launcher,
    LeaseDeadline, LeaseWatch, Line, PathAccess, ProcessMark, Program, RunningProgram, Sandbox, SandboxBackend,
    SandboxMode, SandboxSummary, Source, StartError, exit_words, hide_from_siblings, kill_leftovers, own_homes,
    signal_name,
};
pub use scrub::{ScrubStream, Scrubber, Secrets, is_secret_name, secret_variables};
pub use toolchains::{toolchain_caches, toolchain_directories};
