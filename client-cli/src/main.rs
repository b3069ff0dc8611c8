//! `talaria`: see the library of this crate.

fn main() -> std::process::ExitCode {
    talaria_client::main()
}
