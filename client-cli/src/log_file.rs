//! The end of a log, and what is added to it.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};

/// How often a log is looked at.
const POLL: Duration = Duration::from_millis(200);
/// How much is read at once, in bytes.
const PIECE: u64 = 64 * 1024;

/// The last lines of a file, which may be long; nothing when there is no file.
pub(crate) fn tail(path: &Path, lines: usize) -> std::io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut from = file.metadata()?.len();
    let mut end = Vec::new();
    // The break at the very end begins no line.
    while from > 0 && breaks(&end) <= lines {
        let length = from.min(PIECE);
        from -= length;
        let mut piece = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        (&mut file).take(length).read_to_end(&mut piece)?;
        piece.append(&mut end);
        end = piece;
    }
    let skipped = end.split_inclusive(|byte| *byte == b'\n').count().saturating_sub(lines);
    Ok(end
        .split_inclusive(|byte| *byte == b'\n')
        .skip(skipped)
        .flatten()
        .copied()
        .collect())
}

fn breaks(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Passes on what is added to a file from `from` on, for as long as `show` takes it. A file that became shorter is begun anew.
pub(crate) async fn follow(path: &Path, mut from: u64, mut show: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    loop {
        let added = added(path, &mut from);
        let added = added.map_err(|error| Error::Local(format!("{} can't be read: {error}", path.display())))?;
        if added.is_empty() {
            tokio::time::sleep(POLL).await;
        } else {
            show(&added)?;
        }
    }
}

fn added(path: &Path, from: &mut u64) -> std::io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        // It comes with the next start of the server.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() < *from {
        *from = 0;
    }
    file.seek(SeekFrom::Start(*from))?;
    let mut piece = Vec::new();
    *from += file.take(PIECE).read_to_end(&mut piece)? as u64;
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_tail_is_the_last_lines(lines in proptest::collection::vec("[a-zü]{0,9}", 0..30), count in 0_usize..40, is_ended: bool) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            let text = lines.join("\n") + if is_ended { "\n" } else { "" };
            std::fs::write(&path, &text).unwrap();
            let all: Vec<&str> = text.split_inclusive('\n').collect();
            let expected = all[all.len().saturating_sub(count)..].concat();
            prop_assert_eq!(String::from_utf8(tail(&path, count).unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn long_logs_are_read_from_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let text: String = (0..40_000).map(|index| format!("line {index}\n")).collect();
        std::fs::write(&path, text).unwrap();
        assert_eq!(tail(&path, 2).unwrap(), b"line 39998\nline 39999\n");
        assert_eq!(breaks(&tail(&path, 20_000).unwrap()), 20_000);
        assert!(tail(&folder.path().join("none"), 2).unwrap().is_empty());
    }

    #[test]
    fn what_is_added_is_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut from = 0;
        assert!(added(&path, &mut from).unwrap().is_empty(), "a log may come later");
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(added(&path, &mut from).unwrap(), b"one\n");
        assert!(added(&path, &mut from).unwrap().is_empty());
        std::fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(added(&path, &mut from).unwrap(), b"two\n");
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!(
            added(&path, &mut from).unwrap(),
            b"new\n",
            "a log that became shorter is begun anew"
        );
    }
}
