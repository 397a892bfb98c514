//! Factories on demand: started for work, and gone without it [F9].

use std::collections::BTreeSet;
use std::process::Child;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::fleet::Fleet;
use crate::processes;

const JOBS: usize = 20;

const SCALER_LOG: &str = "scaler.log";

/// How long a drained scaler has to end.
const FAREWELL: Duration = Duration::from_secs(30);

/// A second long-lived command beside the coordinator.
struct Scaler {
    child: Option<Child>,
}

impl Scaler {
    fn start(fleet: &Fleet, args: &[&str]) -> Self {
        Self { child: Some(fleet.machine.start_into(SCALER_LOG, &[&["scaler"], args].concat(), &[])) }
    }

    fn end(mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        processes::send(Signal::TERM, &child);
        let has_ended = processes::becomes_so(FAREWELL, || child.try_wait().unwrap().is_some());
        if !has_ended {
            let _ = child.kill();
        }
        child.wait().unwrap().code()
    }
}

impl Drop for Scaler {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An engine that takes a moment, and a factory of two seats.
fn slow_fleet(seconds: &str) -> Fleet {
    let fleet = Fleet::new();
    let engine = format!("cat > prompt-$GIGA_JOB_ID\nsleep {seconds}\necho done > out-$GIGA_JOB_ID\n");
    fleet.machine.write("engine.sh", &engine);
    let config = fleet.machine.read("giga.toml").replace("name = 'here'\n", "seats = 2\n");
    fleet.machine.write("giga.toml", &config);
    fleet
}

fn declare(fleet: &Fleet, more: &[&str]) {
    let own = ["pool", "set", "linux", "--max", "3", "--engines", "script", "--repos", "work", "--idle-after", "2s"];
    fleet.json(&[own.as_slice(), more].concat());
}

fn scale(fleet: &Fleet) -> Value {
    let pool = fleet.json(&["pool", "list"]).remove(0);
    pool["items"][0]["scale"].clone()
}

fn members(fleet: &Fleet) -> usize {
    fleet.json(&["factory", "list"])[0]["items"].as_array().unwrap().len()
}

fn submit(fleet: &Fleet, count: usize) -> Vec<String> {
    let ids = (0..count).map(|number| {
        let submitted = fleet.json(&["submit", "job.md", "--key", &format!("job-{number}")]).remove(0);
        let job = if submitted["job"].is_object() { &submitted["job"] } else { &submitted };
        job["id"].as_str().unwrap().to_owned()
    });
    ids.collect()
}

fn is_done(fleet: &Fleet, jobs: &[String]) -> bool {
    let listed = fleet.json(&["jobs", "--limit", "100"]);
    let stages: Vec<&Value> = listed.iter().flat_map(|page| page["items"].as_array().unwrap()).collect();
    let done = |id: &&String| stages.iter().any(|job| job["id"] == ***id && job["stage"] == "testing");
    jobs.iter().all(|id| done(&id))
}

// [F9] [I1] [I3]
#[test]
fn twenty_jobs_start_three_factories_and_leave_none() {
    let mut fleet = slow_fleet("1");
    fleet.start_serving();
    declare(&fleet, &["--seats", "2"]);
    let scaler = Scaler::start(&fleet, &["--process"]);
    assert_eq!((scale(&fleet)["wanted"].as_u64(), members(&fleet)), (Some(0), 0), "idle is zero");

    let jobs = submit(&fleet, JOBS);
    let (mut most, mut names) = (0, BTreeSet::new());
    fleet.until("all jobs", || {
        let now = scale(&fleet);
        most = most.max(now["live"].as_u64().unwrap());
        names.extend(now["members"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()));
        is_done(&fleet, &jobs)
    });

    assert_eq!(most, 3, "the maximum of the pool\n{}", fleet.machine.read(SCALER_LOG));
    assert!(names.iter().all(|name| name.starts_with("linux-")), "{names:?}");
    fleet.until("no factory", || members(&fleet) == 0);
    assert_eq!(scale(&fleet)["wanted"], 0);
    for job in &jobs {
        let runs = fleet.json(&["runs", job]);
        let runs: Vec<&Value> = runs.iter().flat_map(|page| page["items"].as_array().into_iter().flatten()).collect();
        assert_eq!(runs.len(), 1, "nothing runs twice, and no run is killed: {runs:?}");
    }
    assert!(fleet.json(&["alerts"])[0]["items"].as_array().unwrap().is_empty());
    let tokens = fleet.json(&["token", "list"]).remove(0);
    assert_eq!(tokens["items"].as_array().unwrap().len(), 1, "the tokens of the factories are gone: {tokens}");
    assert_eq!(scaler.end(), Some(0));
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [F9] [I4]
#[test]
fn a_stopped_scaler_lets_its_factories_finish_their_jobs() {
    let mut fleet = slow_fleet("5");
    fleet.start_serving();
    declare(&fleet, &["--seats", "2"]);
    let scaler = Scaler::start(&fleet, &["--process", "--pool", "linux"]);
    let jobs = submit(&fleet, 1);
    fleet.until("a run", || fleet.json(&["job", &jobs[0]])[0]["job"]["stage"] == "building");

    assert_eq!(scaler.end(), Some(0), "{}", fleet.machine.read(SCALER_LOG));

    assert!(is_done(&fleet, &jobs), "it ended with its scaler: {:?}", fleet.json(&["job", &jobs[0]]));
    fleet.until("no factory", || members(&fleet) == 0);
}

// [F9]
#[test]
fn a_command_is_called_for_each_missing_factory() {
    let mut fleet = Fleet::new();
    fleet.start_serving();
    declare(&fleet, &[]);
    submit(&fleet, 2);
    let command = "echo $GIGA_POOL ${GIGA_FACTORY%-*} ${GIGA_JOIN%%_*} >> started; test -z \"$GIGA_TOKEN\"";
    let scaler = Scaler::start(&fleet, &["--command", command]);

    fleet.until("two calls", || {
        std::fs::read_to_string(fleet.machine.path().join("started")).is_ok_and(|text| text.lines().count() >= 2)
    });
    // A machine that has not joined yet is not started again.
    std::thread::sleep(Duration::from_secs(2));

    assert_eq!(fleet.machine.read("started"), "linux linux giga\n".repeat(2));
    assert_eq!(scaler.end(), Some(0));
}

// [F9]
#[test]
fn a_local_fleet_starts_its_factories_on_demand() {
    let mut fleet = slow_fleet("0");
    fleet.start(&["up", "--pool", "2"], &[]);
    fleet.until("a coordinator", || fleet.machine.path().join("data/endpoint").exists());
    fleet.until("the pool", || scale(&fleet)["max"] == 2);
    assert_eq!(members(&fleet), 0);

    let jobs = submit(&fleet, 1);
    fleet.until("the job", || is_done(&fleet, &jobs));

    assert_eq!(members(&fleet), 1);
    let pool = fleet.json(&["pool", "show", "local"]).remove(0);
    assert_eq!((&pool["engines"], &pool["repos"]), (&serde_json::json!(["script"]), &serde_json::json!(["work"])));
    assert_eq!(fleet.end(Signal::INT), Some(0));
}
