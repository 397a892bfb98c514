//! The help of `giga` itself: its commands in groups.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::Cli;

/// The commands by what they are for, the most used first.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Common commands", &["up", "submit", "wait", "jobs", "ship"]),
    (
        "Jobs",
        &[
            "plan",
            "needs-me",
            "job",
            "logs",
            "runs",
            "artifact",
            "explain",
            "answer",
            "review",
            "request-changes",
            "reject",
            "requeue",
            "cancel",
            "priority",
            "pin",
            "pause",
            "resume",
            "dismiss",
            "events",
            "alerts",
            "dead-letters",
        ],
    ),
    (
        "Fleet",
        &[
            "dash",
            "serve",
            "factory",
            "pool",
            "scaler",
            "local",
            "product",
            "budget",
            "profile",
            "token",
            "sign-in",
            "credential",
            "tracker",
            "webhook",
            "mode",
            "divergence",
        ],
    ),
    ("Setup and maintenance", &["init", "doctor", "backup", "gc", "bench"]),
    ("Tools", &["mcp", "completions", "schema"]),
];

/// The command line with its help screen.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let width = GROUPS.iter().flat_map(|(_, names)| names.iter()).map(|name| name.len()).max().unwrap_or_default();
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        let _ = writeln!(template, "\n{header}{title}:{header:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(template, "  {literal}{name:<width$}{literal:#}  {about}");
        }
    }
    let _ = write!(template, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let mut visible: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        visible.sort_unstable();
        grouped.sort_unstable();

        assert_eq!(grouped, visible);
    }
}
