//! Logs: to standard error, one line an event, without secrets (I11).

use std::io::{IsTerminal as _, Write};
use std::sync::{Arc, LazyLock, OnceLock};

use talaria_text::redact::Redactor;
use tracing_subscriber::EnvFilter;

/// Knows what a secret looks like, until the server's own are read.
static SHAPES: LazyLock<Redactor> = LazyLock::new(Redactor::default);
/// Knows the server's own secrets too.
static OWN: OnceLock<Arc<Redactor>> = OnceLock::new();

/// Begins to log. A filter that can't be read is replaced by `info`.
pub(crate) fn start(filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let is_terminal = std::io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Redacted(std::io::stderr()))
        .with_ansi(is_terminal)
        // It would complain to standard error, and panic when that is what can't be written: on a full disk, for example.
        .log_internal_errors(false);
    // Somebody who has set a subscriber before keeps it.
    drop(subscriber.try_init());
}

/// From now on no line shows what this redactor knows. The first server of a process decides.
pub(crate) fn redact_with(redactor: Arc<Redactor>) {
    drop(OWN.set(redactor));
}

/// A text for a person at the terminal, without secrets.
pub(crate) fn shown(text: &str) -> std::borrow::Cow<'_, str> {
    OWN.get().map_or(&*SHAPES, |own| &**own).redact(text)
}

/// Each event comes as one whole line.
struct Redacted<W>(W);

impl<W: Write> Write for Redacted<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(shown(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
