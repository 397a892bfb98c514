//! A folder queue with an engine and a repository, and the actions of a user.

use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use rustix::process::Signal;

use crate::giga::{Machine, Ran};
use crate::{processes, repository};

/// An ordinary job.
pub(super) const JOB: &str = "---\ntitle: Some work\nrepo: work\n---\nDo it.\n";

/// How long anything may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(120);

const LOG: &str = "local.log";

/// The folders in the order of a job's stages.
pub(super) const FOLDERS: [&str; 6] = ["inbox", "building", "review", "testing", "shipped", "failed"];

/// A folder queue.
pub(super) struct Folder {
    machine: Machine,
    running: Option<Child>,
}

impl Folder {
    /// A queue whose own giga.toml names an engine and a repository.
    pub(super) fn new() -> Self {
        let folder = Self::bare();
        let repo = folder.path("work.git");
        folder.configure(&format!("[factory.repos.work]\nurl = '{}'\n", repo.display()));
        folder
    }

    /// A queue whose own giga.toml names an engine alone. The repository is beside the queue.
    pub(super) fn bare() -> Self {
        let machine = Machine::new();
        repository::make(machine.path(), "work");
        let folder = Self { machine, running: None };
        // It writes down what it was asked before it does anything, outside of its worktree.
        let engine = format!(
            "cat > prompt-$GIGA_JOB_ID\n\
             echo \"$GIGA_JOB_ID:$GIGA_EPOCH\" >> '{runs}'\n\
             head -n 1 prompt-$GIGA_JOB_ID >> '{prompts}'\n\
             if grep -q '^fail' prompt-$GIGA_JOB_ID; then echo no; exit 1; fi\n\
             while grep -q '^wait' prompt-$GIGA_JOB_ID && [ ! -f '{signal}' ]; do sleep 0.05; done\n\
             if grep -q '^slow' prompt-$GIGA_JOB_ID; then sleep 0.3; fi\n\
             echo done > out-$GIGA_JOB_ID\n",
            runs = folder.path("runs").display(),
            prompts = folder.path("prompts").display(),
            signal = folder.path("signal").display(),
        );
        folder.machine.write("engine.sh", &engine);
        // The queue's data lies beside them: an engine finds what is there, and could make nothing new.
        for name in ["runs", "prompts"] {
            folder.machine.write(name, "");
        }
        for name in FOLDERS {
            std::fs::create_dir_all(folder.path("queue").join(name)).unwrap();
        }
        folder.configure("");
        folder
    }

    fn configure(&self, more: &str) {
        let engine = self.path("engine.sh");
        let text = format!(
            "[coordinator]\nrenew_every = '1s'\naccept_within = '2s'\nerrand_within = '4s'\ndisk_free_min_mib = 0\n\
             [coordinator.retry]\nattempts_max = 1\nbackoff = '100ms'\nlost_leases_max = 1000\nunaccepted_max = 1000\n\
             [factory]\nname = 'here'\ncheckpoint_every = '300ms'\ndisk_floor_mib = 0\n\
             [factory.limits]\ngrace_ms = 300\n\
             [factory.engines.script]\nargv = ['sh', '{}']\n{more}",
            engine.display()
        );
        std::fs::write(self.path("queue/giga.toml"), text).unwrap();
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.machine.path().join(name)
    }

    fn in_queue(&self, name: &str) -> PathBuf {
        self.path("queue").join(name)
    }

    /// Puts a whole file into the inbox, as a person who wrote it elsewhere does.
    pub(super) fn drop_in(&self, name: &str, text: &str) {
        let draft = self.path("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, self.in_queue("inbox").join(name)).unwrap();
    }

    pub(super) fn write(&self, place: &str, text: &str) {
        std::fs::write(self.in_queue(place), text).unwrap();
    }

    pub(super) fn read(&self, place: &str) -> String {
        std::fs::read_to_string(self.in_queue(place)).unwrap_or_else(|error| panic!("{place}: {error}\n{}", self.log()))
    }

    pub(super) fn exists(&self, place: &str) -> bool {
        self.in_queue(place).exists()
    }

    pub(super) fn shift(&self, from: &str, to: &str) {
        std::fs::rename(self.in_queue(from), self.in_queue(to)).unwrap();
    }

    pub(super) fn remove(&self, place: &str) {
        std::fs::remove_file(self.in_queue(place)).unwrap();
    }

    pub(super) fn give_the_signal(&self) {
        std::fs::write(self.path("signal"), "go").unwrap();
    }

    /// Runs the queue until everything in it has ended.
    pub(super) fn once(&self, args: &[&str]) -> Ran {
        self.once_with(args, &[])
    }

    pub(super) fn once_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Ran {
        self.machine.giga_with(&[&["local", "queue", "--once"], args].concat(), variables, "")
    }

    /// A command to the queue's coordinator.
    pub(super) fn giga(&self, args: &[&str]) -> Ran {
        self.machine.giga(&[args, &["--data", "queue/.giga"]].concat())
    }

    pub(super) fn start(&mut self) {
        let starts = |folder: &Self| folder.log().matches("drop jobs into").count();
        let before = starts(self);
        self.start_with(&[]);
        self.until("a keeper", |folder| starts(folder) > before);
    }

    /// Starts a keeper and does not wait for it.
    pub(super) fn start_with(&mut self, args: &[&str]) {
        self.running = Some(self.machine.start_into(LOG, &[&["local", "queue"], args].concat(), &[]));
    }

    /// Starts a keeper that kills itself at a step.
    #[cfg(feature = "failpoints")]
    pub(super) fn start_to_die_at(&mut self, step: &str) {
        self.running = Some(self.machine.start_into(LOG, &["local", "queue"], &[("GIGA_KILL_AT", step)]));
    }

    /// Waits until the keeper has ended by itself.
    #[cfg(feature = "failpoints")]
    pub(super) fn until_dead(&mut self) {
        let mut child = self.running.take().unwrap();
        let is_dead = processes::becomes_so(PATIENCE, || child.try_wait().unwrap().is_some());
        let _ = child.kill();
        let _ = child.wait();
        assert!(is_dead, "it did not die at its step\n{}", self.log());
    }

    /// Waits until the keeper has ended by itself; its exit code.
    pub(super) fn until_over(&mut self) -> Option<i32> {
        let mut child = self.running.take().unwrap();
        let has_ended = processes::becomes_so(PATIENCE, || child.try_wait().unwrap().is_some());
        let _ = child.kill();
        let code = child.wait().unwrap().code();
        assert!(has_ended, "it did not end\n{}", self.log());
        code
    }

    /// Ends the keeper by a signal; its exit code, once nothing of it is left.
    pub(super) fn end(&mut self, signal: Signal) -> Option<i32> {
        let mut child = self.running.take().unwrap();
        processes::send(signal, &child);
        let has_ended = processes::becomes_so(PATIENCE, || child.try_wait().unwrap().is_some());
        let code = child.wait().unwrap().code();
        assert!(has_ended, "it did not end\n{}", self.log());
        code
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.path(LOG)).unwrap_or_default()
    }

    pub(super) fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let became_so = processes::becomes_so(PATIENCE, || is_so(self));
        assert!(became_so, "waited too long for {what}; {:?}\n{}", self.places(), self.log());
    }

    pub(super) fn until_in(&self, folder: &str, name: &str) {
        self.until(&format!("{name} in {folder}/"), |queue| queue.place_of(name) == [folder]);
    }

    /// The jobs' files with their folders, without reports and temporary files.
    pub(super) fn places(&self) -> Vec<(&'static str, String)> {
        let of = |folder: &'static str| self.names(folder).into_iter().map(move |name| (folder, name));
        FOLDERS.into_iter().flat_map(of).collect()
    }

    /// The folders that a name is in.
    pub(super) fn place_of(&self, name: &str) -> Vec<&'static str> {
        self.places().into_iter().filter(|(_, found)| found == name).map(|(folder, _)| folder).collect()
    }

    /// The files in a folder, without reports.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.in_queue(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let is_job = |name: &String| !name.ends_with(".result.md") && !name.ends_with(".error.md");
        let mut names: Vec<String> = names.filter(|name| is_job(name) && name != ".giga.unfinished").collect();
        names.sort();
        names
    }

    /// The first line of what the engine was asked, in order.
    pub(super) fn prompts(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("prompts")).unwrap_or_default();
        text.split_inclusive('\n').map(str::to_owned).collect()
    }

    /// How often the engine ran.
    pub(super) fn runs(&self) -> usize {
        std::fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }

    /// How many jobs the store knows. Asked while a keeper runs.
    pub(super) fn jobs(&self) -> Vec<serde_json::Value> {
        let ran = self.giga(&["jobs", "--all", "--json"]);
        assert_eq!(ran.code, Some(0), "{}\n{}", ran.stderr, self.log());
        let list: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// How many merges there are on `main`.
    pub(super) fn merged(&self) -> usize {
        repository::merged_jobs(&self.path("work.git")).len()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
