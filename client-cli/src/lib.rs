//! `talaria`, the terminal client: a thin client of the HTTP API, and a library for programs and tests.
//!
//! What it is *not*: it knows nothing of the server but its contract. Start reading at [`client`] and [`watch`].

mod account;
mod approvals;
mod args;
mod asked;
mod backoff;
mod chat;
pub mod client;
mod commands;
mod error;
mod follow;
mod keyboard;
mod local_server;
mod log_file;
mod login;
mod outbox;
mod progress;
mod render;
mod run;
mod runs;
pub mod sse;
pub mod watch;

use std::process::ExitCode;

pub use client::Client;
pub use error::Error;

use crate::args::{Args, Command};

/// What shells see of a program that was ended by SIGPIPE.
const EXIT_PIPE: u8 = 141;

/// Runs the program.
pub fn main() -> ExitCode {
    let args = Args::read();
    if let Some(Command::Completions { shell }) = &args.command {
        args::print_completions(*shell);
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the runtime can't start: {error}")),
    };
    match runtime.block_on(commands::dispatch(args)) {
        Ok(code) => code,
        // As a program ends that writes into a closed pipe.
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::from(EXIT_PIPE),
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(text: &str) -> ExitCode {
    render::complain(text);
    ExitCode::from(2)
}
