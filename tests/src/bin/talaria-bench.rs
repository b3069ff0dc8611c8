//! `scripts/bench` runs this: `talaria-bench PROGRAM [SECONDS A CELL]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    talaria_tests::bench::main()
}
