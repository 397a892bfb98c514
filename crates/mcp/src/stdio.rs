//! A server on standard input and output: nothing else may write to standard output.

use rmcp::transport::stdio_pipes;
use rmcp::{ServerHandler, ServiceExt};

/// Why a server on standard streams ended early.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The client did not open the conversation as the protocol requires.
    #[error("the MCP client did not initialize the server: {0}")]
    Initialize(String),
    /// Its task was lost.
    #[error("the MCP server stopped: {0}")]
    Stopped(String),
}

/// Serves until the client closes standard input.
pub async fn serve_stdio(server: impl ServerHandler) -> Result<(), StdioError> {
    let running = server.serve(stdio_pipes()).await;
    let running = match running {
        Ok(running) => running,
        // A client that leaves before it says anything has not failed.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError::Initialize(error.to_string())),
    };
    running.waiting().await.map(|_| ()).map_err(|error| StdioError::Stopped(error.to_string()))
}
