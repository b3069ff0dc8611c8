//! The processes below a supervisor, as the kernel shows them in `/proc`.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::protocol::Limits;

/// Every process below `root`, parents first. A process that is just being made may be missing.
pub(super) fn descendants(root: Pid) -> Vec<Pid> {
    walk(root, |_| {})
}

/// Ends every process below `root` at once. Each is stopped before its children are looked for, so that a storm of
/// processes grows no more while it is counted; whatever came into being meanwhile is found the next time. Gives
/// how many there were.
pub(super) fn kill_all(root: Pid) -> usize {
    let stop = |pid| drop_error(rustix::process::kill_process(pid, Signal::STOP));
    let mut found = walk(root, stop).len();
    loop {
        let processes = walk(root, stop);
        if processes.len() <= found {
            signal(&processes, Signal::KILL);
            return processes.len();
        }
        found = processes.len();
    }
}

/// Every process below `root`; `visit` sees each before its children are looked for.
fn walk(root: Pid, visit: impl Fn(Pid)) -> Vec<Pid> {
    let root = root.as_raw_nonzero().get();
    // A kernel may be built without the lists of children.
    let by_parent = if children(root).is_some() {
        BTreeMap::new()
    } else {
        all_by_parent()
    };
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        let listed = children(parent).unwrap_or_default();
        for child in listed
            .into_iter()
            .chain(by_parent.get(&parent).into_iter().flatten().copied())
        {
            if let (true, Some(pid)) = (seen.insert(child), Pid::from_raw(child)) {
                visit(pid);
                found.push(pid);
                next.push(child);
            }
        }
    }
    found
}

/// The children of a process, over all its threads; `None` when the kernel doesn't list them.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let Ok(listed) = std::fs::read_to_string(thread.path().join("children")) else {
            continue;
        };
        found.extend(
            listed
                .split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok()),
        );
    }
    let is_listed = std::path::Path::new(&format!("/proc/{pid}/task/{pid}/children")).exists();
    is_listed.then_some(found)
}

/// The children of every process of the host.
fn all_by_parent() -> BTreeMap<i32, Vec<i32>> {
    let mut all: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name in parentheses may hold anything; the state and the parent follow it.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1));
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            all.entry(parent).or_default().push(pid);
        }
    }
    all
}

/// Sends a signal to all; one that is gone by now is nobody's fault.
pub(super) fn signal(processes: &[Pid], signal: Signal) {
    for pid in processes {
        drop_error(rustix::process::kill_process(*pid, signal));
    }
}

/// A process that is gone by now needs no signal.
fn drop_error(_: rustix::io::Result<()>) {}

/// What waiting for children gave.
pub(super) struct Reaped {
    /// How the child that was asked for ended, if it did.
    pub(super) status: Option<WaitStatus>,
    /// Whether no child is left. Orphans of the tree become the supervisor's children: none left means that the whole
    /// tree is gone.
    pub(super) is_empty: bool,
}

/// Takes leave of all children that have ended.
pub(super) fn reap(child: Pid) -> Reaped {
    let mut status = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) => {
                if pid == child {
                    status = Some(ended);
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Ok(None) => {
                return Reaped {
                    status,
                    is_empty: false,
                };
            }
            Err(_) => return Reaped { status, is_empty: true },
        }
    }
}

/// Which limit of memory or writing the tree is over, in words.
pub(super) fn over_sums(processes: &[Pid], limits: &Limits) -> Option<String> {
    let memory: u64 = processes.iter().map(|pid| memory_bytes(*pid)).sum();
    if memory > limits.memory_bytes {
        return Some(format!("{} MiB of memory", limits.memory_bytes >> 20));
    }
    // What a process wrote that has ended counts with the one that took leave of it, at last the supervisor.
    let written: u64 = processes.iter().map(|pid| written_bytes(*pid)).sum();
    let written = written + written_bytes(rustix::process::getpid());
    (written > limits.written_bytes).then(|| format!("{} MiB written", limits.written_bytes >> 20))
}

fn memory_bytes(pid: Pid) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = |name: &str| number_after(&text, name);
    (kib("RssAnon:") + kib("RssShmem:")) * 1024
}

fn written_bytes(pid: Pid) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let written = number_after(&text, "write_bytes:");
    written.saturating_sub(number_after(&text, "cancelled_write_bytes:"))
}

fn number_after(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_ascii_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
