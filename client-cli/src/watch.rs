//! Watches a run: every event exactly once and in order, whatever happens to the connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::{BoxStream, Stream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use talaria_openapi::events::{ControlEvent, Event};
use talaria_openapi::ids::RunId;

use crate::backoff::Backoff;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::sse::{Frame, frames};

/// An event, with the exact text that the server sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// The event.
    pub event: Event,
    /// The text of its `data:` line.
    pub data: String,
    /// Whether events before this one were lost, because the log no longer had what the stream should go on with.
    pub after_reset: bool,
}

/// The events of one run. Connects by itself, and again for as long as it takes.
pub struct RunWatch {
    client: Client,
    run_id: RunId,
    last: Option<i64>,
    stream: Option<BoxStream<'static, std::result::Result<Frame, String>>>,
    ready: VecDeque<Watched>,
    backoff: Backoff,
    /// Whether there was a connection: there is no wait before the first one.
    has_connected: bool,
    was_reset: bool,
    is_over: bool,
    connection: Connection,
}

/// Tells from outside how a watch is connected.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    is_lost: Arc<AtomicBool>,
}

impl Connection {
    /// Whether it broke, or could not be made, and is being tried again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    fn set(&self, is_lost: bool) {
        self.is_lost.store(is_lost, Ordering::Relaxed);
    }
}

impl RunWatch {
    /// From the run's first event, or after a given one.
    #[must_use]
    pub fn new(client: Client, run_id: RunId, after: Option<i64>) -> Self {
        Self {
            client,
            run_id,
            last: after,
            stream: None,
            ready: VecDeque::new(),
            backoff: Backoff::default(),
            has_connected: false,
            was_reset: false,
            is_over: false,
            connection: Connection::default(),
        }
    }

    /// How it is connected, now and later.
    #[must_use]
    pub fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// The next event; `None` when the run has ended. Fails only when the server refuses for good.
    ///
    /// Must be awaited to its end: a wait that is dropped begins anew. Use [`RunWatch::into_stream`] where other things happen
    /// at the same time.
    pub async fn next(&mut self) -> Result<Option<Watched>> {
        loop {
            if let Some(watched) = self.ready.pop_front() {
                return Ok(Some(watched));
            }
            if self.is_over {
                return Ok(None);
            }
            match self.stream.as_mut() {
                None => self.connect().await?,
                Some(stream) => match stream.next().await {
                    Some(Ok(frame)) => self.take(frame)?,
                    // The connection broke: only the server says when it is over.
                    Some(Err(_)) | None => {
                        self.stream = None;
                        self.connection.set(true);
                    }
                },
            }
        }
    }

    /// The events as a stream, whose `next` may be dropped at any time. Ends after the first failure.
    pub fn into_stream(self) -> impl Stream<Item = Result<Watched>> + Send {
        futures_util::stream::try_unfold(self, |mut watch| async move {
            let next = watch.next().await?;
            Ok(next.map(|watched| (watched, watch)))
        })
        .into_stream()
    }

    async fn connect(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.has_connected, true) {
            // Grows until an event arrives: a connection that opens and ends at once is no progress.
            self.backoff.wait().await;
            if self.client.look_again().await.is_err() {
                self.connection.set(true);
                return Ok(());
            }
        }
        match self.client.open_run_stream(self.run_id, self.last).await {
            Ok(Some(response)) => self.stream = Some(frames(response)),
            Ok(None) => self.is_over = true,
            Err(Error::Unreachable { .. }) => self.connection.set(true),
            Err(Error::Problem(problem)) if problem.retryable => self.connection.set(true),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame) -> Result<()> {
        self.connection.set(false);
        if let Some(retry) = frame.retry {
            self.backoff.begin_with(retry);
        }
        if frame.event.starts_with("stream.") {
            // One of a later version is skipped: what it says is no part of the log.
            if let Ok(control) = serde_json::from_str(&frame.data) {
                self.obey(&control);
            }
            return Ok(());
        }
        let event = Event::parse(&frame.data).map_err(|error| Error::Protocol(error.to_string()))?;
        self.backoff.succeed();
        // Delivery is at least once: what was seen is skipped.
        if self.last.is_none_or(|last| event.seq > last) {
            self.last = Some(event.seq);
            self.ready.push_back(Watched {
                event,
                data: frame.data,
                after_reset: std::mem::take(&mut self.was_reset),
            });
        }
        Ok(())
    }

    fn obey(&mut self, control: &ControlEvent) {
        match control {
            ControlEvent::StreamOpen { .. } => {}
            ControlEvent::StreamReset { head_seq, .. } => {
                self.last = Some(*head_seq);
                self.was_reset = true;
            }
            ControlEvent::StreamEnd {
                reconnect, retry_ms, ..
            } => {
                self.is_over = !reconnect;
                self.stream = None;
                if let Some(millis) = retry_ms {
                    self.backoff.ask(Duration::from_millis(*millis));
                }
            }
        }
    }
}
