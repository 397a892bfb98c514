//! Words that people bring along from other programs.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What a word would be here.
const WORDS: [(&str, &str); 17] = [
    ("help", "`giga --help` lists the commands, `giga COMMAND --help` explains one"),
    ("version", "`giga --version`"),
    ("status", "`giga jobs` lists jobs, `giga job ID` shows one"),
    ("list", "`giga jobs` lists jobs, `giga factories` the machines"),
    ("ls", "`giga jobs` lists jobs"),
    ("ps", "`giga jobs` lists jobs, `giga factories` says who works on which"),
    ("show", "`giga job ID` shows a job"),
    ("watch", "`giga wait ID` follows a job, `giga events -f` the whole fleet"),
    ("start", "`giga up` starts a fleet on this machine, `giga submit job.md` a job"),
    ("run", "`giga submit job.md --wait` runs a job"),
    ("stop", "`giga cancel ID` stops a job; a fleet is stopped with Ctrl-C"),
    ("retry", "`giga requeue ID` sends a job round again"),
    ("answer", "`giga requeue ID -m \"…\"` answers a job's question"),
    ("merge", "`giga ship ID` merges what a job has done"),
    ("drain", "`giga factories --drain NAME`"),
    ("undrain", "`giga factories --resume NAME`"),
    ("clean", "`giga gc`"),
];

/// What somebody meant by a command that there is not.
pub(crate) fn meant(error: &clap::Error) -> Option<&'static str> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => {
            WORDS.iter().find(|(known, _)| known == word).map(|(_, here)| *here)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_word_that_is_a_command_here_needs_no_translation() {
        let commands = Cli::command();
        let known: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();

        for (word, _) in WORDS {
            assert!(!known.contains(&word), "{word}");
        }
    }
}
