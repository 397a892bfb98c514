//! Every shell command in the README and the how-tos is run, or marked with the reason why not.
//!
//! A fenced block with the language `sh` is run line by line in a scratch directory. A comment in front of it can set options:
//! `<!-- test: repository -->` runs it in a repository where nothing runs yet, and `<!-- not tested: REASON -->` leaves it
//! out. Long-lived commands go on until the end of their block; with the comment `until Ctrl-C` until they are ready.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::{processes, repository};

/// How long one command may take: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(180);

/// An agent that does what every sample job asks for.
const CLAUDE: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo '2.1.197 (Claude Code)'; exit; fi
cat > /dev/null
echo 'How to contribute.' > CONTRIBUTING.md
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"total_cost_usd":0,"result":"Done."}'
"#;

/// What stands for something of the reader's own, and what stands for it here.
const STAND_INS: [(&str, &str); 4] = [
    ("0.0.0.0:7878", "127.0.0.1:0"),
    ("fleet.example", "localhost"),
    (" FILE", " $(ls giga-backup-*.db | head -n 1)"),
    (" ID", " $JOB"),
];

struct Block {
    place: String,
    marker: Option<String>,
    lines: Vec<String>,
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = ["docs", "docs/how-to"].into_iter().flat_map(|dir| std::fs::read_dir(root.join(dir)).unwrap());
    let files = entries.map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    pages.sort();
    pages.insert(0, root.join("README.md"));
    pages
}

fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let (mut blocks, mut fence, mut before) = (Vec::new(), None::<(bool, Block)>, "");
    for (at, line) in text.lines().enumerate() {
        match (&mut fence, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let marker = before.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                let place = format!("{name}:{}", at + 1);
                let block = Block { place, marker: marker.map(str::to_owned), lines: Vec::new() };
                fence = Some((matches!(language.trim(), "sh" | "bash" | "shell" | "console"), block));
            }
            (Some(_), Some(_)) => blocks.extend(fence.take().filter(|(is_shell, _)| *is_shell).map(|(_, block)| block)),
            (Some((_, block)), None) if !line.trim().is_empty() => block.lines.push(line.to_owned()),
            _ => {}
        }
        if !line.trim().is_empty() {
            before = line.trim();
        }
    }
    blocks
}

/// A scratch home, a repository in it as the working directory, and `giga` on the PATH.
struct Scratch {
    home: tempfile::TempDir,
    work: PathBuf,
    job: String,
    running: Vec<Child>,
}

impl Scratch {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let (bin, login) = (home.path().join("bin"), home.path().join(".claude"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&login).unwrap();
        std::fs::write(bin.join("claude"), CLAUDE).unwrap();
        std::fs::set_permissions(bin.join("claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_giga"), bin.join("giga")).unwrap();
        std::fs::write(login.join(".credentials.json"), r#"{"claudeAiOauth":{"accessToken":"x"}}"#).unwrap();
        let remote = repository::make(home.path(), "notes");
        let work = home.path().join("notes");
        let clone = Command::new("git").args(["clone", "--quiet"]).arg(&remote).arg(&work).status().unwrap();
        assert!(clone.success());
        std::fs::write(work.join("Makefile"), "test:\n\ttest -s README.md\n").unwrap();
        repository::commit(&work, "Makefile");
        Self { home, work, job: String::new(), running: Vec::new() }
    }

    /// The same with a fleet that is up and has finished a job.
    fn with_fleet() -> Self {
        let mut scratch = Self::new();
        scratch.run("giga init");
        scratch.run("giga up");
        scratch.run("giga product set notes");
        scratch.job = scratch.run("giga submit job.md").lines().last().unwrap().to_owned();
        scratch.run("giga wait $JOB");
        scratch
    }

    /// Runs a line as a person would; its standard output.
    fn run(&mut self, line: &str) -> String {
        let line = STAND_INS.iter().fold(line.to_owned(), |line, (theirs, ours)| line.replace(theirs, ours));
        let command = line.split('#').next().unwrap().trim().to_owned();
        let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
        let verb = (words.next(), words.next(), words.next());
        let is_long_lived = matches!(
            verb,
            (Some("giga"), Some("up" | "serve" | "local"), _) | (Some("giga"), Some("factory"), Some("run"))
        ) && !command.contains("--once");
        if !is_long_lived {
            return self.finish(&line);
        }
        let child = self.shell(&format!("exec {command}")).stdin(Stdio::null()).spawn().unwrap();
        self.running.push(child);
        self.until_ready(&command);
        if line.contains("until Ctrl-C") {
            self.stop(1);
        }
        String::new()
    }

    fn finish(&self, line: &str) -> String {
        let log = self.home.path().join("command.log");
        let mut child = self
            .shell(line)
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(self.home.path().join("command.out")).unwrap())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let has_ended = processes::becomes_so(PATIENCE, || child.try_wait().unwrap().is_some());
        if !has_ended {
            let _ = child.kill();
        }
        let status = child.wait().unwrap();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        assert!(has_ended && status.success(), "`{line}` failed ({status}):\n{said}\n{}", self.log());
        std::fs::read_to_string(self.home.path().join("command.out")).unwrap()
    }

    fn until_ready(&mut self, command: &str) {
        let data = if command.contains("giga local") {
            self.home.path().join("queue/.giga")
        } else {
            self.home.path().join("data")
        };
        let is_factory = command.contains("giga factory run");
        let is_up = command.ends_with("up");
        let ready = processes::becomes_so(PATIENCE, || {
            let ended = self.running.last_mut().is_some_and(|child| child.try_wait().unwrap().is_some());
            assert!(!ended, "`{command}` ended:\n{}", self.log());
            let factories = || {
                self.shell("giga factory list --json")
                    .output()
                    .is_ok_and(|ran| String::from_utf8_lossy(&ran.stdout).contains("\"connected\":true"))
            };
            data.join("endpoint").exists() && (!(is_up || is_factory) || factories())
        });
        assert!(ready, "`{command}` does not get ready:\n{}", self.log());
    }

    fn shell(&self, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.home.path().join("long-lived.log"))
            .unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.work).env_clear();
        command.env("HOME", self.home.path()).env("PATH", format!("{}:{path}", self.home.path().join("bin").display()));
        command.env("GIGA_DATA", self.home.path().join("data")).env("JOB", &self.job);
        // The usual port may be taken, and the disk of a test machine may be small.
        command.env("GIGA_LISTEN", "127.0.0.1:0").env("GIGA_DISK_FREE_MIN_MIB", "0").env("GIGA_DISK_FLOOR_MIB", "0");
        command.stdout(Stdio::piped()).stderr(log);
        command
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("long-lived.log")).unwrap_or_default()
    }

    /// Ends the last `count` long-lived commands.
    fn stop(&mut self, count: usize) {
        for _ in 0..count {
            let Some(mut child) = self.running.pop() else { return };
            processes::send(Signal::INT, &child);
            let has_ended = processes::becomes_so(PATIENCE, || child.try_wait().unwrap().is_some());
            if !has_ended {
                let _ = child.kill();
            }
            let status = child.wait().unwrap();
            assert!(has_ended && status.success(), "a long-lived command ended with {status}:\n{}", self.log());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

// [U3]
#[test]
fn every_shell_command_in_the_documentation_works() {
    let mut fleet = None;
    let mut tested = 0;

    for block in pages().iter().flat_map(|page| blocks(page)) {
        let marker = block.marker.as_deref().unwrap_or_default();
        if let Some(reason) = marker.strip_prefix("not tested:") {
            assert!(!reason.trim().is_empty(), "{}: a reason is missing", block.place);
            continue;
        }
        println!("{}", block.place);
        let is_alone = marker.starts_with("test: repository");
        let mut alone = is_alone.then(Scratch::new);
        let scratch = match &mut alone {
            Some(scratch) => scratch,
            None => fleet.get_or_insert_with(Scratch::with_fleet),
        };
        let before = scratch.running.len();
        for line in &block.lines {
            println!("  {line}");
            scratch.run(line);
        }
        scratch.stop(scratch.running.len() - before);
        tested += block.lines.len();
    }
    if let Some(mut fleet) = fleet {
        fleet.stop(1);
    }

    assert!(tested > 10, "only {tested} commands were run");
}
