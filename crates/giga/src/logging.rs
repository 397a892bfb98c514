//! Log lines of the long-lived commands, on standard error.

mod line;
mod spool;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};
use crate::failure::Failure;
use crate::output::Output;

use line::Line;
use spool::Spool;

/// The log of this process. Dropped, it is written to its end.
pub(crate) struct Log(Spool);

impl Drop for Log {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Begins to log; from then on every part of the process does.
pub(crate) fn start(config: &LogConfig, verbosity: u8, out: &Output) -> Result<Log, Failure> {
    let level = match verbosity {
        0 => config.level.value.as_str(),
        1 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_new(level).map_err(|error| {
        Failure::usage(format!(
            "{}: `{}` is not a log level: {error}",
            config.level.origin,
            domain::escape_for_terminal(level)
        ))
        .hint("write `info`, `debug`, or levels by module: `info,coordinator=debug`")
    })?;
    let spool = Spool::default();
    spool.start(std::io::stderr())?;
    let registry = tracing_subscriber::registry().with(filter);
    let started = match config.format.value {
        LogFormat::Json => registry.with(Layer::new().json().flatten_event(true).with_writer(spool.clone())).try_init(),
        LogFormat::Pretty => {
            let line = Line::new(out.colours_errors());
            let layer = Layer::new().with_ansi(false).event_format(line).with_writer(spool.clone());
            registry.with(layer).try_init()
        }
    };
    started.map_err(|error| Failure::failed(format!("cannot begin to log: {error}")))?;
    Ok(Log(spool))
}
