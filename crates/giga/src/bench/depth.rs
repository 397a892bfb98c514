//! stub
use super::ground::Site;
use crate::command::Context;
use crate::failure::Failure;
pub(super) async fn run(
    _context: &Context<'_>,
    _site: &Site,
    _args: &crate::cli::BenchDepthArgs,
) -> Result<(), Failure> {
    Ok(())
}
