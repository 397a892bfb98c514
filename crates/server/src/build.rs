//! What identifies the running program and its machine to clients.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

/// The program's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Identifies the program file: a page that was loaded from another one is outdated.
pub(crate) fn id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let file = std::env::current_exe().and_then(std::fs::metadata).ok();
        let modified = file.as_ref().and_then(|file| file.modified().ok());
        let since = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let mut hash = DefaultHasher::new();
        (VERSION, file.map(|file| file.len()), since).hash(&mut hash);
        format!("{VERSION}-{:016x}", hash.finish())
    })
}

/// The name of the coordinator: that of its machine.
pub(crate) fn coordinator_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let name = ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter().find_map(read).unwrap_or_default();
        match domain::escape_for_terminal(name.trim()) {
            name if name.is_empty() => "coordinator".to_owned(),
            name => name,
        }
    })
}
