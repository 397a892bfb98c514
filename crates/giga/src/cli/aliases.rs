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
    ("retry", "`giga requeue ID` requeues a job"),
    ("answer", "`giga requeue ID -m \"…\"` answers a job's question"),
    ("merge", "`giga ship ID` merges what a job has done"),
    ("drain", "`giga factories --drain NAME`"),
    ("undrain", "`giga factories --resume NAME`"),
    ("clean", "`giga gc`"),
];

/// What a user meant by a command that there is not, with the job that the command line names.
pub(crate) fn meant(error: &clap::Error, command_line: &[String]) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => {
            let (_, here) = WORDS.iter().find(|(known, _)| known == word)?;
            let mut rest = command_line.iter().skip_while(|one| *one != word).skip(1);
            let is_id = |one: &&String| one.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let named = rest.find(|one| !one.starts_with('-')).filter(is_id);
            Some(named.map_or_else(|| (*here).to_owned(), |id| here.replace(" ID", &format!(" {id}"))))
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
    fn a_hint_names_the_job_of_the_command_line() {
        let hint = |line: &[&str]| {
            let error = Cli::command().try_get_matches_from(line).unwrap_err();
            meant(&error, &line.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
        };

        assert_eq!(hint(&["giga", "retry", "4f1c689"]), Some("`giga requeue 4f1c689` requeues a job".to_owned()));
        assert_eq!(hint(&["giga", "retry"]), Some("`giga requeue ID` requeues a job".to_owned()));
        assert_eq!(hint(&["giga", "drain", "mac"]), Some("`giga factories --drain NAME`".to_owned()));
    }

    #[test]
    fn a_word_that_is_a_command_here_needs_no_translation() {
        let commands = Cli::command();
        let known: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();

        for (word, _) in WORDS {
            assert!(!known.contains(&word), "{word}");
        }
    }
}
