//! The child's own part: it gives up what it must not have, and becomes the command.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::protocol::{Limits, Refusal, Specification, Wire};
use super::reach::Reach;

/// How many more threads than processes a command may have.
const THREADS_A_PROCESS: u64 = 8;
/// The priority of a command, from -20 (high) to 19 (low).
const NICE: i32 = 10;
/// How much more address space than memory a process may have: many programs reserve what they never use.
const ADDRESS_SPACE_FACTOR: u64 = 16;

/// Becomes the command that the supervisor names. Returns only when that fails.
pub(super) fn run() -> std::io::Error {
    let wire = Wire::on_stdin().and_then(|mut wire| Ok((wire.receive()?, wire)));
    match wire {
        Ok((Some(specification), mut wire)) => {
            let error = become_command(&specification);
            let reason = error.to_string();
            // Nobody is left to tell when this fails, too.
            drop(wire.send(&Refusal { reason }));
            error
        }
        Ok((None, _)) => std::io::Error::other("the supervisor is gone"),
        Err(error) => error,
    }
}

fn become_command(specification: &Specification) -> std::io::Error {
    if let Err(error) = give_up(specification) {
        return std::io::Error::other(format!("the sandbox can't be closed: {error}"));
    }
    let [program, arguments @ ..] = &specification.argv[..] else {
        return std::io::Error::other("there is no command");
    };
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&specification.environment)
        .current_dir(&specification.folder)
        .stdin(Stdio::null())
        .exec()
}

fn give_up(specification: &Specification) -> Result<(), Box<dyn std::error::Error>> {
    // Should the supervisor be killed, this process goes with it. It may have been killed before the signal was asked for.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(specification.parent) {
        return Err("the supervisor is gone".into());
    }
    rustix::process::setsid()?;
    // The server and the supervisor come first, whatever the command does.
    rustix::process::setpriority_process(None, NICE)?;
    // The rules are found with all rights that this process has, and bind it after it has given them up.
    let reach = Reach::of(&specification.denied, &specification.writable)?;
    set_limits(&specification.limits)?;
    drop_capabilities()?;
    rustix::thread::set_no_new_privs(true)?;
    reach.restrict_self()?;
    Ok(())
}

fn set_limits(limits: &Limits) -> rustix::io::Result<()> {
    // Root's processes are not counted by the kernel; the supervisor counts those, too.
    let threads = (limits.processes as u64).saturating_mul(THREADS_A_PROCESS);
    let wanted = [
        (Resource::Nproc, threads.saturating_add(threads_of_user())),
        (Resource::As, limits.memory_bytes.saturating_mul(ADDRESS_SPACE_FACTOR)),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nofile, limits.open_files),
        (Resource::Core, 0),
    ];
    for (resource, wanted) in wanted {
        let allowed = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let value = Some(wanted.min(allowed));
        let limit = Rlimit {
            current: value,
            maximum: value,
        };
        rustix::process::setrlimit(resource, limit)?;
    }
    Ok(())
}

/// How many threads this user has on this host: the kernel counts them together.
fn threads_of_user() -> u64 {
    let user = rustix::process::getuid().as_raw();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == user));
    // A folder has a link from itself, one from its parent, and one from each folder in it.
    let threads = own.filter_map(|entry| std::fs::metadata(entry.path().join("task")).ok());
    threads.map(|folder| folder.nlink().saturating_sub(2)).sum()
}

/// Gives up every capability, also for the programs that follow.
fn drop_capabilities() -> rustix::io::Result<()> {
    // Only who has the right can do this, and only who has it needs it.
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)
}
