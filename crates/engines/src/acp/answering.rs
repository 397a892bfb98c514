//! Answers the agent's requests.

use std::path::Path;

use agent_client_protocol_schema::v1::{
    Error, ReadTextFileRequest, ReadTextFileResponse, RequestPermissionRequest, RequestPermissionResponse,
    WriteTextFileRequest, WriteTextFileResponse,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Permissions;
use super::files::{FileError, Files};
use super::updates::Updates;
use super::wire::{self, Params};
use crate::EngineEvent;

/// Answers requests: files of the worktree, and permissions by policy.
pub(super) struct RequestHandler {
    files: Files,
    permissions: Permissions,
    denied: Vec<String>,
}

/// Refusals that are remembered; more would add no information.
const DENIED_MAX: usize = 8;

impl RequestHandler {
    pub(super) fn new(worktree: &Path, permissions: Permissions) -> Self {
        Self { files: Files::below(worktree), permissions, denied: Vec::new() }
    }

    /// What was refused to the agent, if anything.
    pub(super) fn denied(&self) -> &[String] {
        &self.denied
    }

    /// The answer to a request, and its event.
    pub(super) fn answer(
        &mut self,
        method: &str,
        params: &Params,
        updates: &Updates,
    ) -> (Result<Value, Error>, Vec<EngineEvent>) {
        match method {
            "fs/read_text_file" => (self.read(params), Vec::new()),
            "fs/write_text_file" => (self.write(params), Vec::new()),
            "session/request_permission" => self.permit(params, updates),
            _ => (Err(Error::method_not_found()), Vec::new()),
        }
    }

    fn read(&self, params: &Params) -> Result<Value, Error> {
        let request: ReadTextFileRequest = read(params)?;
        let content = self.files.read(&request.path, request.line, request.limit).map_err(|why| told(&why))?;
        Ok(wire::value(&ReadTextFileResponse::new(content)))
    }

    fn write(&self, params: &Params) -> Result<Value, Error> {
        let request: WriteTextFileRequest = read(params)?;
        self.files.write(&request.path, &request.content).map_err(|why| told(&why))?;
        Ok(wire::value(&WriteTextFileResponse::new()))
    }

    fn permit(&mut self, params: &Params, updates: &Updates) -> (Result<Value, Error>, Vec<EngineEvent>) {
        let request: RequestPermissionRequest = match read(params) {
            Ok(request) => request,
            Err(error) => return (Err(error), Vec::new()),
        };
        let fields = &request.tool_call.fields;
        let kind = fields.kind.unwrap_or_else(|| updates.kind_of(&request.tool_call.tool_call_id));
        let answered = self.permissions.answer(kind, &request.options);
        let mut events = Vec::new();
        if !answered.allowed {
            let what = domain::escape_for_terminal(fields.title.as_deref().unwrap_or("use a tool"));
            events.push(EngineEvent::ToolFailed { text: format!("not allowed: {what}") });
            if self.denied.len() < DENIED_MAX {
                self.denied.push(format!("`{what}`"));
            }
        }
        (Ok(wire::value(&RequestPermissionResponse::new(answered.outcome))), events)
    }
}

fn read<T: DeserializeOwned>(params: &Params) -> Result<T, Error> {
    params.read().map_err(|error| Error::invalid_params().data(Value::String(error.to_string())))
}

fn told(why: &FileError) -> Error {
    let error = match why {
        FileError::Missing => Error::resource_not_found(None),
        FileError::Disk(_) => Error::internal_error(),
        _ => Error::invalid_params(),
    };
    error.data(Value::String(why.to_string()))
}
