//! The local fleet's factories: processes of their own, so that one can die without affecting the others.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clock::{Backoff, SystemClock};
use coordinator::{Coordinator, Secret};
use domain::{Clock, FactoryId};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::factory::{is_enrolled, state_of};
use crate::config::Config;

/// A factory that dies is started again after this; doubled each time up to the maximum.
const RESTART_FIRST: Duration = Duration::from_millis(500);
const RESTART_MAX: Duration = Duration::from_secs(30);

/// How long factories have to save their work when the fleet stops.
const FAREWELL_MAX: Duration = Duration::from_secs(20);

/// The coordinator that runs now: a restore replaces it.
pub(super) struct CurrentCoordinator(Mutex<Arc<Coordinator>>);

impl CurrentCoordinator {
    pub(super) fn new(coordinator: &Arc<Coordinator>) -> Self {
        Self(Mutex::new(Arc::clone(coordinator)))
    }

    pub(super) fn replace(&self, next: &Arc<Coordinator>) {
        *self.0.lock() = Arc::clone(next);
    }

    fn get(&self) -> Arc<Coordinator> {
        Arc::clone(&self.0.lock())
    }
}

/// Where the local fleet's coordinator is, for its factories.
#[derive(Clone, Copy)]
pub(super) struct LocalApi<'a> {
    pub(super) url: &'a str,
    /// The fingerprint of its certificate.
    pub(super) certificate: Option<&'a str>,
}

/// One factory process that is started again whenever it dies, unless it is held down.
pub(super) struct FactoryProcess {
    name: FactoryId,
    pid: Mutex<Option<Pid>>,
    held_down: Mutex<bool>,
    released: Notify,
}

impl FactoryProcess {
    pub(super) fn new(name: FactoryId) -> Arc<Self> {
        Arc::new(Self { name, pid: Mutex::new(None), held_down: Mutex::new(false), released: Notify::new() })
    }

    /// The factory's name.
    pub(super) fn name(&self) -> &FactoryId {
        &self.name
    }

    /// Kills the process as a power cut would, and keeps it down until [`Worker::release`].
    pub(super) fn kill_and_hold_down(&self) {
        *self.held_down.lock() = true;
        if let Some(pid) = *self.pid.lock() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Lets the process be started again.
    pub(super) fn release(&self) {
        *self.held_down.lock() = false;
        self.released.notify_one();
    }

    /// Keeps the process running until `stop`, then lets it save its work.
    pub(super) async fn run(
        &self,
        config: &Config,
        coordinator: &CurrentCoordinator,
        api: LocalApi<'_>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let clock = SystemClock::new();
        let mut backoff = Backoff::new(RESTART_FIRST, RESTART_MAX);
        while !stop.is_cancelled() {
            let join = match is_enrolled(&state_of(config, &self.name)) {
                true => None,
                false => match coordinator.get().join_token(self.name.clone()).await {
                    Ok(secret) => Some(secret),
                    Err(error) => {
                        // Between a restore and the start of the coordinator on it there is no server to ask.
                        warn!(factory.id = %self.name, %error, "Factory `{}` cannot enrol yet", self.name);
                        tokio::select! {
                            () = clock.sleep(RESTART_FIRST) => continue,
                            () = stop.cancelled() => return Ok(()),
                        }
                    }
                },
            };
            let mut child = self.start(config, join.as_ref(), api)?;
            // Waiting for a child closes its standard input, unless another owner has taken it.
            let parent_watch = child.stdin.take();
            let started = clock.monotonic();
            *self.pid.lock() = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            tokio::select! {
                ended = child.wait() => {
                    let ended = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                    warn!(factory.id = %self.name, "Factory `{}` ended ({ended})", self.name);
                }
                () = stop.cancelled() => {
                    drop(parent_watch);
                    return self.end(child).await;
                }
            }
            *self.pid.lock() = None;
            let was_stable = clock.monotonic().saturating_sub(started) > RESTART_MAX;
            if was_stable {
                backoff.reset();
            }
            let mut pause = backoff.next_pause();
            while *self.held_down.lock() && !stop.is_cancelled() {
                tokio::select! {
                    () = self.released.notified() => pause = Duration::ZERO,
                    () = stop.cancelled() => {}
                }
            }
            tokio::select! {
                () = clock.sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
        Ok(())
    }

    fn start(&self, config: &Config, join: Option<&Secret>, api: LocalApi<'_>) -> anyhow::Result<Child> {
        let exe = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(exe);
        command
            .args(["factory", "run", "--name"])
            .arg(self.name.as_str())
            .arg("--state")
            .arg(state_of(config, &self.name));
        command.arg("--data").arg(config.data.path()).arg("--until-stdin-closes");
        if let Some(file) = &config.file {
            command.arg("--config").arg(file);
        }
        command.env("GIGA_API", api.url).env_remove("GIGA_TOKEN").env_remove("GIGA_JOIN");
        if let Some(certificate) = api.certificate {
            command.env("GIGA_CA", certificate);
        }
        // The token goes through the environment: a command line can be read by every user of the machine.
        if let Some(join) = join {
            command.env("GIGA_JOIN", join.reveal());
        }
        // The open pipe is how the factory knows that its fleet is alive.
        command.stdin(Stdio::piped()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        // A signal for the fleet is not one for its factories: they are stopped through the pipe, in order.
        command.process_group(0);
        let child = command.spawn().context("cannot start a factory")?;
        info!(factory.id = %self.name, "Started factory `{}`", self.name);
        Ok(child)
    }

    async fn end(&self, mut child: Child) -> anyhow::Result<()> {
        if tokio::time::timeout(FAREWELL_MAX, child.wait()).await.is_err() {
            warn!(factory.id = %self.name, "Factory `{}` does not stop, ending it", self.name);
            child.kill().await?;
        }
        Ok(())
    }
}
