//! stub
use crate::command::Context;
use crate::failure::Failure;
use super::ground::Site;
pub(super) async fn run(_context: &Context<'_>, _site: &Site, _args: &crate::cli::BenchMemoryArgs) -> Result<(), Failure> { Ok(()) }
