//! Short programs whose output is an answer: their version, or whether they work.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Bounds, Environment, FinishedProgram, Launcher, Line, Program, StartError};

/// A program prints its version at once, or it is broken. The first start of a big one is slow on a busy machine.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: u64 = 4 * 1024;

impl Launcher {
    /// Runs the program in `file` to its end, and returns its lines of output.
    pub async fn ask(
        &self,
        file: PathBuf,
        args: &[&str],
        environment: &Environment,
    ) -> Result<(FinishedProgram, String), StartError> {
        let argv = std::iter::once(file.into_os_string()).chain(args.iter().map(Into::into)).collect();
        let program = Program { argv, dir: PathBuf::from("/"), environment: environment.clone(), stdin: Vec::new() };
        let (grace, output_bytes_max) = (Duration::ZERO, ANSWER_BYTES_MAX);
        let bounds = Bounds { wall: ANSWER_TIME_MAX, idle: None, tool_idle: None, grace, output_bytes_max };
        let running = self.start(program, bounds)?;
        let (sender, mut lines) = mpsc::channel::<Line>(8);
        let collect = async {
            let mut answer = Vec::new();
            while let Some(line) = lines.recv().await {
                answer.push(line.text);
            }
            answer.join("\n")
        };
        let never = CancellationToken::new();
        Ok(tokio::join!(running.wait(sender, &never), collect))
    }
}
