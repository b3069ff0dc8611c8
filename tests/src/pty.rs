//! A program on a terminal, and a person at it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal with a program on it.
pub struct Pty {
    child: Child,
    keyboard: File,
    screen: Arc<Screen>,
    reading: JoinHandle<()>,
    /// What was waited for is behind here.
    looked_until: usize,
}

#[derive(Default)]
struct Screen {
    bytes: Mutex<Vec<u8>>,
    changed: Condvar,
}

impl Pty {
    /// Starts a program on a terminal of so many columns.
    pub fn start(mut command: Command, columns: u16) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let side: OwnedFd = File::options().read(true).write(true).open(name).unwrap().into();
        let again = || side.as_fd().try_clone_to_owned().unwrap();
        let child = command.stdin(again()).stdout(again()).stderr(again()).spawn().unwrap();
        let (screen, mut output) = (Arc::<Screen>::default(), File::from(terminal.try_clone().unwrap()));
        let shown = Arc::clone(&screen);
        let reading = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // The last writer's end is an error here, not an end of file.
            while let Ok(length) = output.read(&mut piece) {
                shown.bytes.lock().unwrap().extend_from_slice(&piece[..length]);
                shown.changed.notify_all();
            }
        });
        Self {
            child,
            keyboard: File::from(terminal),
            screen,
            reading,
            looked_until: 0,
        }
    }

    /// Types something, with the Enter key behind it.
    pub fn enter(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\r").as_bytes()).unwrap();
    }

    /// Waits until a text appears, behind what was waited for before.
    pub fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        let mut bytes = self.screen.bytes.lock().unwrap();
        loop {
            let fresh = &bytes[self.looked_until..];
            if let Some(at) = fresh.windows(text.len()).position(|window| window == text.as_bytes()) {
                self.looked_until += at + text.len();
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "{text:?} doesn't appear: {}",
                String::from_utf8_lossy(&bytes)
            );
            bytes = self.screen.changed.wait_timeout(bytes, left).unwrap().0;
        }
    }

    /// Waits for the program's end; gives everything that it wrote.
    pub fn finish(mut self) -> String {
        self.child.wait().unwrap();
        self.reading.join().unwrap();
        let bytes = std::mem::take(&mut *self.screen.bytes.lock().unwrap());
        String::from_utf8(bytes).unwrap()
    }
}
