//! `talaria`, for tests that need a process.

fn main() -> std::process::ExitCode {
    talaria_client::main()
}
