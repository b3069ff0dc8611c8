//! Frames of an event stream.

use eventsource_stream::Eventsource as _;
use futures_util::stream::{BoxStream, StreamExt as _};

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its `id:`, where it is a number of ours.
    pub id: Option<i64>,
    /// Its `event:`.
    pub event: String,
    /// Its `data:`.
    pub data: String,
}

/// The frames of a response, until it ends or breaks.
pub fn frames(response: reqwest::Response) -> BoxStream<'static, Result<Frame, String>> {
    let events = response.bytes_stream().eventsource();
    let frames = events.map(|event| match event {
        Ok(event) => Ok(Frame {
            id: event.id.parse().ok(),
            event: event.event,
            data: event.data,
        }),
        Err(error) => Err(error.to_string()),
    });
    frames.boxed()
}
