//! Any agent that speaks the Agent Client Protocol on its standard streams, `devin acp` among them.
//!
//! Requests and answers are the protocol's own types. The session is sans-I/O: it takes and returns lines, so that a
//! recorded conversation replays in a test.

mod answering;
mod files;
mod permission;
mod session;
mod updates;
mod wire;

use std::ffi::OsString;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{EngineName, RunKey};
use sandbox::{Environment, Program, find_program};

pub use permission::Permissions;
use session::AcpSession;

use super::descriptor::{EngineDescriptor, EngineMaker};
use super::{Engine, EngineError, EngineRequest, LoginState, Presence, Session, TemplateError};
use crate::config::EngineConfig;

/// Runs an agent and speaks the protocol with it.
#[derive(Debug, Clone)]
pub struct AcpEngine {
    name: EngineName,
    credential: Option<String>,
    billing: Option<domain::Billing>,
    argv: Vec<String>,
    mode: Option<String>,
    permissions: Permissions,
    environment: Environment,
}

/// The argument that makes devin speak the protocol.
const DEVIN: &str = "devin";
const DEVIN_SPEAKS: &str = "acp";

/// Its entry in the table of engines.
pub(super) const DESCRIPTOR: EngineDescriptor = EngineDescriptor {
    name: "acp",
    engine_names: &[DEVIN],
    program: Some(DEVIN),
    takes_argv: true,
    reports_turns: |_| true,
    has_web_tools: false,
    prices: &[],
    maker: EngineMaker::Configured(|name, config, environment, _| {
        Ok(Arc::new(AcpEngine::new(name, config, environment)?))
    }),
};

impl AcpEngine {
    /// The engine `name`, whose program gets `environment` and the names of its run.
    pub fn new(name: EngineName, config: &EngineConfig, environment: Environment) -> Result<Self, TemplateError> {
        let mut argv = config.argv.clone();
        if argv.is_empty() && name.as_str() == DEVIN {
            let program = config.program.clone().unwrap_or_else(|| DEVIN.to_owned());
            argv = vec![program, DEVIN_SPEAKS.to_owned()];
        }
        if argv.is_empty() {
            return Err(TemplateError::Empty(name));
        }
        argv.extend(config.args.iter().cloned());
        let credential = config.credential.clone();
        let (mode, permissions) = (config.permission_mode.clone(), config.permissions);
        Ok(Self { name, credential, billing: config.billing, argv, mode, permissions, environment })
    }
}

#[async_trait]
impl Engine for AcpEngine {
    fn name(&self) -> &EngineName {
        &self.name
    }

    fn credential(&self) -> Option<&str> {
        self.credential.as_deref()
    }

    fn billing(&self) -> Option<domain::Billing> {
        self.billing
    }

    async fn detect(&self) -> Presence {
        let program = self.argv.first().map(String::as_str).unwrap_or_default();
        match find_program(program, self.environment.variable("PATH")) {
            Some(_) => Presence::Ready { version: None, login: LoginState::Unknown },
            None => {
                Presence::Missing { why: format!("there is no program `{}`", domain::escape_for_terminal(program)) }
            }
        }
    }

    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError> {
        let run = RunKey { job: request.job, epoch: request.epoch };
        let program = Program {
            argv: self.argv.iter().map(OsString::from).collect(),
            dir: request.worktree.clone(),
            environment: self.environment.clone().of_run(run, request.attempt),
            stdin: Vec::new(),
        };
        Ok((program, Box::new(AcpSession::new(request, self.mode.as_deref(), self.permissions))))
    }
}
