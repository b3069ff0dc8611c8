//! The supervisor: starts one command, watches its tree of processes, and ends the tree to the last process.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitStatus};

use super::protocol::{Control, End, Refusal, Report, Specification, Wire};
use super::reach::Kernel;
use super::tree;

/// How often the tree's memory and its writing are summed up.
const WATCH: Duration = Duration::from_millis(250);
/// How often its processes are counted: a storm of them doubles in little time.
const COUNT: Duration = Duration::from_millis(25);
/// How long killed processes may take to be gone; only a device that doesn't answer holds one up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The priority of a supervisor, where it may have one: it must be heard among thousands.
const NICE: i32 = -20;
/// How long what a command has started may go on after it: a filter at its end may still have something to write.
const LINGER: Duration = Duration::from_millis(250);
/// How often an ending tree is looked at.
const ENDING: Duration = Duration::from_millis(10);

/// Runs what the server asks for on standard input, and reports.
pub(super) fn run() -> io::Result<()> {
    let mut wire = Wire::on_stdin()?;
    let Some(specification) = wire.receive::<Specification>()? else {
        return Ok(());
    };
    // A terminal's Ctrl+C, or the end of a login, is for the server to decide about.
    rustix::process::setsid()?;
    let _ = rustix::process::setpriority_process(None, NICE);
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let report = match start(&specification) {
        Ok(child) => Supervisor::new(&specification, child).watch(&mut wire),
        Err(error) => Report {
            end: End::NotStarted(error.to_string()),
            left_behind: 0,
            still_alive: 0,
            is_confined: false,
        },
    };
    // Without a server nobody wants to know.
    drop(wire.send(&report));
    Ok(())
}

/// Starts the child; returns when it has become the command.
fn start(specification: &Specification) -> io::Result<Pid> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("talaria-server")
        .args(super::ARGUMENTS)
        .arg(super::CHILD_ARGUMENT)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)));
    if specification.merge_output {
        let output = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
        command.stderr(Stdio::from(output));
    }
    let child = Pid::from_child(&command.spawn()?);
    // The child's end must be the child's alone: its close tells that the command runs.
    drop(command);
    let mut wire = Wire::new(ours);
    wire.send(&Specification {
        parent: std::process::id(),
        ..specification.clone()
    })?;
    match wire.receive::<Refusal>() {
        Ok(None) => Ok(child),
        Ok(Some(refusal)) => Err(io::Error::other(refusal.reason)),
        Err(error) => Err(error),
    }
}

struct Supervisor<'a> {
    specification: &'a Specification,
    child: Pid,
    /// Readable when the child has ended.
    child_ended: Option<OwnedFd>,
    is_server_there: bool,
    deadline: Instant,
    ending: Option<Ending>,
}

struct Ending {
    why: End,
    /// When the tree is told to end; `None` when it has been.
    term_at: Option<Instant>,
    kill_at: Instant,
    left_behind: usize,
}

impl<'a> Supervisor<'a> {
    fn new(specification: &'a Specification, child: Pid) -> Self {
        Self {
            specification,
            child,
            child_ended: rustix::process::pidfd_open(child, PidfdFlags::empty()).ok(),
            is_server_there: true,
            deadline: Instant::now() + Duration::from_millis(specification.timeout_ms),
            ending: None,
        }
    }

    fn watch(mut self, wire: &mut Wire) -> Report {
        let (mut sum_at, mut count_at) = (Instant::now() + WATCH, Instant::now());
        loop {
            self.pause(wire, count_at);
            self.listen(wire);
            let reaped = tree::reap(self.child);
            if let Some(status) = reaped.status {
                self.child_ended = None;
                self.after_child(status);
            }
            if reaped.is_empty {
                return self.report(0);
            }
            let now = Instant::now();
            if now >= self.deadline {
                self.end(End::TimedOut, self.grace());
            }
            if now >= count_at && self.ending.is_none() {
                count_at = now + COUNT;
                self.count(now >= sum_at);
                if now >= sum_at {
                    sum_at = now + WATCH;
                }
            }
            if let Some(still_alive) = self.proceed(now) {
                return self.report(still_alive);
            }
        }
    }

    /// Waits until something may have happened.
    fn pause(&self, wire: &Wire, count_at: Instant) {
        let now = Instant::now();
        let until = count_at.min(self.deadline).saturating_duration_since(now);
        let without_handle = self.child_ended.is_none();
        let wait = if self.ending.is_some() || without_handle {
            ENDING
        } else {
            until.min(WATCH)
        };
        let mut events = Vec::new();
        if self.is_server_there {
            events.push(PollFd::new(wire.stream(), PollFlags::IN));
        }
        if let Some(handle) = &self.child_ended {
            events.push(PollFd::new(handle, PollFlags::IN));
        }
        let wait = Timespec::try_from(wait).ok();
        // Whatever it was that woke us up, everything is looked at.
        let _ = rustix::event::poll(&mut events, wait.as_ref());
    }

    /// Hears what the server says, or that it is gone.
    fn listen(&mut self, wire: &mut Wire) {
        if !self.is_server_there {
            return;
        }
        let mut events = [PollFd::new(wire.stream(), PollFlags::IN)];
        let is_ready = rustix::event::poll(&mut events, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        self.is_server_there = !is_ready || wire.fill().unwrap_or(false);
        // The socket tells; the parent is asked too, should some other process have come to hold the server's end.
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        self.is_server_there &= parent == Some(self.specification.parent);
        if !self.is_server_there {
            self.end(End::Cancelled, self.grace());
        }
        match wire.take::<Control>() {
            Ok(Some(Control::Cancel { grace_ms })) => self.end(End::Cancelled, Duration::from_millis(grace_ms)),
            Ok(None) => {}
            Err(_) => self.end(End::Cancelled, self.grace()),
        }
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(self.specification.grace_ms)
    }

    fn after_child(&mut self, status: WaitStatus) {
        let why = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => End::Exited(code),
            (None, Some(signal)) => End::Signalled(signal),
            (None, None) => End::Lost,
        };
        if self.ending.is_none() {
            let term_at = Instant::now() + LINGER;
            self.ending = Some(Ending {
                why,
                term_at: Some(term_at),
                kill_at: term_at + self.grace(),
                left_behind: 0,
            });
        }
    }

    fn count(&mut self, with_sums: bool) {
        let processes = tree::descendants(rustix::process::getpid());
        let limits = &self.specification.limits;
        let over = if processes.len() > limits.processes {
            Some(format!("{} processes at the same time", limits.processes))
        } else if with_sums {
            tree::over_sums(&processes, limits)
        } else {
            None
        };
        if let Some(limit) = over {
            self.end(End::LimitExceeded(limit), Duration::ZERO);
        }
    }

    /// Begins to end the tree. The first reason stays; a shorter time is taken over.
    fn end(&mut self, why: End, grace: Duration) {
        let now = Instant::now();
        let ending = self.ending.get_or_insert(Ending {
            why,
            term_at: Some(now),
            kill_at: now + grace,
            left_behind: 0,
        });
        ending.term_at = ending.term_at.map(|at| at.min(now));
        ending.kill_at = ending.kill_at.min(now + grace);
    }

    /// Tells the tree to end, or ends it, when it is time to. Gives how many processes are left when nothing more can be
    /// done.
    fn proceed(&mut self, now: Instant) -> Option<usize> {
        let ending = self.ending.as_mut()?;
        let supervisor = rustix::process::getpid();
        if now >= ending.kill_at {
            let left = tree::kill_all(supervisor);
            return (now > ending.kill_at + PATIENCE).then_some(left);
        }
        if ending.term_at.is_some_and(|at| now >= at) {
            ending.term_at = None;
            let processes = tree::descendants(supervisor);
            if matches!(ending.why, End::Exited(_) | End::Signalled(_)) {
                ending.left_behind = processes.len();
            }
            tree::signal(&processes, Signal::TERM);
            // One that is stopped hears it only when it goes on.
            tree::signal(&processes, Signal::CONT);
        }
        None
    }

    fn report(self, still_alive: usize) -> Report {
        let (end, left_behind) = match self.ending {
            Some(ending) => (ending.why, ending.left_behind),
            None => (End::Lost, 0),
        };
        Report {
            end,
            left_behind,
            still_alive,
            is_confined: Kernel::probe().confines_files(),
        }
    }
}
