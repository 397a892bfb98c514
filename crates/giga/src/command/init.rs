//! `giga init`

mod project;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clock::SystemClock;
use domain::Clock;
use engines::{EngineContext, LoginState, Presence, Prices, presences};
use sandbox::Launcher;

use crate::compose::station_settings;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Output;

use project::Project;

const FILES: [(&str, &str); 2] =
    [("giga.toml", include_str!("init/giga.toml")), ("job.md", include_str!("init/job.md"))];

/// The profiles that a new fleet begins with.
const PROFILES: [(&str, &str); 6] = [
    ("profiles/backend.md", include_str!("init/profiles/backend.md")),
    ("profiles/reviewer.md", include_str!("init/profiles/reviewer.md")),
    ("profiles/security-engineer.md", include_str!("init/profiles/security-engineer.md")),
    ("profiles/technical-writer.md", include_str!("init/profiles/technical-writer.md")),
    ("profiles/test-engineer.md", include_str!("init/profiles/test-engineer.md")),
    ("profiles/ux-designer.md", include_str!("init/profiles/ux-designer.md")),
];

/// Where the sample configuration gets the repository that was found.
const REPOSITORY_MARK: &str = "# A repository that jobs can name: ";

/// The sample job when a repository was found: the first file that it does not have yet.
const TASKS: [(&str, &str, &str); 3] = [
    (
        "CONTRIBUTING.md",
        "Add a contributing guide",
        "Write a `CONTRIBUTING.md` of one page for this repository.\n\n\
         Say how to build and test it, from what you find in the repository, and how a change is proposed.\n",
    ),
    (
        "ARCHITECTURE.md",
        "Describe the architecture",
        "Write an `ARCHITECTURE.md` of one page for this repository: its parts, what each is for, and where to begin reading.\n",
    ),
    (
        "IMPROVEMENTS.md",
        "List three possible improvements",
        "Write an `IMPROVEMENTS.md` with three small improvements of this repository, each with its reason.\n",
    ),
];

/// What an engine that is installed here is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EngineState {
    SignedIn,
    /// Installed, with what is missing.
    NotReady(String),
}

/// Writes a configuration and a job that fit the repository of the working directory; existing files are not changed.
pub(super) fn init(out: &Output) -> Result<(), Failure> {
    let directory = std::env::current_dir()?;
    let project = project::find(&directory);
    let engines = engines()?;
    let contents = [
        configuration(project.as_ref(), &directory, &engines),
        project.as_ref().map_or_else(|| FILES[1].1.to_owned(), job),
    ];
    let mut written = Vec::new();
    let mut kept = Vec::new();
    let profiles = PROFILES.iter().map(|(name, text)| (*name, (*text).to_owned()));
    std::fs::create_dir_all("profiles").map_err(|error| unwritable("profiles", &error))?;
    for (name, text) in FILES.iter().map(|(name, _)| *name).zip(contents).chain(profiles) {
        match std::fs::File::create_new(name).and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => written.push(name),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => kept.push(name),
            Err(error) => return Err(unwritable(name, &error)),
        }
    }
    if out.is_json() {
        let signed_in: Vec<&str> = engines
            .iter()
            .filter(|(_, state)| *state == EngineState::SignedIn)
            .map(|(name, _)| name.as_str())
            .collect();
        let repository = project.as_ref().map(|project| {
            serde_json::json!({
                "name": project.name, "path": project.root, "remote": project.remote, "base": project.base,
                "test": project.checks.test,
            })
        });
        return out.document(&serde_json::json!({
            "written": written, "kept": kept, "repository": repository, "engines": signed_in,
        }));
    }
    for name in &written {
        out.line(&format!("wrote {name}"))?;
    }
    for name in kept {
        out.note(&format!("{name} already exists, not changed"));
    }
    out.note(&findings(project.as_ref(), &engines));
    Ok(())
}

fn unwritable(name: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {name}: {error}"))
        .hint("run `giga init` in a directory that you may write to")
}

/// The engines that are installed here, judged as a factory judges them.
fn engines() -> Result<Vec<(String, EngineState)>, Failure> {
    let config = Config::without_file()?;
    let clock = Arc::new(SystemClock::new()) as Arc<dyn Clock>;
    let bench = EngineContext {
        launcher: Launcher::unguarded(Arc::clone(&clock)),
        clock,
        sessions: config.factory.state.value.join("sessions"),
        prices: Prices::default(),
        empty_home: PathBuf::from("/"),
        open: station_settings(&config).map(|settings| settings.open_to_agents()).unwrap_or_default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(presences(&config.factory.engines.value, &bench)).unwrap_or_default();
    let state = |presence| match presence {
        Presence::Ready { login: LoginState::SignedIn | LoginState::Unknown, .. } => Some(EngineState::SignedIn),
        Presence::Ready { login: LoginState::SignedOut { why } | LoginState::Unreadable { why }, .. } => {
            Some(EngineState::NotReady(why))
        }
        Presence::Missing { .. } => None,
    };
    Ok(found.into_iter().filter_map(|(name, presence)| Some((name.to_string(), state(presence)?))).collect())
}

fn configuration(project: Option<&Project>, directory: &std::path::Path, engines: &[(String, EngineState)]) -> String {
    let sample = FILES[0].1;
    let Some(project) = project else { return sample.to_owned() };
    // Relative to this file, so that the repository can move.
    let url = match directory.strip_prefix(&project.root) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => below.components().map(|_| "..").collect::<Vec<_>>().join("/"),
        Err(_) => project.root.display().to_string(),
    };
    let remote = project.remote.as_deref().map_or_else(
        || "It has no remote: the results are branches in this clone.".to_owned(),
        |remote| format!("Its remote is {}", domain::escape_for_terminal(remote)),
    );
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let setup = project.checks.setup.map_or_else(String::new, |setup| format!("setup = [{}]\n", quoted(setup)));
    let section = format!(
        "# The repository that `giga init` found here. {remote}\n[factory.repos.{}]\nurl = {}\nbase = {}\n{setup}\n",
        key(project.name.as_str()),
        quoted(&url),
        quoted(project.base.as_str()),
    );
    let engine = match engines.iter().any(|(_, state)| *state == EngineState::SignedIn) {
        true => String::new(),
        false => "# No engine is signed in on this machine yet. Sign in to claude or codex, which need no lines here, or take the \
                  comment\n# signs off the two lines of `[factory.engines.mine]` below and name your own agent; `giga doctor` checks \
                  it.\n\n"
            .to_owned(),
    };
    let sample = sample.replacen(REPOSITORY_MARK, &format!("{section}{REPOSITORY_MARK}"), 1);
    sample.replacen("# `claude` and `codex` are offered", &format!("{engine}# `claude` and `codex` are offered"), 1)
}

/// A key of a table, in quotes where it needs them.
fn key(name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_bare { name.to_owned() } else { toml::Value::String(name.to_owned()).to_string() }
}

fn job(project: &Project) -> String {
    let task = TASKS.iter().find(|(file, _, _)| !project.root.join(file).exists()).unwrap_or(&TASKS[2]);
    let (_, title, body) = task;
    let verify = match (project.checks.test, project.checks.missing) {
        (Some(test), None) => format!("verify: [\"{test}\"]\n"),
        (Some(test), Some(program)) => format!("# {program} is not installed here: verify: [\"{test}\"]\n"),
        (None, _) => "# verify: [\"make test\"]   # a command that shows that the work is done\n".to_owned(),
    };
    format!("---\ntitle: {title}\nrepo: {}\npriority: normal\n{verify}---\n\n{body}", project.name)
}

/// What was found, and what to do next.
fn findings(project: Option<&Project>, engines: &[(String, EngineState)]) -> String {
    let mut lines = Vec::new();
    match project {
        None => lines.push("no git repository here: run `giga init` inside yours, or name one in giga.toml".to_owned()),
        Some(project) => {
            let remote = project
                .remote
                .as_deref()
                .map_or_else(String::new, |remote| format!(" ({})", domain::escape_for_terminal(remote)));
            lines.push(format!("repository  {}{remote}, base branch {}", project.name, project.base));
            lines.push(match (project.checks.test, project.checks.missing) {
                (Some(test), None) => format!("tests       {test}"),
                (Some(test), Some(program)) => {
                    format!(
                        "tests       `{test}` needs {program}, which is not installed: job.md has no verify command"
                    )
                }
                (None, _) => {
                    "tests       none found: set `verify` in job.md to a command that tests the work".to_owned()
                }
            });
            if project.remote.is_none() {
                lines.push(
                    "warning     the repository has no remote: results stay as branches of this clone, and factories on other \
                     machines cannot work on it; add one with `git remote add origin URL`"
                        .to_owned(),
                );
            }
            if !project.has_commits {
                lines.push("warning     the repository has no commit yet: agents need one to start from".to_owned());
            }
        }
    }
    let signed_in: Vec<&str> =
        engines.iter().filter(|(_, state)| *state == EngineState::SignedIn).map(|(name, _)| name.as_str()).collect();
    for (name, state) in engines {
        if let EngineState::NotReady(why) = state {
            lines.push(format!("engine      {name} is installed, not signed in: {why}"));
        }
    }
    match signed_in.is_empty() {
        false => lines.push(format!("engines     {}", signed_in.join(", "))),
        true => lines.push(
            "engines     none is signed in: sign in to claude or codex, or set a command in giga.toml; `giga doctor` checks it"
                .to_owned(),
        ),
    }
    lines.push("next: `giga up`, then in another terminal: `giga submit job.md --wait`".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(wanted: &str) -> &'static str {
        FILES.iter().find(|(name, _)| *name == wanted).unwrap().1
    }

    // [J2]
    #[test]
    fn every_sample_profile_is_valid_and_described() {
        for (name, text) in PROFILES {
            let profile = domain::ProfileText::parse(text).unwrap();

            assert!(profile.description.is_some(), "{name}");
            assert!(!domain::Manifest::prompt(text).trim().is_empty(), "{name}");
        }
    }

    #[test]
    fn every_setting_in_the_sample_is_one_we_know() {
        let text = sample("giga.toml");
        let uncommented: String = text
            .lines()
            .map(|line| {
                line.strip_prefix("# ").filter(|rest| rest.contains(" = ") || rest.starts_with('[')).unwrap_or(line)
            })
            .flat_map(|line| [line, "\n"])
            .collect();

        let sparse = crate::config::of_file(text).unwrap();
        let full = crate::config::of_file(&uncommented).unwrap();
        assert_ne!(text, uncommented);
        assert_eq!(sparse.factory.limits, full.factory.limits, "the limits in the sample are the defaults");
    }

    #[test]
    fn the_sample_job_is_without_a_flaw() {
        let manifest = domain::Manifest::parse(sample("job.md"), domain::Strictness::Strict).unwrap();

        assert_eq!(manifest.warnings, []);
    }
}
