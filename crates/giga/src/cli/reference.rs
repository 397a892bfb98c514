//! docs/reference/cli.md, generated from the command tree.

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory};
use testkit::page;

use super::Cli;

const HEAD: &str = "\
# Command line

Every command also takes the global options, and prints JSON with `--json`.

";

#[test]
fn the_page_of_commands_is_current() {
    let mut root = Cli::command();
    root.build();
    let mut text = HEAD.to_owned();
    text.push_str("## Global options\n\n");
    text.push_str(&arguments(root.get_arguments().filter(|arg| arg.is_global_set() || is_builtin(arg))));
    text.push_str(&block(root.get_after_help()));
    describe(&root, "giga", &mut text);

    page::matches("reference/cli.md", &format!("{}\n", text.trim_end()));
}

fn describe(command: &Command, path: &str, text: &mut String) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        let usage = sub.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").split_whitespace().collect::<Vec<_>>().join(" ");
        let about = sub.get_about().map_or_else(String::new, StyledStr::to_string);
        text.push_str(&format!("## {path}\n\n{about}.\n\n```text\n{usage}\n```\n\n"));
        let own = sub.get_arguments().filter(|arg| !arg.is_global_set() && !is_builtin(arg) && !arg.is_hide_set());
        text.push_str(&arguments(own));
        text.push_str(&block(sub.get_after_help()));
        describe(sub, &path, text);
    }
}

fn is_builtin(arg: &Arg) -> bool {
    matches!(arg.get_id().as_str(), "help" | "version")
}

fn arguments<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let rows: Vec<_> = args.map(row).collect();
    if rows.is_empty() { String::new() } else { format!("{}\n", page::table(["argument", "meaning"], rows)) }
}

fn row(arg: &Arg) -> [String; 2] {
    let names = arg.get_value_names().unwrap_or_default();
    let value = names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let mut name = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    if takes_value {
        name = if name.is_empty() { value } else { format!("{name} {value}") };
    }
    let mut help = arg.get_help().map_or_else(String::new, StyledStr::to_string);
    let choices: Vec<_> = arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if takes_value && !choices.is_empty() && !arg.is_hide_possible_values_set() {
        help.push_str(&format!(" ({})", choices.join(", ")));
    }
    if let Some(default) = arg.get_default_values().first().filter(|_| takes_value) {
        help.push_str(&format!(" (default: `{}`)", default.to_string_lossy()));
    }
    [format!("`{name}`"), help]
}

fn block(text: Option<&StyledStr>) -> String {
    text.map_or_else(String::new, |text| format!("```text\n{text}\n```\n\n"))
}
