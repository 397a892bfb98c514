//! The one binary: command line, configuration, wiring.

mod api;
mod cli;
mod command;
mod compose;
mod config;
mod failure;
mod local;
mod logging;
mod output;
mod profile_files;
mod programs;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use cli::{Cli, Command, McpArgs};
use command::Context;
use config::Config;
use failure::Failure;
use output::Output;

/// A coordinator makes and drops small things on all cores at once, which the system's own allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => return print_usage_error(&error),
    };
    match cli.command {
        Command::Guard { args } => return ExitCode::from(sandbox::run_guard(args)),
        Command::DemoAgent => return compose::demo_agent::run(),
        _ => {}
    }
    let out = Output::new(&cli.global);
    match run(cli, &out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            out.failure(&failure);
            failure.exit_code()
        }
    }
}

/// Prints the error of the command line, or the requested help.
fn print_usage_error(error: &clap::Error) -> ExitCode {
    // A closed output is no reason for another exit code.
    let _ = error.print();
    let command_line: Vec<String> = std::env::args_os().map(|one| one.to_string_lossy().into_owned()).collect();
    if let Some(suggestion) = cli::did_you_mean(error, &command_line) {
        Output::new(&cli::GlobalArgs::default()).hint(&suggestion);
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(cli: Cli, out: &Output) -> Result<(), Failure> {
    #[cfg(feature = "failpoints")]
    compose::kill_at::arm()?;
    if let Some(done) = command::without_configuration(&cli.command, out) {
        return done;
    }
    if let Command::Mcp(McpArgs { run: Some(socket), .. }) = &cli.command {
        return finish(RuntimeThreads::One, command::serve_run(socket));
    }
    let config = Config::load(&cli.command.global(&cli.global), cli.command.overrides());
    if let Command::Doctor = cli.command {
        return finish(RuntimeThreads::One, command::doctor(config, out));
    }
    let mut config = config?;
    if let Command::Local(_) = cli.command {
        config.keep_to_this_process();
    }
    let threads = if cli.command.is_long_lived() { RuntimeThreads::Many } else { RuntimeThreads::One };
    let verbosity = cli.command.log_verbosity(&cli.global);
    let logs = (cli.command.is_long_lived() && !cli.command.prints_progress()) || verbosity > 0;
    let _log = if logs { Some(logging::start(&config.log, verbosity, out)?) } else { None };
    let context = Context::new(config, out);
    finish(threads, command::run(cli.command, &context))
}

/// A client is over before many threads would have started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuntimeThreads {
    One,
    Many,
}

fn finish(threads: RuntimeThreads, work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = match threads {
        RuntimeThreads::One => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        RuntimeThreads::Many => {
            tokio::runtime::Builder::new_multi_thread().worker_threads(workers()).enable_all().build()?
        }
    };
    let outcome = runtime.block_on(work);
    // A read of standard input that is under way cannot be called off: to wait for it could take for ever.
    runtime.shutdown_background();
    outcome
}

/// One processor is left to the thread that writes to the store: workers that fight it for the last one only make all
/// of them change places.
fn workers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    processors.saturating_sub(1).max(1)
}
