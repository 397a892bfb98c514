//! `giga completions`

use clap_complete::Shell;

use crate::cli;
use crate::failure::Failure;
use crate::output::Output;

/// Prints a completion script.
pub(super) fn completions(shell: Shell, out: &Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "giga", &mut script);
    out.bytes(&script)
}
