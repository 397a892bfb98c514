//! The implementation of each command.

mod actions;
mod activity;
mod alerts;
mod artifact;
mod backoff;
mod backup;
mod bench;
mod budget;
mod completions;
mod credential;
mod dash;
mod dead_letters;
mod divergence;
mod doctor;
mod events;
mod explain;
mod factory;
mod follow;
mod forecast;
mod gc;
mod init;
mod job;
mod job_id;
mod jobs;
mod logs;
mod mcp;
mod mode;
mod needs_me;
mod plan;
mod pool;
mod product;
mod profile;
mod restore;
mod review;
mod runs;
mod sign_in;
mod status;
mod store_location;
mod submit;
mod titles;
mod token;
mod tracker;
mod wait;
mod webhook;

use std::sync::Arc;

use client::Client;
use clock::SystemClock;
use domain::{Clock, Timestamp};

pub(crate) use backoff::Backoff;
pub(crate) use doctor::doctor;
pub(crate) use forecast::is_stuck;
pub(crate) use mcp::serve_run;
pub(crate) use wait::{asks, is_settled};

use crate::api::connect;
use crate::cli::{BackupCommand, Command};
use crate::compose;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Output;

/// What every command has at hand.
pub(crate) struct Context<'o> {
    pub(crate) config: Config,
    pub(crate) out: &'o Output,
    pub(crate) clock: Arc<dyn Clock>,
}

impl<'o> Context<'o> {
    /// The context of this process.
    pub(crate) fn new(config: Config, out: &'o Output) -> Self {
        Self { config, out, clock: Arc::new(SystemClock::new()) }
    }

    fn client(&self) -> Result<Client, Failure> {
        connect(&self.config)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Runs a command that needs no settings: a broken file must not keep the user from fixing it.
pub(crate) fn without_configuration(command: &Command, out: &Output) -> Option<Result<(), Failure>> {
    match command {
        Command::Init => Some(init::init(out)),
        Command::Completions { shell } => Some(completions::completions(*shell, out)),
        Command::Schema => Some(out.document(&domain::manifest_schema())),
        _ => None,
    }
}

/// Runs any other command.
pub(crate) async fn run(command: Command, context: &Context<'_>) -> Result<(), Failure> {
    match command {
        Command::Up(args) => Ok(compose::up(&context.config, &args, context.out).await?),
        Command::Serve(args) => Ok(compose::serve(&context.config, args.parent_watch(), context.out).await?),
        Command::Factory { command } => factory::factory(context, command).await,
        Command::Pool { command } => pool::pool(context, command).await,
        Command::Scaler(args) => compose::scaler(&context.config, &args, context.out).await,
        Command::Local(args) => compose::local(&context.config, &args, context.out).await,
        Command::Submit(args) => submit::submit(context, args).await,
        Command::Plan(args) => plan::plan(context, args).await,
        Command::Wait(args) => wait::wait(context, args).await,
        Command::Dash(args) => dash::dash(context, &args).await,
        Command::Jobs(args) => jobs::jobs(context, args).await,
        Command::Job { id } => job::job(context, &id).await,
        Command::Runs(args) => runs::runs(context, args).await,
        Command::Logs(args) => logs::logs(context, args).await,
        Command::Explain { id } => explain::explain(context, &id).await,
        Command::Cancel(args) => actions::cancel(context, args).await,
        Command::Pause(args) => actions::pause(context, args).await,
        Command::Resume(args) => actions::resume(context, args).await,
        Command::Answer(args) => actions::answer(context, args).await,
        Command::Requeue(args) => actions::requeue(context, args).await,
        Command::Ship(args) => actions::ship(context, args).await,
        Command::Review { command } => review::review(context, command).await,
        Command::RequestChanges(args) => actions::request_changes(context, args).await,
        Command::Reject(args) => actions::reject(context, args).await,
        Command::Priority(args) => actions::priority(context, args).await,
        Command::Pin(args) => actions::pin(context, args).await,
        Command::Dismiss(args) => needs_me::dismiss(context, args).await,
        Command::NeedsMe(args) => needs_me::needs_me(context, args).await,
        Command::Alerts => alerts::alerts(context).await,
        Command::DeadLetters { command } => dead_letters::dead_letters(context, command).await,
        Command::Product { command } => product::product(context, command).await,
        Command::Budget { command } => budget::budget(context, command).await,
        Command::Artifact { command } => artifact::artifact(context, command).await,
        Command::Profile { command } => profile::profile(context, command).await,
        Command::Credential { command } => credential::credential(context, command).await,
        Command::Tracker { command } => tracker::tracker(context, command).await,
        Command::Webhook { command } => webhook::webhook(context, command).await,
        Command::Mode(args) => mode::mode(context, args).await,
        Command::Divergence(args) => divergence::divergence(context, args).await,
        Command::Token { command } => token::token(context, command).await,
        Command::SignIn => sign_in::sign_in(context).await,
        Command::Events(args) => events::events(context, args).await,
        Command::Mcp(args) => mcp::mcp(context, &args).await,
        Command::Gc(args) => gc::gc(context, &args).await,
        Command::Bench(args) => bench::bench(context, args).await,
        Command::Backup { command } => match command {
            BackupCommand::Create(args) => backup::create(context, args).await,
            BackupCommand::Verify { file } => backup::verify(context, &file).await,
            BackupCommand::Restore(args) => restore::restore(context, args).await,
        },
        Command::Init
        | Command::Doctor
        | Command::Completions { .. }
        | Command::Schema
        | Command::Guard { .. }
        | Command::DemoAgent => unreachable!("these run without settings"),
    }
}
