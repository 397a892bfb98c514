//! Network namespaces on this machine: hosts with an address each, on one bridge, and links that can be cut.
//!
//! No namespace has a route to anything but the others. Each lives as long as the process that keeps it, which ends when its
//! standard input closes: in every way that the test can end. Links and addresses go with their namespaces.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use testkit::requirement::Requirement;

/// An address of no host: what is sent to it reaches the bridge and no host.
const NOWHERE: &str = "02:00:00:00:ff:ff";

/// A namespace of its own.
struct Namespace {
    keeper: Child,
}

impl Namespace {
    fn new() -> Self {
        let mut keeper = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec cat > /dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Self { keeper }
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.keeper.id())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg("--").arg(program);
        command
    }

    /// Runs commands of `ip`.
    fn ip(&self, lines: &str) {
        let mut ip = self.command("ip");
        ip.args(["-force", "-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ip.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "ip: {lines}{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Moves the calling thread, and what it starts from now on.
    fn enter(&self) {
        let namespace = File::open(self.path()).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Hosts that reach each other, and nothing else.
pub(super) struct Network {
    bridge: Namespace,
    hosts: BTreeMap<String, (u8, Namespace)>,
}

impl Network {
    /// A network with these hosts; `None` reports the test as skipped.
    pub(super) fn for_test(hosts: &[&str]) -> Option<Self> {
        let can = ["ip", "nsenter", "unshare"].iter().all(|program| is_installed(program));
        let is_allowed =
            rustix::process::geteuid().is_root() && std::env::var("GIGA_TEST_NETNS").as_deref() != Ok("skip");
        if !Requirement::Netns
            .is_met(can && is_allowed, "it needs root, and `ip`, `nsenter` and `unshare` (scripts/with-netns)")
        {
            return None;
        }
        let bridge = Namespace::new();
        bridge.ip("link set lo up\nlink add bridge type bridge\nlink set bridge up\n");
        let mut network = Self { bridge, hosts: BTreeMap::new() };
        hosts.iter().for_each(|host| network.add(host));
        Some(network)
    }

    /// One more host.
    pub(super) fn add(&mut self, host: &str) {
        let number = u8::try_from(self.hosts.len() + 1).unwrap();
        let namespace = Namespace::new();
        let pid = namespace.keeper.id();
        self.bridge.ip(&format!(
            "link add port{number} type veth peer name eth0 netns {pid}\nlink set port{number} master bridge\nlink set port{number} up\n"
        ));
        namespace.ip(&format!(
            "link set lo up\nlink set eth0 address 02:00:00:00:00:{number:02x}\nlink set eth0 up\naddress add {}/24 dev eth0\n",
            address(number)
        ));
        self.hosts.insert(host.to_owned(), (number, namespace));
    }

    pub(super) fn address(&self, host: &str) -> IpAddr {
        IpAddr::V4(address(self.hosts[host].0))
    }

    /// Moves the calling thread to a host, and what it starts from now on.
    pub(super) fn enter(&self, host: &str) {
        self.hosts[host].1.enter();
    }

    /// Does something on a host.
    pub(super) fn within<T: Send>(&self, host: &str, act: impl FnOnce() -> T + Send) -> T {
        let namespace = &self.hosts[host].1;
        let there = || {
            namespace.enter();
            act()
        };
        std::thread::scope(|scope| scope.spawn(there).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A command that runs on a host.
    pub(super) fn command(&self, host: &str, program: &str) -> Command {
        self.hosts[host].1.command(program)
    }

    /// What one host sends to others reaches them no longer. They still reach it.
    pub(super) fn cut_one_way(&self, from: &str, to: &[&str]) {
        let lines = to
            .iter()
            .map(|to| format!("neighbour replace {} lladdr {NOWHERE} dev eth0 nud permanent\n", self.address(to)));
        self.hosts[from].1.ip(&lines.collect::<String>());
    }

    /// A host and others do not reach each other.
    pub(super) fn cut(&self, host: &str, others: &[&str]) {
        self.cut_one_way(host, others);
        others.iter().for_each(|other| self.cut_one_way(other, &[host]));
    }

    /// The other hosts.
    pub(super) fn others(&self, host: &str) -> Vec<&str> {
        self.hosts.keys().map(String::as_str).filter(|other| *other != host).collect()
    }

    /// Every host reaches every other one.
    pub(super) fn heal(&self) {
        self.hosts.values().for_each(|(_, host)| host.ip("neighbour flush dev eth0 nud permanent\n"));
    }
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Whether a host gets an answer of another one that listens at this port.
#[cfg(test)]
fn reaches(network: &Network, from: &str, to: &str, port: u16) -> bool {
    let address = (network.address(to), port).into();
    network
        .within(from, || std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_millis(500)).is_ok())
}

#[test]
fn links_are_cut_one_way_and_both_ways_and_healed() {
    let Some(network) = Network::for_test(&["east", "west", "north"]) else { return };
    let listener = network.within("west", || std::net::TcpListener::bind((network.address("west"), 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let is_reached = |from| reaches(&network, from, "west", port);

    let whole = [is_reached("east"), is_reached("north")];
    network.cut_one_way("east", &["west"]);
    let there = [is_reached("east"), is_reached("north")];
    network.heal();
    network.cut_one_way("west", &["east"]);
    let back = [is_reached("east"), is_reached("north")];
    network.heal();
    network.cut("west", &["east", "north"]);
    let both = [is_reached("east"), is_reached("north")];
    network.heal();
    let healed = [is_reached("east"), is_reached("north")];

    assert_eq!((whole, there, back), ([true; 2], [false, true], [false, true]));
    assert_eq!((both, healed), ([false; 2], [true; 2]));
    // Nothing of this machine, or beyond it, is reached.
    let outside = network.within("east", || std::fs::read_to_string("/proc/thread-self/net/route").unwrap());
    assert_eq!(outside.lines().skip(1).count(), 1, "{outside}");
}
