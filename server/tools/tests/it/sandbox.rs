//! Commands that do their worst: what they reach, what they take, and that nothing of them stays.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use talaria_tools::paths::DeniedPaths;
use talaria_tools::sandbox::{Command, End, Kernel, Limits, Piece, Report, Running, Sandbox, Stream};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sandbox-exec-for-tests");
/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

struct Cage {
    folder: tempfile::TempDir,
    sandbox: Sandbox,
    command: Command,
}

/// A workspace inside a server's home, beside a person's home.
fn cage(script: &str) -> Cage {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["home/ws", "user/.ssh", "elsewhere"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("home/token"), "secret").unwrap();
    std::fs::write(root.join("user/.ssh/id_ed25519"), "secret").unwrap();
    std::fs::write(root.join("user/notes"), "notes").unwrap();
    let denied = DeniedPaths::new(&root.join("home"), Some(&root.join("user")));
    let command = Command {
        argv: ["/bin/bash", "-c", script].map(str::to_owned).to_vec(),
        folder: root.join("home/ws"),
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin:/usr/sbin:/sbin".to_owned())]),
        writable: vec![root.join("home/ws")],
        limits: Limits::default(),
        timeout: PATIENCE,
        grace: Duration::from_millis(200),
        merge_output: false,
    };
    Cage {
        sandbox: Sandbox::new(Some(PROGRAM.into()), &denied),
        folder,
        command,
    }
}

impl Cage {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    async fn start(&self) -> Running {
        self.command.clone().spawn(&self.sandbox).await.unwrap()
    }

    /// Runs to the end: output, errors, report.
    async fn run(&self) -> (String, String, Report) {
        let mut running = self.start().await;
        let (mut stdout, mut stderr) = (String::new(), String::new());
        while let Some(piece) = running.next().await {
            match piece.stream {
                Stream::Stdout => stdout.push_str(&piece.text),
                Stream::Stderr => stderr.push_str(&piece.text),
            }
        }
        (stdout, stderr, running.wait().await)
    }

    /// The output of a command that must go well.
    async fn output(&self) -> String {
        let (stdout, stderr, report) = self.run().await;
        assert_eq!(report.end, End::Exited(0), "{stdout}{stderr}");
        stdout
    }
}

/// A number of seconds that no other process sleeps.
fn marker() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    format!("7{:09}", RandomState::new().hash_one(0) % 1_000_000_000)
}

/// Processes of this host that were started with `marker` as an argument of its own.
fn alive(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command_lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    command_lines
        .filter(|line| line.split(|byte| *byte == 0).any(|part| part == marker.as_bytes()))
        .count()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for the first piece of output.
async fn first(running: &mut Running) -> Piece {
    running.next().await.unwrap()
}

#[tokio::test]
async fn a_command_has_its_folder_its_environment_and_two_outputs() {
    let mut cage = cage("pwd; env | sort; echo wrong >&2; cat; exit 3");
    let (stdout, stderr, report) = cage.run().await;
    let names: Vec<&str> = stdout
        .lines()
        .skip(1)
        .filter_map(|line| line.split('=').next())
        .collect();
    assert_eq!(stdout.lines().next(), cage.path("home/ws").to_str());
    assert_eq!(
        names,
        ["PATH", "PWD", "SHLVL", "TALARIA_SANDBOX", "_"],
        "nothing of the server's environment"
    );
    assert_eq!(stderr, "wrong\n");
    let expected = Report {
        end: End::Exited(3),
        left_behind: 0,
        still_alive: 0,
        is_confined: Kernel::probe().confines_files(),
    };
    assert_eq!(report, expected);

    cage.command.argv[2] = "echo 1; echo 2 >&2; echo 3".to_owned();
    cage.command.merge_output = true;
    assert_eq!(cage.output().await, "1\n2\n3\n", "in their order");
}

#[tokio::test]
async fn what_can_not_be_started_says_why() {
    let mut cage = cage("");
    cage.command.argv = vec!["/no/such/program".to_owned()];
    let (_, _, report) = cage.run().await;
    assert!(
        matches!(&report.end, End::NotStarted(why) if why.contains("No such file")),
        "{report:?}"
    );
    cage.command.argv = vec!["/bin/true".to_owned()];
    cage.command.folder = "/no/such/folder".into();
    let (_, _, report) = cage.run().await;
    assert!(matches!(report.end, End::NotStarted(_)), "{report:?}");
}

#[tokio::test]
async fn files_out_of_bounds_stay_out_of_reach() {
    assert!(
        Kernel::probe().confines_files(),
        "these tests need a kernel with landlock"
    );
    let mut cage = cage("");
    let [home, user, elsewhere] = ["home", "user", "elsewhere"].map(|name| cage.path(name).display().to_string());
    std::os::unix::fs::symlink(cage.path("home/token"), cage.path("home/ws/link")).unwrap();
    std::os::unix::fs::symlink(cage.path("user/.ssh"), cage.path("elsewhere/keys")).unwrap();
    let me = std::process::id();
    for forbidden in [
        format!("cat {home}/token"),
        format!("cat {user}/.ssh/id_ed25519"),
        "cat link".to_owned(),
        format!("cat {elsewhere}/keys/id_ed25519"),
        "cat ../token".to_owned(),
        format!("cat /proc/self/root{home}/token"),
        format!("cat /proc/{me}/root{home}/token"),
        format!("cat /proc/{me}/environ"),
        "cat /proc/$PPID/environ".to_owned(),
        format!("ln {home}/token ./hard"),
        format!("mv {home}/token ./moved"),
        format!("echo x > {elsewhere}/file"),
        format!("echo x > {user}/notes"),
        format!("mkdir {user}/.aws"),
        format!("rm {user}/notes"),
        format!("touch {home}/new"),
        "echo x > /var/tmp/talaria-test".to_owned(),
        "echo h > /proc/sysrq-trigger".to_owned(),
        "mknod ./disk b 1 0".to_owned(),
        "echo x > /dev/ptmx".to_owned(),
        "for disk in /dev/[vsn]d[a-z] /dev/loop0 /dev/mem; do head -c1 $disk && exit 0; done; exit 1".to_owned(),
        format!("kill -0 {me}"),
        "kill -0 $PPID".to_owned(),
        "mount -t tmpfs none .".to_owned(),
        "unshare -Ur true && unshare -Urm mount -t tmpfs none .".to_owned(),
    ] {
        cage.command.argv[2].clone_from(&forbidden);
        let (stdout, _, report) = cage.run().await;
        assert_ne!(report.end, End::Exited(0), "{forbidden}");
        assert!(!stdout.contains("secret"), "{forbidden}");
    }
    for allowed in [
        "echo x > file && mkdir folder && mv file folder/ && rm -r folder".to_owned(),
        format!("cat {user}/notes && ls {user}/.ssh"),
        "echo x > /dev/null && head -c1 /dev/urandom".to_owned(),
        "echo x > /dev/stdout; cat < /dev/null; cat <<< here".to_owned(),
        "cat /proc/self/status /etc/passwd && ls /usr/bin /tmp".to_owned(),
    ] {
        cage.command.argv[2].clone_from(&allowed);
        cage.output().await;
    }
}

#[tokio::test]
async fn no_capability_and_no_way_to_one_is_left() {
    let cage = cage("grep -E '^(Cap...|NoNewPrivs):' /proc/self/status; ulimit -c; ulimit -n");
    let output = cage.output().await;
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        // Who is not root can't empty the bounding set, and gains nothing from it without new privileges.
        let is_bounded = name != "CapBnd" || rustix::process::getuid().is_root();
        assert!(
            !is_bounded || output.contains(&format!("{name}:\t0000000000000000")),
            "{output}"
        );
    }
    assert!(output.contains("NoNewPrivs:\t1"), "{output}");
    let limits: Vec<&str> = output.lines().rev().take(2).collect();
    assert_eq!(limits[1], "0");
    assert!(limits[0].parse::<u64>().unwrap() <= 4096);
}

#[tokio::test]
async fn fault_c2_a_command_that_ignores_the_end_is_ended() {
    let marker = marker();
    let cage = cage(&format!(
        "trap '' TERM INT HUP; echo on; while :; do sleep {marker}; done"
    ));
    let mut running = cage.start().await;
    first(&mut running).await;
    running.cancel(Duration::from_millis(100)).await;
    assert_eq!(running.wait().await.end, End::Cancelled);
    assert_eq!(alive(&marker), 0);
}

#[tokio::test]
async fn a_command_has_time_to_end_by_itself() {
    let cage = cage("trap 'echo bye; exit 0' TERM; echo on; while :; do :; done");
    let mut running = cage.start().await;
    assert_eq!(first(&mut running).await.text, "on\n");
    running.cancel(PATIENCE).await;
    assert_eq!(running.next().await.unwrap().text, "bye\n");
    let report = running.wait().await;
    assert_eq!(report.end, End::Cancelled);
    assert_eq!(running.wait().await, report, "asked again");
}

#[tokio::test]
async fn what_takes_too_long_is_ended() {
    let marker = marker();
    let mut cage = cage(&format!("sleep {marker}"));
    cage.command.timeout = Duration::from_millis(100);
    let (_, _, report) = cage.run().await;
    assert_eq!(report.end, End::TimedOut);
    assert_eq!(alive(&marker), 0);
}

/// Detaches itself from everything that a parent could hold it by.
fn detached(marker: &str) -> String {
    format!(
        "( setsid -f bash -c 'trap \"\" TERM HUP; (setsid -f sleep {marker}); echo up > up; sleep {marker}' >/dev/null & )"
    )
}

#[tokio::test]
async fn what_a_command_leaves_running_is_ended_with_it() {
    let marker = marker();
    let script = format!("{}; until [ -s up ]; do :; done; echo done", detached(&marker));
    let cage = cage(&script);
    let (stdout, stderr, report) = cage.run().await;
    assert_eq!((stdout.as_str(), &report.end), ("done\n", &End::Exited(0)), "{stderr}");
    assert!(report.left_behind > 0, "{report:?}");
    assert_eq!(alive(&marker), 0);
}

#[tokio::test]
async fn what_ends_by_itself_just_after_its_command_is_not_disturbed() {
    let cage = cage("echo x > >(trap 'echo disturbed' TERM; sleep 0.02; cat; echo y)");
    let (stdout, stderr, report) = cage.run().await;
    assert_eq!((stdout.as_str(), report.left_behind), ("x\ny\n", 0), "{stderr}");
}

#[tokio::test]
async fn inv_i16_without_a_server_no_process_stays() {
    let marker = marker();
    let cage = cage(&format!("{}; echo on; sleep {marker}", detached(&marker)));
    let mut running = cage.start().await;
    first(&mut running).await;
    until("three sleep", || alive(&marker) == 3).await;
    let supervisor = running.supervisor().unwrap();
    drop(running);
    until("all are gone", || alive(&marker) == 0).await;
    // The runtime takes leave of the supervisor, too.
    until("the supervisor is gone", || {
        let state = std::fs::read_to_string(format!("/proc/{supervisor}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    })
    .await;
}

#[tokio::test]
async fn a_killed_supervisor_takes_its_command_along_and_is_noticed() {
    let marker = marker();
    let cage = cage(&format!("echo on; exec sleep {marker}"));
    let mut running = cage.start().await;
    first(&mut running).await;
    let supervisor = rustix::process::Pid::from_raw(running.supervisor().unwrap().try_into().unwrap());
    rustix::process::kill_process(supervisor.unwrap(), rustix::process::Signal::KILL).unwrap();
    assert_eq!(running.wait().await.end, End::Lost);
    until("the command is gone", || alive(&marker) == 0).await;
}

#[tokio::test]
async fn what_outlives_its_supervisor_is_ended_at_the_next_start() {
    let marker = marker();
    let script = format!("{}; until [ -s up ]; do :; done; echo on", detached(&marker));
    let cage = cage(&format!("{script}; exec sleep {marker}"));
    let mut running = cage.start().await;
    first(&mut running).await;
    until("three sleep", || alive(&marker) == 3).await;
    let supervisor = rustix::process::Pid::from_raw(running.supervisor().unwrap().try_into().unwrap());
    rustix::process::kill_process(supervisor.unwrap(), rustix::process::Signal::KILL).unwrap();
    assert_eq!(running.wait().await.end, End::Lost);
    until("two are left", || alive(&marker) == 2).await;
    // The server of another home has no part in it.
    let other = DeniedPaths::new(&cage.path("elsewhere"), None);
    Sandbox::new(Some(PROGRAM.into()), &other).end_leftovers();
    assert_eq!(alive(&marker), 2);
    cage.sandbox.end_leftovers();
    assert_eq!(alive(&marker), 0);
}

#[tokio::test]
async fn a_storm_of_processes_ends() {
    let marker = marker();
    // Each makes two, ten times over: more than the machine would bear, were there no end.
    let storm = format!("storm() {{ (( $1 > 10 )) && exec sleep {marker}; storm $(($1 + 1)) & storm $(($1 + 1)); }}");
    let mut cage = cage(&format!("{storm}; storm 1; wait"));
    cage.command.limits.processes = 60;
    let (_, _, report) = cage.run().await;
    assert_eq!(
        report.end,
        End::LimitExceeded("60 processes at the same time".to_owned())
    );
    assert_eq!(alive(&marker), 0);
}

#[tokio::test]
async fn an_eater_of_memory_ends() {
    let mut cage = cage("for i in 1 2; do head -c 100M /dev/zero | tail & done; wait");
    cage.command.limits.memory_bytes = 64 << 20;
    let (_, _, report) = cage.run().await;
    assert_eq!(report.end, End::LimitExceeded("64 MiB of memory".to_owned()));
}

#[tokio::test]
async fn an_eater_of_the_disk_ends() {
    let mut cage = cage("while :; do head -c 8M /dev/zero > a; done");
    cage.command.limits.written_bytes = 32 << 20;
    let (_, _, report) = cage.run().await;
    let is_tmpfs = report.end == End::TimedOut;
    assert!(
        is_tmpfs || report.end == End::LimitExceeded("32 MiB written".to_owned()),
        "{report:?}"
    );
    cage.command.argv[2] = "head -c 9M /dev/zero > b; echo $?".to_owned();
    cage.command.limits = Limits {
        file_bytes: 8 << 20,
        ..Limits::default()
    };
    assert_eq!(cage.output().await, "153\n", "SIGXFSZ");
    assert_eq!(std::fs::metadata(cage.path("home/ws/b")).unwrap().len(), 8 << 20);
}

#[tokio::test]
async fn hard_h29_a_flood_is_held_up_until_it_is_read() {
    let cage = cage("trap 'exit 9' PIPE; yes äöü");
    let mut running = cage.start().await;
    let mut bytes = 0;
    while bytes < 4 << 20 {
        let piece = first(&mut running).await;
        assert!(piece.text.len() <= 16 * 1024 + 4 && !piece.text.contains('\u{fffd}'));
        bytes += piece.text.len();
    }
    running.cancel(Duration::ZERO).await;
    assert_eq!(running.wait().await.end, End::Cancelled);
}
