//! `sandbox-exec` without the rest of the server, for the tests of the sandbox.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    talaria_tools::sandbox::exec(std::env::args().any(|argument| argument == "--child"))
}

#[cfg(not(target_os = "linux"))]
fn main() {}
