//! `talaria-server sandbox-exec`: this program as the supervisor of a command, and as the child that becomes it.
//!
//! It reads no configuration, has no runtime and writes no log: its environment is empty and its outputs are the
//! command's.

use std::process::ExitCode;

/// Runs to the end of the command; as a child it returns only when the command could not be started.
pub(crate) fn run(is_child: bool) -> ExitCode {
    talaria_tools::sandbox::exec(is_child)
}
