//! Two coordinators on one PostgreSQL database: one leads, the other forwards, and takes over when it is gone.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::time::Duration;

use clock::SystemClock;
use domain::Clock;
use rustix::process::Signal;
use serde_json::Value;

use crate::giga::Machine;
use crate::{processes, repository};

const PATIENCE: Duration = Duration::from_secs(90);

/// How long a takeover may take.
const TAKEOVER_MAX: Duration = Duration::from_secs(5);

const JOBS: usize = 6;

/// Two coordinators, a factory that knows both, and a database.
struct Pair {
    machine: Machine,
    server: pgserver::Server,
    ports: [u16; 2],
    coordinators: [Option<Child>; 2],
    factory: Option<Child>,
    clock: SystemClock,
}

impl Pair {
    /// Coordinator 0 leads, coordinator 1 follows, and a factory is connected. `None` without PostgreSQL.
    fn start() -> Option<Self> {
        let server = pgserver::for_test(pgserver::Flushes::Real).unwrap()?;
        let machine = Machine::new();
        let repo = repository::make(machine.path(), "work");
        let path = |name: &str| machine.path().join(name).display().to_string();
        machine.write("journal", "");
        let engine = format!(
            "echo $GIGA_JOB_ID >> '{}'\necho the run begins\nsleep 1\necho done > out-$GIGA_JOB_ID\necho the run ends\n",
            path("journal")
        );
        machine.write("engine.sh", &engine);
        let config = format!(
            "[coordinator]\nrenew_every = '1s'\nlease_ttl = '15s'\ndisk_free_min_mib = 0\n\
             [artifacts]\nstore = '{artifacts}'\nlogs = true\n\
             [factory]\nname = 'here'\nseats = 2\ndisk_floor_mib = 0\nstate = '{state}'\n\
             [factory.repos.work]\nurl = '{repo}'\n\
             [factory.engines.script]\nargv = ['sh', '{engine}']\n",
            artifacts = path("artifacts"),
            state = path("factory"),
            repo = repo.display(),
            engine = path("engine.sh"),
        );
        machine.write("giga.toml", &config);
        machine.write("job.md", "---\ntitle: Some work\nrepo: work\n---\nDo it.\n");
        let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (coordinators, ports) = ([None, None], [port(), port()]);
        let mut pair = Self { machine, server, ports, coordinators, factory: None, clock: SystemClock::new() };
        pair.start_coordinator(0);
        pair.until("the first leader", |pair| pair.role(0).as_deref() == Some("leader"));
        pair.start_coordinator(1);
        pair.until("a follower", |pair| pair.get(1, "/readyz").0 == 200);
        pair.join_factory();
        Some(pair)
    }

    fn start_coordinator(&mut self, n: usize) {
        let address = format!("http://127.0.0.1:{}", self.ports[n]);
        let (data, listen) = (format!("data{n}"), format!("127.0.0.1:{}", self.ports[n]));
        let args = ["serve", "--data", &data, "--listen", &listen, "--advertise", &address];
        let url = self.server.url();
        self.coordinators[n] = Some(self.machine.start_into(&format!("serve{n}.log"), &args, &[("GIGA_STORE", &url)]));
    }

    fn join_factory(&mut self) {
        let made = self.giga(&["token", "create", "--join", "--factory", "here", "--json"]);
        let made: Value = serde_json::from_str(&made).unwrap();
        let command = made["command"].as_str().unwrap();
        let join = command.split(' ').skip_while(|word| *word != "--join").nth(1).unwrap().to_owned();
        let api = self.api();
        let args = ["factory", "run", "--join", &join];
        self.factory = Some(self.machine.start_into("factory.log", &args, &[("GIGA_API", &api)]));
        self.until("a connected factory", |pair| {
            let listed: Value = serde_json::from_str(&pair.giga(&["factory", "list", "--json"])).unwrap();
            listed["items"][0]["connected"] == true
        });
    }

    /// Both addresses. The first is that of the follower.
    fn api(&self) -> String {
        format!("http://127.0.0.1:{},http://127.0.0.1:{}", self.ports[1], self.ports[0])
    }

    /// What a command that works prints.
    fn giga(&self, args: &[&str]) -> String {
        let (api, token) = (self.api(), self.machine.read("data0/admin.token"));
        let ran = self.machine.giga_with(args, &[("GIGA_API", &api), ("GIGA_TOKEN", token.trim())], "");
        assert_eq!(ran.code, Some(0), "{args:?}: {}\n{}", ran.stderr, self.logs());
        ran.stdout
    }

    /// The status and the body of a page.
    fn get(&self, n: usize, path: &str) -> (u16, String) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.ports[n])) else { return (0, String::new()) };
        let mut answer = String::new();
        let sent = write!(stream, "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n");
        if sent.and_then(|()| stream.read_to_string(&mut answer)).is_err() {
            return (0, String::new());
        }
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
    }

    fn role(&self, n: usize) -> Option<String> {
        let health: Value = serde_json::from_str(&self.get(n, "/healthz").1).ok()?;
        Some(health["role"].as_str()?.to_owned())
    }

    fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        assert!(processes::becomes_so(PATIENCE, || is_so(self)), "waited too long for {what}\n{}", self.logs());
    }

    fn logs(&self) -> String {
        let log = |name: &str| std::fs::read_to_string(self.machine.path().join(name)).unwrap_or_default();
        format!("0:\n{}\n1:\n{}\nfactory:\n{}", log("serve0.log"), log("serve1.log"), log("factory.log"))
    }

    /// Ends one coordinator, and measures until the other one leads.
    fn end(&mut self, n: usize, signal: Signal) -> Duration {
        let began = self.clock.monotonic();
        processes::send(signal, self.coordinators[n].as_ref().unwrap());
        self.until("a takeover", |pair| pair.role(1 - n).as_deref() == Some("leader"));
        let took = self.clock.monotonic() - began;
        eprintln!("the other coordinator led {took:.2?} after {signal:?}");
        let mut ended = self.coordinators[n].take().unwrap();
        assert!(processes::becomes_so(PATIENCE, || ended.try_wait().unwrap().is_some()), "{}", self.logs());
        took
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in self.coordinators.iter_mut().chain([&mut self.factory]).flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

// [D3] [row 12] [I1] [U3] [J8] [J9]
#[test]
fn jobs_outlive_the_death_and_the_stop_of_their_leaders_and_run_once() {
    let Some(mut pair) = Pair::start() else { return };
    // Through the follower, which the clients ask first.
    let submit = |pair: &Pair| {
        let submitted: Value = serde_json::from_str(&pair.giga(&["submit", "job.md", "--json"])).unwrap();
        submitted["job"]["id"].as_str().unwrap().to_owned()
    };
    let jobs: Vec<String> = (0..JOBS).map(|_| submit(&pair)).collect();
    let (api, token) = (pair.api(), pair.machine.read("data0/admin.token"));
    let wait = [&["wait"][..], &jobs.iter().map(String::as_str).collect::<Vec<_>>(), &["--until", "testing"]].concat();
    let variables = [("GIGA_API", api.as_str()), ("GIGA_TOKEN", token.trim())];
    let mut waiting = pair.machine.start_into("wait.log", &wait, &variables);
    pair.until("a run", |pair| !pair.machine.read("journal").is_empty());

    let after_death = pair.end(0, Signal::KILL);
    pair.start_coordinator(0);
    pair.until("a follower", |pair| pair.role(0).as_deref() == Some("follower") && pair.get(0, "/readyz").0 == 200);
    let late = submit(&pair);
    let after_stop = pair.end(1, Signal::TERM);

    pair.until("the end of the wait", |_| waiting.try_wait().unwrap().is_some());
    assert_eq!(waiting.wait().unwrap().code(), Some(0), "{}\n{}", pair.machine.read("wait.log"), pair.logs());
    pair.giga(&["wait", &late, "--until", "testing"]);
    let mut ran: Vec<String> = pair.machine.read("journal").lines().map(str::to_owned).collect();
    let mut wanted: Vec<String> = jobs.into_iter().chain([late]).collect();
    // Three leaders received them.
    for job in &wanted {
        let log = pair.giga(&["logs", job]);
        assert!(log.contains("the run begins") && log.contains("the run ends"), "{job}: {log}\n{}", pair.logs());
        let diff = pair.giga(&["runs", job, "1", "--diff"]);
        assert!(diff.contains(&format!("out-{job}")), "{job}: {diff}\n{}", pair.logs());
    }
    ran.sort();
    wanted.sort();
    assert_eq!(ran, wanted, "each job ran once\n{}", pair.logs());
    assert!(after_death < TAKEOVER_MAX, "{after_death:?} after a death");
    assert!(after_stop < TAKEOVER_MAX, "{after_stop:?} after a stop");
}

// [D3]
#[test]
fn several_coordinators_need_a_database_and_an_encrypted_address() {
    let machine = Machine::new();
    let refused = |address: &str, store: &str| {
        let ran = machine.giga(&["serve", "--data", "data", "--store", store, "--advertise", address]);
        (ran.code, ran.stderr)
    };

    let (code, told) = refused("https://here:7878", "sqlite");
    assert!(code == Some(2) && told.contains("several coordinators need a PostgreSQL database"), "{told}");
    let (code, told) = refused("http://192.0.2.1:7878", "postgres://nobody@127.0.0.1:1/none");
    assert!(code == Some(2) && told.contains("tokens would be sent unencrypted"), "{told}");
    let (code, told) = refused("here", "postgres://nobody@127.0.0.1:1/none");
    assert!(code == Some(2) && told.contains("is not an address"), "{told}");
}
