//! Figures of a release build beside the targets and beside other programs, measured over loopback.
//!
//! Load, model and server share the machine, so every figure is a floor. Bounded: at most 200 clients, a few cells of some
//! seconds. Two models: the built-in demo, and a scripted endpoint that sends 200 tokens at once, as the other programs got.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]

mod load;
mod model;
mod process;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use load::{Cell, Load};
use model::Model;
use process::Process;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const DEFAULT_SECONDS: f64 = 5.0;
const STARTS: usize = 5;
const IDLE_SESSIONS: usize = 1_000;
const STREAMS: usize = 200;
const IDLE: Duration = Duration::from_secs(3);

/// What was measured: printed line by line while it goes on, and as a table at the end.
#[derive(Default)]
struct Table(Vec<[String; 4]>);

impl Table {
    fn row(&mut self, what: &str, measured: impl Display, target: &str, others: &str) {
        eprintln!("{what}: {measured}");
        self.0.push([
            what.to_owned(),
            measured.to_string(),
            target.to_owned(),
            others.to_owned(),
        ]);
    }

    fn print(&self) {
        println!("{:44}{:>16}{:>16}   others", "what", "measured", "target");
        for [what, measured, target, others] in &self.0 {
            println!("{what:44}{measured:>16}{target:>16}   {others}");
        }
    }
}

/// Measures and prints. Fails with what went wrong.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(program) = arguments.next().map(PathBuf::from) else {
        eprintln!("talaria-bench PROGRAM [SECONDS A CELL]: PROGRAM is a release build of talaria-server");
        return ExitCode::from(2);
    };
    let seconds = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_SECONDS);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let measured = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(measure(&program, Duration::from_secs_f64(seconds))));
    match measured {
        Ok(table) => {
            table.print();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("talaria-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(program: &Path, length: Duration) -> Result<Table> {
    let mut table = Table::default();
    let size = std::fs::metadata(program)?.len();
    table.row("binary, MB", tenth(as_f64(size) / 1e6), "<= 40", "46 zeroclaw");
    idle_and_demo(&mut table, program, length).await?;
    let model = model::start().await?;
    scripted(&mut table, program, &model, length).await?;
    many(&mut table, program, &model).await?;
    Ok(table)
}

async fn idle_and_demo(table: &mut Table, program: &Path, length: Duration) -> Result<()> {
    let (folder, config) = (tempfile::tempdir()?, "model: demo/demo\n");
    let mut starts = Vec::new();
    for _ in 0..=STARTS {
        let server = Process::start(program, folder.path(), config).await?;
        starts.push(server.start_ms);
        server.stop().await?;
    }
    // The first start makes the home.
    let start = median(starts.split_off(1));
    table.row(
        "start to healthy, ms p50",
        tenth(start),
        "<= 50",
        "60 zeroclaw, 650 hermes",
    );
    let server = Process::start(program, folder.path(), config).await?;
    table.row(
        "memory idle, MB",
        tenth(server.memory_mb("VmRSS")?),
        "<= 25",
        "40 zeroclaw, 93 hermes",
    );
    let busy = server.cpu_ms()?;
    tokio::time::sleep(IDLE).await;
    let share = (server.cpu_ms()? - busy) / (IDLE.as_secs_f64() * 1e3);
    table.row("CPU idle, % of a core", format!("{:.2}", share * 100.0), "<= 0.1", "");
    cells(table, "demo", &server, length).await?;
    server.stop().await
}

async fn scripted(table: &mut Table, program: &Path, model: &Model, length: Duration) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Process::start(program, folder.path(), &model.config("at-once")).await?;
    let own = model.first_byte_ms().await?;
    let alone = Load::of(&server).cell(1, length).await?;
    let overhead = tenth(alone.first_ms - own);
    table.row(
        "overhead to the first token, ms p50",
        overhead,
        "3 + 2 commits",
        "22 zeroclaw, 50 nanobot",
    );
    let commits = tenth(2.0 * commit_ms(folder.path())?);
    table.row("  two synced writes on this disk, ms p50", commits, "-", "");
    cells(table, "scripted", &server, length).await?;
    let peak = tenth(server.memory_mb("VmHWM")?);
    table.row("memory at its peak, MB", peak, "-", "232 zeroclaw, 162 nanobot");
    server.stop().await
}

async fn many(table: &mut Table, program: &Path, model: &Model) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Process::start(program, folder.path(), &model.config("slow")).await?;
    let wall = Load::of(&server).burst(STREAMS).await?;
    let name = "200 streams of 100 tokens x 20 ms, s";
    table.row(name, format!("{wall:.2}"), "<= 2.2", "7.6 zeroclaw, 8.9 opencode");
    let peak = tenth(server.memory_mb("VmHWM")?);
    table.row("  memory at its peak, MB", peak, "<= 60", "228 nanobot, 1037 zeroclaw");
    Load::of(&server).make_sessions(IDLE_SESSIONS).await?;
    server.stop().await?;
    let server = Process::start(program, folder.path(), &model.config("slow")).await?;
    let idle = tenth(server.memory_mb("VmRSS")?);
    table.row("memory idle with 1,000 sessions, MB", idle, "<= 25", "");
    server.stop().await
}

async fn cells(table: &mut Table, model: &str, server: &Process, length: Duration) -> Result<()> {
    let others = [
        "20 zeroclaw, 9.7 nanobot",
        "61 zeroclaw, 10.0 nanobot",
        "51 zeroclaw, 10.4 nanobot",
    ];
    for ((clients, target), others) in [(1, "-"), (8, ">= 303"), (32, ">= 253")].into_iter().zip(others) {
        let Cell {
            turns_per_s,
            first_ms,
            whole_ms,
            cpu_ms,
        } = Load::of(server).cell(clients, length).await?;
        table.row(
            &format!("{model}: turns/s at {clients}"),
            format!("{turns_per_s:.0}"),
            target,
            others,
        );
        let times = format!("{first_ms:.1} / {whole_ms:.1}");
        table.row("  first token / turn, ms p50", times, "-", "22 / 64 zeroclaw at 1");
        table.row("  CPU ms a turn", tenth(cpu_ms), "<= 3", "31 zeroclaw, 87 nanobot");
    }
    Ok(())
}

fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

/// How long one synced append takes on the disk that the home is on.
fn commit_ms(folder: &Path) -> Result<f64> {
    use std::io::Write as _;
    let mut file = std::fs::File::create(folder.join("commits"))?;
    let mut times = Vec::new();
    for _ in 0..50 {
        let begun = std::time::Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes and counts of a benchmark are far below 2^52"
)]
fn as_f64(value: u64) -> f64 {
    value as f64
}
