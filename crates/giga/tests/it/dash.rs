//! `giga dash` in a real terminal, on a real fleet.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testkit::requirement::Requirement;

use crate::fleet::Fleet;
use crate::processes;

/// How long a screen may take to show something, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal with a shell, driven by tmux.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// A shell in the fleet's working directory; `None` without tmux.
    fn open(fleet: &Fleet, columns: u16, rows: u16) -> Option<Self> {
        let found = Command::new("tmux").arg("-V").output().is_ok_and(|ran| ran.status.success());
        if !Requirement::Tmux.is_met(found, "install tmux (scripts/with-tmux does)") {
            return None;
        }
        let folder = fleet.machine.path();
        let terminal = Self { socket: folder.join("tmux") };
        let shell = format!(
            "env -i HOME={home} PATH={path} TERM=screen LANG=C.UTF-8 PS1='shell> ' GIGA={giga} sh",
            home = folder.join("home").display(),
            path = std::env::var("PATH").unwrap(),
            giga = env!("CARGO_BIN_EXE_giga"),
        );
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let folder = folder.to_str().unwrap();
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, "-c", folder, &shell]);
        terminal.until("shell>");
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(&self.socket).args(args).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    /// Types a text.
    fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Presses keys by their names.
    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Runs a command line of the shell.
    fn shell(&self, line: &str) {
        self.text(line);
        self.keys(&["Enter"]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn until(&self, text: &str) {
        let mut screen = String::new();
        let shows = processes::becomes_so(PATIENCE, || {
            screen = self.screen();
            screen.contains(text)
        });
        assert!(shows, "waited too long for `{text}`:\n{screen}");
    }

    fn until_gone(&self, text: &str) {
        let gone = processes::becomes_so(PATIENCE, || !self.screen().contains(text));
        assert!(gone, "`{text}` stays:\n{}", self.screen());
    }

    /// The alternate screen and the cursor, as the terminal has them.
    fn flags(&self) -> String {
        self.tmux(&["display-message", "-p", "alternate #{alternate_on}, cursor #{cursor_flag}"]).trim().to_owned()
    }

    /// Whether the shell has its terminal back as it was before the dashboard.
    fn assert_restored(&self, fleet: &Fleet, said: &str) {
        self.until(said);
        self.shell("stty -a > after");
        fleet.until("the modes of the terminal", || fleet.machine.path().join("after").exists());
        self.until("shell>");
        assert_eq!(self.flags(), "alternate 0, cursor 1");
        // The first line has the size, which a test may have changed.
        let modes = |name: &str| fleet.machine.read(name).lines().skip(1).collect::<Vec<_>>().join("\n");
        let same = processes::becomes_so(PATIENCE, || modes("before") == modes("after"));
        assert!(same, "{}\n{}", modes("before"), modes("after"));
        std::fs::remove_file(fleet.machine.path().join("after")).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

/// A fleet whose engine imitates Claude Code: it asks, unless its prompt has the answer.
fn asking_fleet() -> Fleet {
    let fleet = Fleet::new();
    let program = fleet.machine.path().join("agent");
    let script = r#"#!/bin/sh
[ "$1" = --version ] && { echo '2.1.197 (Claude Code)'; exit 0; }
prompt=$(cat)
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"claude-opus-4-8"}'
case $prompt in
  *"red ones"*) echo red > wall ;;
  *) echo '{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","name":"AskUserQuestion","input":{"question":"Which brick?"}}]}}' ;;
esac
echo '{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.01,"result":"Done."}'
"#;
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let engine = format!(
        "[factory.engines.claude]\nprogram = '{}'\nenvironment = {{ set = {{ ANTHROPIC_API_KEY = 'nobodys-key' }} }}\n",
        program.display()
    );
    fleet.machine.write("giga.toml", &format!("{}{engine}", fleet.machine.read("giga.toml")));
    fleet
}

// [U2] [B6]
#[test]
fn the_dashboard_opens_filters_answers_and_leaves_the_terminal_as_it_was() {
    let mut fleet = asking_fleet();
    let Some(terminal) = Terminal::open(&fleet, 80, 24) else { return };
    fleet.start_up();
    fleet.machine.write("wall.md", "---\ntitle: Raise the wall\nrepo: work\nengines: [claude]\n---\nRaise it.\n");
    fleet.machine.write("well.md", "---\ntitle: Dig the well\nrepo: work\nengines: [script]\n---\nDig it.\n");
    let id = fleet.machine.giga(&["submit", "wall.md"]).stdout.trim().to_owned();
    fleet.machine.giga(&["submit", "well.md"]);
    let stage = || fleet.json(&["job", &id])[0]["job"]["stage"].clone();
    fleet.until("the question", || stage() == "blocked");

    terminal.shell("stty -a > before; \"$GIGA\" dash; echo left $?");
    terminal.until("● live");
    terminal.text("2");
    terminal.until("asks: Which brick?");
    terminal.until("Dig the well");
    terminal.text("/raise");
    terminal.keys(&["Enter"]);
    terminal.until_gone("Dig the well");
    terminal.keys(&["Enter"]);
    terminal.until("question: Which brick?");
    terminal.keys(&["Escape"]);
    terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    terminal.until("│");
    terminal.text("1");
    terminal.until("Which brick?");
    terminal.text("aa");
    terminal.until("resumes with your answer");
    terminal.text("red ones");
    terminal.keys(&["Enter"]);
    fleet.until("the answer", || stage() == "testing");
    terminal.until("ready to ship");
    terminal.text("q");
    terminal.assert_restored(&fleet, "left 0");

    drop(terminal);
    fleet.end(Signal::TERM);
}

// [U2]
#[test]
fn signals_and_ctrl_z_leave_the_terminal_as_it_was() {
    let fleet = Fleet::serve();
    let Some(terminal) = Terminal::open(&fleet, 80, 24) else { return };
    terminal.shell("stty -a > before");
    fleet.until("the modes of the terminal", || fleet.machine.path().join("before").exists());

    for signal in ["TERM", "INT", "HUP"] {
        terminal.shell("clear; sh -c 'echo $$ > pid; exec \"$GIGA\" dash'; echo \"left after\" a signal");
        terminal.until("No jobs yet");
        terminal.tmux(&["run-shell", &format!("kill -{signal} $(cat {}/pid)", fleet.machine.path().display())]);
        terminal.assert_restored(&fleet, "left after a signal");
    }

    terminal.shell("clear; set -m; \"$GIGA\" dash");
    terminal.until("No jobs yet");
    terminal.keys(&["C-z"]);
    terminal.assert_restored(&fleet, "shell>");
    terminal.shell("fg");
    terminal.until("No jobs yet");
    terminal.text("q");
    terminal.assert_restored(&fleet, "shell>");
}

// [U2]
#[test]
fn an_outage_does_not_look_like_an_idle_fleet() {
    let mut fleet = Fleet::serve();
    let Some(terminal) = Terminal::open(&fleet, 80, 24) else { return };
    terminal.shell("\"$GIGA\" dash");
    terminal.until("No jobs yet");

    let mut coordinator = fleet.running.take().unwrap();
    coordinator.kill().unwrap();
    coordinator.wait().unwrap();
    terminal.until("✕ down");
    terminal.until("down, data as of");
    terminal.until("but that may have changed");
    assert!(!terminal.screen().contains("No jobs yet"), "{}", terminal.screen());

    std::fs::remove_file(fleet.machine.path().join("data/endpoint")).ok();
    fleet.start_serving();
    terminal.until("● live");
    terminal.until("No jobs yet");
    terminal.text("q");
}

#[test]
fn the_dashboard_needs_a_terminal() {
    let fleet = Fleet::new();

    let ran = fleet.machine.giga(&["dash"]);

    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("`giga dash` needs a terminal"), "{}", ran.stderr);
}

// [§12] [F8]
#[test]
fn a_folder_queue_is_shown_by_its_files() {
    let fleet = Fleet::new();
    let Some(terminal) = Terminal::open(&fleet, 80, 24) else { return };
    for folder in ["inbox", "building", "review", "testing", "shipped", "failed"] {
        std::fs::create_dir_all(fleet.machine.path().join("queue").join(folder)).unwrap();
    }
    fleet.machine.write("queue/inbox/dig.md", "Dig.\n");

    terminal.shell("\"$GIGA\" dash queue");
    terminal.until("dig.md");
    terminal.until("no coordinator is running");
    terminal.text("q");
    terminal.until_gone("dig.md");

    terminal.shell("clear; AQ_FLEET_DASH=0 \"$GIGA\" dash");
    terminal.until("is not a folder queue");
    terminal.shell("clear; cd queue && AQ_FLEET_DASH=0 \"$GIGA\" dash");
    terminal.until("dig.md");
    terminal.text("q");
}
