use crate::command::Context; use crate::failure::Failure; pub(super) fn run(_c: &Context<'_>) -> Result<(), Failure> { Ok(()) }
