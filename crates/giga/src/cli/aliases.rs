//! Suggestions for commands of former versions and of other programs.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A command that does not exist, and the one to use.
const ALIASES: [(&str, &str); 29] = [
    ("factories", "did you mean `giga factory list`?"),
    ("products", "did you mean `giga product list`?"),
    ("profiles", "did you mean `giga profile list`?"),
    ("personas", "did you mean `giga profile list`?"),
    ("artifacts", "did you mean `giga artifact list JOB`?"),
    ("download", "did you mean `giga artifact get ARTIFACT`?"),
    ("restore", "did you mean `giga backup restore`?"),
    ("tokens", "did you mean `giga token list`?"),
    ("credentials", "did you mean `giga credential list`?"),
    ("reopen", "did you mean `giga credential resume`?"),
    ("login", "did you mean `giga sign-in`?"),
    ("web", "`giga sign-in` prints a link to the web UI"),
    ("ui", "`giga sign-in` prints a link to the web UI"),
    ("help", "`giga --help` lists the commands, `giga COMMAND --help` describes one"),
    ("version", "did you mean `giga --version`?"),
    ("status", "`giga jobs` lists jobs, `giga job ID` shows one"),
    ("list", "`giga jobs` lists jobs, `giga factory list` lists factories"),
    ("ls", "did you mean `giga jobs`?"),
    ("ps", "`giga jobs` lists jobs, `giga factory list` shows which factory runs which"),
    ("show", "did you mean `giga job ID`?"),
    ("watch", "`giga wait ID` follows a job, `giga events -f` the whole fleet"),
    ("start", "`giga up` starts a fleet on this machine, `giga submit job.md` submits a job"),
    ("run", "`giga submit job.md --wait` runs a job, `giga factory run` a factory"),
    ("stop", "`giga cancel ID` cancels a job; Ctrl-C stops a fleet"),
    ("retry", "did you mean `giga requeue ID`?"),
    ("merge", "did you mean `giga ship ID`?"),
    ("drain", "did you mean `giga factory drain NAME`?"),
    ("undrain", "did you mean `giga factory resume NAME`?"),
    ("clean", "did you mean `giga gc`?"),
];

/// The command that the user probably meant, with the id or name of the command line.
pub(crate) fn did_you_mean(error: &clap::Error, command_line: &[String]) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => {
            let (_, suggestion) = ALIASES.iter().find(|(known, _)| known == word)?;
            let mut rest = command_line.iter().skip_while(|one| *one != word).skip(1);
            let is_id = |one: &&String| one.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let named = rest.find(|one| !one.starts_with('-')).filter(is_id);
            Some(named.map_or_else(
                || (*suggestion).to_owned(),
                |id| suggestion.replace(" ID", &format!(" {id}")).replace(" NAME", &format!(" {id}")),
            ))
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
    fn a_suggestion_names_the_job_of_the_command_line() {
        let hint = |line: &[&str]| {
            let error = Cli::command().try_get_matches_from(line).unwrap_err();
            did_you_mean(&error, &line.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
        };

        assert_eq!(hint(&["giga", "retry", "4f1c689"]), Some("did you mean `giga requeue 4f1c689`?".to_owned()));
        assert_eq!(hint(&["giga", "retry"]), Some("did you mean `giga requeue ID`?".to_owned()));
        assert_eq!(hint(&["giga", "drain", "mac"]), Some("did you mean `giga factory drain mac`?".to_owned()));
        assert_eq!(hint(&["giga", "factories"]), Some("did you mean `giga factory list`?".to_owned()));
    }

    #[test]
    fn no_alias_is_a_command() {
        let commands = Cli::command();
        let known: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();

        for (word, _) in ALIASES {
            assert!(!known.contains(&word), "{word}");
        }
    }
}
