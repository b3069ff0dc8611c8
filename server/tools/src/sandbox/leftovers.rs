//! Processes of a former server. Supervisors end their trees when their server is gone; only a supervisor that was killed,
//! too, can leave something behind. What every command has in its environment tells whose it was.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The variable of a command's environment that names the home of its server.
pub(super) const MARK: &str = "TALARIA_SANDBOX";
/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// Kills every process of this host that a server of `home` started. Gives how many there were, and whether all are gone.
/// The caller holds the home, so no other server has processes in it.
pub(super) fn end(home: &Path) -> (usize, bool) {
    let mark = [MARK.as_bytes(), b"=", home.as_os_str().as_encoded_bytes()].concat();
    let until = Instant::now() + PATIENCE;
    let mut count = 0;
    loop {
        let found = marked(&mark);
        if found.is_empty() || Instant::now() > until {
            return (count, found.is_empty());
        }
        count = count.max(found.len());
        super::tree::signal(&found, Signal::KILL);
        #[expect(clippy::disallowed_methods, reason = "nothing is served yet")]
        std::thread::sleep(PAUSE);
    }
}

/// Processes that have this text as a variable of their environment. One that has ended has none.
fn marked(mark: &[u8]) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark)
            .then_some(pid)
    });
    processes.collect()
}
