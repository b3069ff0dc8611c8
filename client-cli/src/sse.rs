//! Frames of an event stream.

use std::time::Duration;

use eventsource_stream::Eventsource as _;
use futures_util::stream::{BoxStream, Stream, StreamExt as _};

/// Servers send a comment each 15 seconds when there is nothing else: so long a silence is a dead peer.
const SILENCE: Duration = Duration::from_secs(50);

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its `id:`, where it is a number of ours.
    pub id: Option<i64>,
    /// Its `event:`.
    pub event: String,
    /// Its `data:`.
    pub data: String,
    /// Its `retry:`.
    pub retry: Option<Duration>,
}

/// The frames of a response, until it ends, breaks, or is silent for too long.
pub fn frames(response: reqwest::Response) -> BoxStream<'static, Result<Frame, String>> {
    let bytes = response
        .bytes_stream()
        .map(|piece| piece.map_err(|error| error.to_string()));
    frames_of(bytes.boxed())
}

fn frames_of<B>(bytes: BoxStream<'static, Result<B, String>>) -> BoxStream<'static, Result<Frame, String>>
where
    B: AsRef<[u8]> + Send + 'static,
{
    let events = until_silence(bytes).eventsource();
    let frames = events.map(|event| match event {
        Ok(event) => Ok(Frame {
            id: event.id.parse().ok(),
            event: event.event,
            data: event.data,
            retry: event.retry,
        }),
        Err(error) => Err(error.to_string()),
    });
    frames.boxed()
}

fn until_silence<B: Send + 'static>(
    bytes: BoxStream<'static, Result<B, String>>,
) -> impl Stream<Item = Result<B, String>> + Send {
    futures_util::stream::unfold(Some(bytes), |bytes| async {
        let mut bytes = bytes?;
        match tokio::time::timeout(SILENCE, bytes.next()).await {
            Ok(piece) => piece.map(|piece| (piece, Some(bytes))),
            Err(_) => Some((Err("the server fell silent".to_owned()), None)),
        }
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn comments_keep_a_stream_alive_and_silence_ends_it() {
        let began = Instant::now();
        let comments = futures_util::stream::iter(0..8).then(|_| async {
            sleep(Duration::from_secs(15)).await;
            Ok(": hb\n")
        });
        let frame = futures_util::stream::iter([Ok("retry: 70\nid: 1\ndata: x\n\n")]);
        let pieces = comments.chain(frame).chain(futures_util::stream::pending());
        let frames: Vec<_> = frames_of(pieces.boxed()).collect().await;
        let frame = Frame {
            id: Some(1),
            event: "message".to_owned(),
            data: "x".to_owned(),
            retry: Some(Duration::from_millis(70)),
        };
        assert_eq!(frames.len(), 2, "{frames:?}");
        assert_eq!(frames[0], Ok(frame));
        assert!(
            frames[1].as_ref().is_err_and(|error| error.contains("silent")),
            "{frames:?}"
        );
        assert!(began.elapsed() >= Duration::from_secs(8 * 15) + SILENCE);
    }
}
