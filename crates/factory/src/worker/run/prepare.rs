//! Before the engine: a worktree of its own, made ready.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use domain::{ChildResult, CommandStep, RepoName, RunKey, StageName};
use engines::{BaseBranch, WorktreeState};
use fail::fail_point;
use sandbox::{Bounds, EnvironmentConfig, Launcher, PathAccess};
use tracing::warn;
use workspace::{Error, Mirror, RepoConfig, Worktree, WorktreeStart};

use super::super::Worker;
use super::{Run, RunLocation, StartFailure};
use crate::verify::{Commands, CommandsVerdict};

/// The remedy for a setup command without write access.
const WHERE_SETUP_WRITES: &str = ". Setup commands are confined as agents are, and install nothing for the whole machine: \
    install it on the machine or its image, or open the folder with `write` under [factory]";

impl Worker {
    /// A worktree of its own, after the repository's setup.
    pub(super) async fn prepare(self: &Arc<Self>, run: &mut Run) -> Result<RunLocation, StartFailure> {
        // What was granted while the factory stops is only released.
        if run.stop.is_cancelled() {
            return Err(StartFailure::Stopped);
        }
        let Some(repo) = run.assignment.repo.clone() else {
            let dir = self.host.scratch(run.key)?;
            let launcher = self.launcher_at_home(run)?.reaching([(dir.clone(), PathAccess::Everything)]);
            return Ok(RunLocation { dir, state: WorktreeState::Empty, launcher, repo: None });
        };
        let (mirror, config) = self.mirror(&repo)?;
        self.check_repository(&mirror, run.assignment.checkpoint.as_ref())?;
        run.log_writer = Some(self.take_log(run));
        let (worktree, state) = self.patiently(run, &mirror, || self.check_out(run, &repo, &mirror, &config)).await?;
        run.record.worktree = Some(worktree.path().to_owned());
        self.ledger.remember(&run.record).await;
        fail_point!("factory::prepared", |_| Err(StartFailure::Stopped));
        let caches = self.caches(run, &repo, &config)?;
        let reached = caches.iter().map(|(_, folder)| (PathBuf::from(folder), PathAccess::Everything));
        let launcher = self.launcher_at_home(run)?.reaching(reached);
        // Its repository borrows the mirror's objects, and has all that it writes to itself.
        let own = [(worktree.path().to_owned(), PathAccess::Everything), (mirror.path().to_owned(), PathAccess::Read)];
        let launcher = launcher.reaching(own).with_variables(caches);
        self.set_up(run, &config, &worktree, &launcher).await?;
        if !config.setup.is_empty() {
            mirror.remember_given(&worktree).await?;
        }
        Ok(RunLocation { dir: worktree.path().to_owned(), state, launcher, repo: Some((mirror, config, worktree)) })
    }

    pub(super) async fn check_out(
        &self,
        run: &Run,
        repo: &RepoName,
        mirror: &Mirror,
        config: &RepoConfig,
    ) -> Result<(Worktree, WorktreeState), StartFailure> {
        self.refresh(mirror, config).await?;
        let base = run.assignment.base.as_ref().unwrap_or(&config.base);
        let start = match &run.assignment.checkpoint {
            Some(saved) if self.is_completed(run.key.job, saved) => WorktreeStart::Commit(saved.sha.clone()),
            Some(saved) => WorktreeStart::Checkpoint(saved.clone()),
            None => WorktreeStart::Base,
        };
        if let (WorktreeStart::Commit(_), Some(saved)) = (&start, &run.assignment.checkpoint) {
            mirror.fetch_ref(&self.host.refs().run(RunKey { job: run.key.job, epoch: saved.epoch })).await?;
        }
        // The work of those that shipped is in the base branch.
        let is_apart = |child: &&ChildResult| child.stage != StageName::Shipped;
        let apart = run.assignment.children.iter().filter(is_apart);
        let branches: Vec<_> = apart.filter_map(|child| Some((child.id, child.commit.clone()?))).collect();
        match mirror.create_showing(run.key, base, &start, &branches).await {
            Ok(worktree) => {
                let base = base_of(&worktree);
                let state = match start {
                    WorktreeStart::Base => WorktreeState::New(base),
                    WorktreeStart::Checkpoint(_) => WorktreeState::Saved(base),
                    WorktreeStart::Commit(_) => WorktreeState::Completed(base),
                };
                Ok((worktree, state))
            }
            Err(Error::NoSuchCommit { .. }) if start != WorktreeStart::Base => {
                // A missing checkpoint must not block the job: the work starts over.
                warn!(job.id = %run.key.job, "The checkpoint of job {} is gone from `{repo}`, starting over", self.titles.label(run.key.job));
                let worktree = mirror.create_showing(run.key, base, &WorktreeStart::Base, &branches).await?;
                let state = WorktreeState::New(base_of(&worktree));
                Ok((worktree, state))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Starts programs with the run's own home only: the next agent does not read it.
    fn launcher_at_home(&self, run: &Run) -> Result<Launcher, StartFailure> {
        let own = self.host.home(run.key)?;
        let launcher = self.launcher.clone().under_lease(run.deadline.clone());
        let launcher = launcher.reaching([(own.clone(), PathAccess::Everything)]);
        let launcher = match launcher.narrows(&std::env::temp_dir()) {
            true => {
                launcher.with_variables([("TMPDIR".to_owned(), self.host.own_temporary(run.key)?.into_os_string())])
            }
            false => launcher,
        };
        Ok(launcher.at_home(self.host.state().empty_home(), own))
    }

    /// The directories that outlive worktrees, by the variables that name them: the configured ones, and those of tools
    /// that would otherwise download everything again in each run.
    fn caches(&self, run: &Run, repo: &RepoName, config: &RepoConfig) -> Result<Vec<(String, OsString)>, StartFailure> {
        let product = &run.assignment.product_id;
        let mut caches = config.caches.clone();
        let is_given = |variable: &str| {
            let is_named = |environment: &EnvironmentConfig| {
                environment.set.contains_key(variable) || environment.pass.iter().any(|pass| pass == variable)
            };
            self.settings.environments().any(is_named)
        };
        for (variable, name) in sandbox::toolchain_caches(self.environment.variable("PATH")) {
            if !is_given(variable) {
                caches.entry(variable.to_owned()).or_insert_with(|| name.to_owned());
            }
        }
        let caches = caches.iter();
        let found = caches.map(|(variable, name)| {
            let folder = self.host.cache(product, repo, name)?;
            Ok((variable.clone(), folder.into_os_string()))
        });
        found.collect()
    }

    /// Runs the repository's setup commands, with their output in the run's log.
    pub(super) async fn set_up(
        self: &Arc<Self>,
        run: &mut Run,
        config: &RepoConfig,
        worktree: &Worktree,
        launcher: &Launcher,
    ) -> Result<(), StartFailure> {
        if config.setup.is_empty() {
            return Ok(());
        }
        let environment = self.environment.clone().of_run(run.key, run.assignment.attempts + 1);
        let bounds = Bounds::commands(&self.settings.limits);
        let log = self.take_log(run);
        let (lines, dir) = (&config.setup, worktree.path());
        let commands = Commands { step: CommandStep::Prepare, lines, dir, environment: &environment, launcher };
        let verdict = commands.run(&bounds, &run.stop, |line| log.push(line)).await;
        run.log_writer = Some(log);
        match verdict {
            CommandsVerdict::Passed(_) => Ok(()),
            CommandsVerdict::Cancelled(_) => Err(StartFailure::Stopped),
            CommandsVerdict::Failed(evidence) => {
                let hint = |output: &str| match launcher.is_enclosed() && names_a_closed_place(output) {
                    true => WHERE_SETUP_WRITES,
                    false => "",
                };
                let last = evidence.last();
                let last = last.map(|last| format!("{}{}", last.failure(), hint(&last.output)));
                Err(StartFailure::Setup(last.unwrap_or_default()))
            }
        }
    }
}

fn base_of(worktree: &Worktree) -> BaseBranch {
    BaseBranch { name: worktree.base().clone(), sha: worktree.base_head().clone() }
}

/// Whether output reports a denied permission, in the messages of the system, of node or of `sudo`.
fn names_a_closed_place(output: &str) -> bool {
    let words =
        ["Permission denied", "permission denied", "EACCES", "EPERM", "Operation not permitted", "no new privileges"];
    words.iter().any(|words| output.contains(words))
}
