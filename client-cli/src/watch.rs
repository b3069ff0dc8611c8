//! Watches a run: every event exactly once and in order, whatever happens to the connection.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use talaria_openapi::events::{ControlEvent, Event};
use talaria_openapi::ids::RunId;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::sse::{Frame, frames};

const FIRST_DELAY: Duration = Duration::from_millis(200);
const LAST_DELAY: Duration = Duration::from_secs(5);

/// An event, with the exact text that the server sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// The event.
    pub event: Event,
    /// The text of its `data:` line.
    pub data: String,
}

/// The events of one run. Connects by itself, and again for as long as it takes.
pub struct RunWatch {
    client: Client,
    run_id: RunId,
    last: Option<i64>,
    stream: Option<BoxStream<'static, std::result::Result<Frame, String>>>,
    ready: VecDeque<Watched>,
    /// How long to wait before the next connection; nothing before the first one.
    delay: Duration,
    is_over: bool,
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
            delay: Duration::ZERO,
            is_over: false,
        }
    }

    /// The next event; `None` when the run has ended. Fails only when the server refuses for good.
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
                    Some(Err(_)) | None => self.stream = None,
                },
            }
        }
    }

    async fn connect(&mut self) -> Result<()> {
        tokio::time::sleep(self.delay).await;
        // Grows until an event arrives: a connection that opens and ends at once is no progress.
        self.delay = (self.delay * 2).clamp(FIRST_DELAY, LAST_DELAY);
        match self.client.open_run_stream(self.run_id, self.last).await {
            Ok(Some(response)) => self.stream = Some(frames(response)),
            Ok(None) => self.is_over = true,
            Err(Error::Unreachable { .. }) => {}
            Err(Error::Problem(problem)) if problem.retryable => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame) -> Result<()> {
        if frame.event.starts_with("stream.") {
            // One of a later version is skipped: what it says is no part of the log.
            if let Ok(control) = serde_json::from_str(&frame.data) {
                self.obey(&control);
            }
            return Ok(());
        }
        let event = Event::parse(&frame.data).map_err(|error| Error::Protocol(error.to_string()))?;
        self.delay = FIRST_DELAY;
        // Delivery is at least once: what was seen is skipped.
        if self.last.is_none_or(|last| event.seq > last) {
            self.last = Some(event.seq);
            self.ready.push_back(Watched {
                event,
                data: frame.data,
            });
        }
        Ok(())
    }

    fn obey(&mut self, control: &ControlEvent) {
        match control {
            ControlEvent::StreamOpen { .. } => {}
            ControlEvent::StreamReset { head_seq, .. } => self.last = Some(*head_seq),
            ControlEvent::StreamEnd {
                reconnect, retry_ms, ..
            } => {
                self.is_over = !reconnect;
                self.stream = None;
                self.delay = retry_ms.map_or(FIRST_DELAY, Duration::from_millis).min(LAST_DELAY);
            }
        }
    }
}
