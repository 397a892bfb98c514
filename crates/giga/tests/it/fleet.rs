//! A real fleet, run and used through its command line alone.

use std::process::Child;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::giga::Machine;
use crate::{processes, repository};

/// How long anything may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a fleet has to end.
const FAREWELL: Duration = Duration::from_secs(30);

const LOG: &str = "long-lived.log";

/// A machine with one long-lived command at most.
pub(crate) struct Fleet {
    pub(crate) machine: Machine,
    pub(crate) running: Option<Child>,
}

impl Fleet {
    /// An engine, a repository and a configuration. Nothing runs yet.
    pub(crate) fn new() -> Self {
        let machine = Machine::new();
        let repo = repository::make(machine.path(), "work");
        let engine = "echo at work\ncat > prompt-$GIGA_JOB_ID\necho done > out-$GIGA_JOB_ID\n";
        machine.write("engine.sh", engine);
        let config = format!(
            "data = '{data}'\n\
             [coordinator]\nlisten = '127.0.0.1:0'\nrenew_every = '1s'\ndisk_free_min_mib = 0\n\
             [factory]\nname = 'here'\npoll_every = '1s'\ndisk_floor_mib = 0\n\
             [factory.repos.work]\nurl = '{repo}'\n\
             [factory.engines.script]\nargv = ['sh', '{engine}']\n",
            data = machine.path().join("data").display(),
            repo = repo.display(),
            engine = machine.path().join("engine.sh").display(),
        );
        machine.write("giga.toml", &config);
        machine.write("job.md", "---\ntitle: Some work\nrepo: work\n---\nDo it.\n");
        Self { machine, running: None }
    }

    /// `giga up` with a factory that listens.
    pub(crate) fn up() -> Self {
        let mut fleet = Self::new();
        fleet.start_up();
        fleet
    }

    /// `giga serve` that answers.
    pub(crate) fn serve() -> Self {
        let mut fleet = Self::new();
        fleet.start_serving();
        fleet
    }

    pub(crate) fn start_up(&mut self) {
        self.start(&["up"], &[]);
        self.until_connected();
    }

    pub(crate) fn until_connected(&self) {
        self.until("a connected factory", || {
            let fleet = self.machine.giga(&["factory", "list", "--json"]);
            serde_json::from_str::<Value>(&fleet.stdout).is_ok_and(|fleet| fleet["items"][0]["connected"] == true)
        });
    }

    pub(crate) fn start_serving(&mut self) {
        self.start(&["serve"], &[]);
        self.until("a coordinator", || self.machine.path().join("data/endpoint").exists());
    }

    /// `giga serve` on this store.
    pub(crate) fn start_serving_on(&mut self, store: &str) {
        self.start(&["serve"], &[("GIGA_STORE", store)]);
        self.until("a coordinator", || self.machine.path().join("data/endpoint").exists());
    }

    pub(crate) fn start(&mut self, args: &[&str], variables: &[(&str, &str)]) {
        self.running = Some(self.machine.start_into(LOG, args, variables));
    }

    pub(crate) fn until(&self, what: &str, is_so: impl FnMut() -> bool) {
        assert!(processes::becomes_so(PATIENCE, is_so), "waited too long for {what}\n{}", self.machine.read(LOG));
    }

    /// What a command that works prints as JSON, document by document.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        let ran = self.machine.giga(&[args, &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{args:?}: {}\n{}", ran.stderr, self.machine.read(LOG));
        let documents = serde_json::Deserializer::from_str(&ran.stdout).into_iter();
        documents.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{args:?}: {error}: {}", ran.stdout))
    }

    /// Ends the long-lived command by a signal; its exit code, once nothing of it is left.
    pub(crate) fn end(&mut self, signal: Signal) -> Option<i32> {
        let mut child = self.running.take().unwrap();
        processes::send(signal, &child);
        let has_ended = processes::becomes_so(FAREWELL, || child.try_wait().unwrap().is_some());
        if !has_ended {
            let _ = child.kill();
        }
        let code = child.wait().unwrap().code();
        assert!(has_ended, "it did not end\n{}", self.machine.read(LOG));
        // Guards of what was being asked for its version notice that they are alone, and go.
        let is_gone = processes::becomes_so(FAREWELL, || processes::naming(self.machine.path()).is_empty());
        assert!(is_gone, "left behind: {:?}", processes::naming(self.machine.path()));
        code
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

// [U3]
#[test]
fn a_job_goes_from_its_manifest_to_the_main_branch() {
    let mut fleet = Fleet::up();

    let submitted = fleet.json(&["submit", "job.md", "--wait"]);
    let id = submitted[0]["job"]["id"].as_str().unwrap();
    let jobs = fleet.json(&["jobs"]);
    let job = fleet.json(&["job", id]);
    let lines = fleet.json(&["logs", id]);
    let explained = fleet.json(&["explain", id]);
    let before = repository::files(&fleet.machine.path().join("work.git"));
    let shipped = fleet.json(&["ship", id, "--wait"]);
    let after = repository::files(&fleet.machine.path().join("work.git"));
    let code = fleet.end(Signal::TERM);

    assert_eq!(submitted[1]["stage"], "testing", "{submitted:?}");
    assert_eq!(jobs[0]["items"][0]["id"], id);
    assert_eq!(job[0]["runs"][0]["outcome"], "completed", "{job:?}");
    assert!(lines.iter().any(|line| line["line"] == "at work"), "{lines:?}");
    assert_eq!(explained[0]["job"]["id"], id);
    assert_eq!(shipped.last().unwrap()["stage"], "shipped");
    assert_eq!(before, ["README.md"]);
    assert_eq!(after, ["README.md".to_owned(), format!("out-{id}"), format!("prompt-{id}")]);
    assert_eq!(code, Some(0), "{}", fleet.machine.read(LOG));
}

// [D3] [attack: secrets in logs, events, artifacts]
#[test]
fn a_fleet_on_postgresql_does_its_work_and_finds_it_again_after_a_restart() {
    let Some(server) = pgserver::for_test(pgserver::Flushes::Real).unwrap() else { return };
    // The server asks for no password; what is shown of one that is given matters all the same.
    let url = server.url().replace("postgres@", "postgres:s3cret@");
    let store = [("GIGA_STORE", url.as_str())];
    let mut fleet = Fleet::new();
    fleet.start(&["up"], &store);
    fleet.until_connected();

    let submitted = fleet.json(&["submit", "job.md", "--wait"]);
    let id = submitted[0]["job"]["id"].as_str().unwrap();
    let shipped = fleet.json(&["ship", id, "--wait"]);
    let doctor = fleet.machine.giga_with(&["doctor"], &store, "");
    let first = fleet.end(Signal::TERM);
    fleet.start(&["serve"], &store);
    fleet.until("a coordinator", || fleet.machine.path().join("data/endpoint").exists());
    let found = fleet.json(&["job", id]);
    let second = fleet.end(Signal::TERM);

    assert_eq!(shipped.last().unwrap()["stage"], "shipped");
    assert_eq!((&found[0]["job"]["stage"], first, second), (&"shipped".into(), Some(0), Some(0)), "{found:?}");
    let files = repository::files(&fleet.machine.path().join("work.git"));
    assert!(files.contains(&format!("out-{id}")), "{files:?}");
    assert!(!fleet.machine.path().join("data/fleet.db").exists());
    let shown = format!("postgres://postgres:…@127.0.0.1:{}/postgres", server.port());
    assert!(doctor.stdout.contains(&format!("{shown} is PostgreSQL")), "{}", doctor.stdout);
    assert!(!(doctor.stdout + &fleet.machine.read(LOG)).contains("s3cret"));
}

// [U3]
#[test]
fn waiting_for_rest_sees_the_merge_of_a_product_that_ships_by_itself() {
    let mut fleet = Fleet::up();
    fleet.json(&["product", "set", "default", "--auto-ship"]);

    let submitted = fleet.json(&["submit", "job.md", "--wait"]);

    assert_eq!(submitted[1]["stage"], "shipped", "{submitted:?}");
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [U3]
#[test]
fn a_job_that_nobody_can_run_is_named_and_can_be_stopped_and_sent_again() {
    let mut fleet = Fleet::up();
    fleet.machine.write("odd.md", "---\ntitle: Odd\ncapabilities: [gpu:none]\n---\nDo it.\n");

    let submitted = fleet.json(&["submit", "odd.md"]);
    let id = submitted[0]["job"]["id"].as_str().unwrap();
    fleet.until("an alert", || {
        let alerts = fleet.json(&["alerts"]);
        let items = alerts[0]["items"].as_array().unwrap();
        items.iter().any(|alert| alert["code"] == "unplaceable" && alert["jobId"] == id)
    });
    let cancelled = fleet.json(&["cancel", id, "-m", "no factory has one"]);
    let alerts = fleet.json(&["alerts"]);
    let requeued = fleet.json(&["requeue", id]);

    assert_eq!((&cancelled[0]["stage"], &cancelled[0]["reason"]), (&"failed".into(), &"cancelled".into()));
    assert_eq!(alerts[0]["items"], Value::Array(Vec::new()));
    assert_eq!(requeued[0]["stage"], "queued");
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

#[test]
fn a_fleet_that_starts_again_leaves_no_join_token_behind() {
    let mut fleet = Fleet::up();
    fleet.end(Signal::TERM);
    let first = std::fs::read(fleet.machine.path().join("data/factories/here/factory.token")).unwrap();

    fleet.start_up();
    let tokens = fleet.json(&["token", "list"]);

    let mut roles: Vec<&str> =
        tokens[0]["items"].as_array().unwrap().iter().map(|token| token["grant"]["role"].as_str().unwrap()).collect();
    roles.sort_unstable();
    assert_eq!(roles, ["admin", "factory"]);
    assert_eq!(std::fs::read(fleet.machine.path().join("data/factories/here/factory.token")).unwrap(), first);
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [U3]
#[test]
fn an_admin_token_that_is_gone_or_worthless_is_made_again() {
    let mut fleet = Fleet::serve();
    let kept = fleet.machine.path().join("data/admin.token");
    let first = std::fs::read(&kept).unwrap();
    let restart = |fleet: &mut Fleet| {
        fleet.end(Signal::TERM);
        fleet.start_serving();
        fleet.json(&["jobs"]);
        std::fs::read(&kept).unwrap()
    };

    let unharmed = restart(&mut fleet);
    std::fs::remove_file(&kept).unwrap();
    let after_loss = restart(&mut fleet);
    std::fs::write(&kept, "giga_adm_worthless").unwrap();
    let after_damage = restart(&mut fleet);

    assert_eq!(unharmed, first);
    assert_ne!(after_loss, first);
    assert_ne!(after_damage, b"giga_adm_worthless");
    fleet.end(Signal::TERM);
}

// [row 12]
#[test]
fn a_second_coordinator_on_the_same_folder_is_refused() {
    let mut fleet = Fleet::serve();

    let second = fleet.machine.giga(&["serve"]);
    fleet.json(&["jobs"]);

    let holder = fleet.running.as_ref().unwrap().id();
    assert_eq!((second.code, second.stdout.as_str()), (Some(1), ""), "{}", second.stderr);
    assert!(second.stderr.contains(&format!("is in use by process {holder}")), "{}", second.stderr);
    fleet.end(Signal::TERM);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let fleet = Fleet::new();
    std::fs::create_dir(fleet.machine.path().join("data")).unwrap();
    let garbage = "not a database, but a text file\n".repeat(1_000);
    fleet.machine.write("data/fleet.db", &garbage);

    let ran = fleet.machine.giga(&["serve"]);

    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("is not a SQLite database"), "{}", ran.stderr);
    assert_eq!(fleet.machine.read("data/fleet.db"), garbage);
}

// [U3] [J4] [T2] [T5] [S5]
#[test]
fn the_demo_ships_all_of_its_jobs_and_leaves_nothing_behind() {
    let mut fleet = Fleet::new();
    let scratch = fleet.machine.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();

    fleet.start(&["up", "--demo"], &[("TMPDIR", scratch.to_str().unwrap())]);
    fleet.until("the end of the demo", || fleet.machine.read(LOG).contains("All jobs have finished"));
    let told = fleet.machine.read(LOG);
    let hints: String =
        told.lines().skip_while(|line| !line.starts_with("  demo()")).map(|line| format!("{line}\n")).collect();
    let pasted = std::process::Command::new("sh").args(["-ec", &hints]).output().unwrap();
    let code = fleet.end(Signal::INT);

    let told = fleet.machine.read(LOG);
    let outcomes: Vec<&str> =
        told.lines().filter(|line| line.starts_with("  ") && line.ends_with("  shipped")).collect();
    assert_eq!(outcomes.len(), 12, "{told}");
    assert!(told.starts_with("This demo takes"), "{told}");
    assert!(
        told.contains("\n  12 of 12 jobs shipped, 0 lost, 0 executed twice\n  1 factory killed with kill -9, "),
        "{told}"
    );
    for part in [
        "Build the house               shipped    3 child jobs shipped\n",
        "changes requested by grace: Please paint it red.\n",
        "approved by grace (1 of 1)\n",
        "waiting for money: product `garden` has spent $0.30 of $0.50 per month",
        " asked to save the work and to release the seat for critical job ",
        ", 1 preemption, ",
        ", 2 votes of a reviewer, $",
    ] {
        assert!(told.contains(part), "{part}{told}");
    }
    let resumed =
        told.lines().find_map(|line| line.split_once(" resumed from a checkpoint")?.0.rsplit_once(", ")).unwrap().1;
    assert_ne!(resumed, "0 steps", "{told}");
    assert!(!told.contains(" 0 takeovers"), "{told}");
    assert!(pasted.status.success() && hints.contains("own.md"), "{}{hints}", String::from_utf8_lossy(&pasted.stderr));
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "{:?}", std::fs::read_dir(&scratch).unwrap().next());
    assert_eq!(code, Some(0), "{told}");
}

// [I13] [U3]
#[test]
fn a_running_fleet_is_switched_from_the_command_line_and_works_on() {
    let mut fleet = Fleet::up();

    let before = fleet.json(&["mode"]);
    let polled = fleet.json(&["mode", "poll"]);
    let own = fleet.json(&["mode", "gate", "--product", "default"]);
    let waiting = fleet.json(&["submit", "job.md", "--wait"]);
    let followed = fleet.json(&["mode", "--follow", "--product", "default"]);
    let shown = fleet.machine.giga(&["mode"]);
    let selected = fleet.json(&["mode", "self-select"]);
    let announced = fleet.json(&["submit", "job.md", "--wait"]);
    let compared = fleet.json(&["mode", "shadow"]);
    let report = fleet.machine.giga(&["divergence"]);
    let unknown = fleet.machine.giga(&["mode", "pull"]);
    fleet.end(Signal::TERM);

    assert_eq!(before, [json!({ "mode": "push", "preemption": false })]);
    assert_eq!(polled, [json!({ "mode": "poll", "preemption": false })]);
    assert_eq!(own, [json!({ "mode": "poll", "products": { "default": "gate" }, "preemption": false })]);
    assert_eq!(waiting[1]["stage"], "testing", "{waiting:?}");
    assert_eq!(followed, polled);
    assert_eq!(shown.stdout, "PRODUCT  MODE\n(all)    poll\npreemption: off\n");
    assert_eq!(selected, [json!({ "mode": "self-select", "preemption": false })]);
    assert_eq!(announced[1]["stage"], "testing", "{announced:?}");
    assert_eq!(compared, [json!({ "mode": "shadow", "preemption": false })]);
    assert!(report.stdout.contains("not yet: decisions in 0 of 24 hours; 0 of 1000 decisions"), "{}", report.stdout);
    assert!(unknown.stderr.contains("`shadow` or `self-select`"), "{}", unknown.stderr);
}
