//! Streams that break are gone on with, at the exact event, after a decent wait.

use std::time::Duration;

use crate::fake_server::{Outcome, delta, delta_data, end, numbers, open, over, stream, watch, watch_many};

const SEQUENCE: [i64; 4] = [1, 2, 4, 9];

fn whole(retry_ms: u32, after: i64) -> String {
    let deltas: Vec<String> = SEQUENCE.into_iter().filter(|seq| *seq > after).map(delta).collect();
    format!("{}{}{}", open(retry_ms), deltas.join(": hb\n"), over(9))
}

/// The number of the last event that is whole in a piece of a stream.
fn last_whole(piece: &str) -> Option<i64> {
    let blocks = piece.rsplit_once("\n\n").map_or("", |(blocks, _)| blocks);
    let ids = blocks.split("\n\n").filter_map(|block| {
        let line = block.lines().find(|line| line.starts_with("id: "))?;
        line.strip_prefix("id: ")?.parse().ok()
    });
    ids.last()
}

#[tokio::test]
async fn a_stream_cut_after_any_byte_is_whole_in_the_end() {
    let text = whole(1, 0);
    let outcomes = watch_many(text.len() + 1, |bytes, connection, last| {
        if connection == 0 {
            return [stream("").as_slice(), text.as_bytes().get(..bytes).unwrap()].concat();
        }
        stream(&whole(1, last.unwrap_or(0)))
    })
    .await;
    let expected: Vec<String> = SEQUENCE.into_iter().map(delta_data).collect();
    for (bytes, outcome) in outcomes.into_iter().enumerate() {
        let watched = outcome.watched.unwrap();
        let data: Vec<&str> = watched.iter().map(|watched| watched.data.as_str()).collect();
        assert_eq!(data, expected, "cut after {bytes} bytes");
        assert_eq!(outcome.asked[0].last_event_id, None);
        let piece = text.get(..text.floor_char_boundary(bytes)).unwrap();
        match outcome.asked.get(1) {
            Some(again) => assert_eq!(again.last_event_id, last_whole(piece), "cut after {bytes} bytes"),
            None => assert_eq!(bytes, text.len(), "only the whole stream needs no other"),
        }
    }
}

#[tokio::test]
async fn nothing_more_is_the_end() {
    let outcome = watch(|connection, _| match connection {
        0 => stream(&format!("{}{}", open(1), delta(1))),
        _ => b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_vec(),
    })
    .await;
    assert_eq!(numbers(&outcome.watched.unwrap()), [1]);
    assert_eq!(outcome.asked.len(), 2);
}

#[tokio::test]
async fn events_that_come_twice_are_seen_once() {
    let body = format!("{}{}{}{}{}", open(1), delta(2), delta(1), delta(2), over(2));
    let outcome = watch(|_, _| stream(&body)).await;
    assert_eq!(numbers(&outcome.watched.unwrap()), [2]);
}

#[tokio::test]
async fn what_a_later_version_says_is_skipped() {
    let checkpoint = "id: 3\nevent: stream.checkpoint\ndata: {\"type\":\"stream.checkpoint\",\"seq\":3}\n\n";
    let body = format!("{}{}{checkpoint}{}{}", open(1), delta(1), delta(4), over(4));
    let outcome = watch(|_, _| stream(&body)).await;
    assert_eq!(numbers(&outcome.watched.unwrap()), [1, 4]);
}

#[tokio::test]
async fn after_a_reset_the_stream_goes_on_from_its_head() {
    let reset = "id: 40\nevent: stream.reset\ndata: {\"type\":\"stream.reset\",\"reason\":\"cursor_ahead\",\"oldest_seq\":1,\
                 \"head_seq\":40,\"snapshot_url\":\"/v1/x\"}\n\n";
    let outcome = watch(|connection, _| match connection {
        0 => stream(&format!("{}{}", open(1), delta(99))),
        1 => stream(&format!("{}{reset}", open(1))),
        _ => stream(&format!("{}{}{}{}", open(1), delta(41), delta(42), over(42))),
    })
    .await;
    let watched = outcome.watched.unwrap();
    assert_eq!(numbers(&watched), [99, 41, 42]);
    let resets: Vec<bool> = watched.iter().map(|watched| watched.after_reset).collect();
    assert_eq!(resets, [false, true, false]);
    let cursors: Vec<Option<i64>> = outcome.asked.iter().map(|asked| asked.last_event_id).collect();
    assert_eq!(cursors, [None, Some(99), Some(40)]);
}

fn waits(outcome: &Outcome) -> Vec<Duration> {
    outcome.asked.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
}

#[tokio::test]
async fn waits_begin_with_what_the_server_names_and_grow() {
    let outcome = watch(|connection, _| match connection {
        0..4 => stream(&open(40)),
        4 => stream(&format!("{}{}", open(40), delta(1))),
        _ => stream(&format!("{}{}", open(40), over(1))),
    })
    .await;
    outcome.watched.as_ref().unwrap();
    // The very first one is not yet known to be 40 ms when it begins to grow.
    let waits = waits(&outcome);
    let least = [40, 80, 160, 320, 40].map(Duration::from_millis);
    assert!(waits.iter().zip(least).all(|(wait, least)| *wait >= least), "{waits:?}");
    assert!(
        waits[4] < Duration::from_millis(320),
        "an event is a success: {waits:?}"
    );
}

#[tokio::test]
async fn an_end_that_is_none_names_its_wait() {
    let outcome = watch(|connection, _| match connection {
        0 => stream(&format!(
            "{}{}{}",
            open(1),
            delta(1),
            end(1, "\"reconnect\":true,\"retry_ms\":300")
        )),
        _ => stream(&format!("{}{}", open(1), over(1))),
    })
    .await;
    assert_eq!(numbers(outcome.watched.as_ref().unwrap()), [1]);
    assert!(waits(&outcome)[0] >= Duration::from_millis(300));
}
