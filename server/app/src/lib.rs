//! The server's program: configuration, wiring, serving, shutdown.
//!
//! What it is *not*: it holds no behaviour of sessions or runs. `wire.rs` is the only file that names concrete tools and
//! model clients. Start reading at [`main`], then `wire.rs`.

mod args;
pub mod config;
mod home;
mod metrics;
mod model_choice;
#[cfg(target_os = "linux")]
mod sandbox_exec;
mod sealing;
mod serve;
mod signing_key;
mod telemetry;

pub mod wire;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command, ConfigCommand};
use crate::wire::StartError;

/// Routes that answer without a credential.
pub use talaria_http::router::OPEN_ROUTES;

/// Exit code: somebody else holds the home.
const EXIT_TEMPORARY: u8 = 75;
/// Exit code: the configuration is wrong.
const EXIT_CONFIG: u8 = 78;

/// Runs the program.
pub fn main() -> ExitCode {
    let args = Args::parse();
    match args.command.clone().unwrap_or(Command::Serve) {
        Command::Serve => serve(&args),
        Command::Openapi { tables: true, .. } => say(api_tables().trim_end(), ExitCode::SUCCESS),
        Command::Openapi { check, tables: false } => openapi(check),
        Command::Config {
            command: ConfigCommand::Check,
        } => match args.load_config() {
            Ok(loaded) => say(&format!("{} is fine", loaded.path.display()), ExitCode::SUCCESS),
            Err(error) => complain(&error.to_string(), EXIT_CONFIG),
        },
        Command::Version => say(
            &format!("talaria-server {}", env!("CARGO_PKG_VERSION")),
            ExitCode::SUCCESS,
        ),
        #[cfg(target_os = "linux")]
        Command::SandboxExec { child } => sandbox_exec::run(child),
    }
}

fn serve(args: &Args) -> ExitCode {
    // What this process remembers, keys among it, is for nobody else: no core file, no debugger of the same user.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        complain(
            &format!("the memory of this process can't be closed to others: {error}"),
            1,
        );
    }
    let outcome = args.prepare().map_err(StartError::from).and_then(|prepared| {
        telemetry::start(&args.log);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        runtime.block_on(async {
            let running = wire::start(prepared).await?;
            let address = running.address;
            tracing::info!(
                "talaria-server {} listens on http://{address}",
                env!("CARGO_PKG_VERSION")
            );
            serve::until_signal().await;
            running.stop().await;
            Ok(())
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = match &error {
                StartError::Home(home::HomeError::Locked { .. }) => EXIT_TEMPORARY,
                StartError::Config(_) => EXIT_CONFIG,
                _ => 1,
            };
            complain(&error.to_string(), code)
        }
    }
}

/// The page `docs/API-TABLES.md`, as this program would write it.
#[must_use]
pub fn api_tables() -> String {
    talaria_http::tables::api_tables()
}

/// The committed document, as this program would write it.
#[must_use]
pub fn openapi_json() -> String {
    let json = talaria_http::router::document().to_pretty_json().unwrap_or_default();
    json + "\n"
}

fn openapi(check: Option<std::path::PathBuf>) -> ExitCode {
    let generated = openapi_json();
    let Some(path) = check else {
        return say(generated.trim_end(), ExitCode::SUCCESS);
    };
    match std::fs::read_to_string(&path) {
        Ok(committed) if committed == generated => say("the document is up to date", ExitCode::SUCCESS),
        Ok(_) => complain(
            &format!(
                "{0} differs from the routes: run `talaria-server openapi > {0}` and look at what changed",
                path.display()
            ),
            1,
        ),
        Err(error) => complain(&format!("{} can't be read: {error}", path.display()), 1),
    }
}

fn say(text: &str, code: ExitCode) -> ExitCode {
    // A closed pipe is no reason to fail.
    drop(writeln!(std::io::stdout(), "{text}"));
    code
}

fn complain(text: &str, code: u8) -> ExitCode {
    drop(writeln!(
        std::io::stderr(),
        "talaria-server: {}",
        telemetry::shown(text)
    ));
    ExitCode::from(code)
}
