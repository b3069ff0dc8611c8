//! How long a provider asks to wait.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Nobody is made to wait longer than this, whatever a provider says.
pub const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// The wait that an answer's headers ask for: `retry-after-ms`, or `Retry-After` as seconds or as a date.
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let wait = text("retry-after-ms")
        .and_then(|value| value.parse::<f64>().ok())
        .and_then(|millis| finite_wait(millis / 1000.0))
        .or_else(|| text(RETRY_AFTER.as_str()).and_then(|value| wait_from_text(value, now)))?;
    Some(wait.min(LONGEST_WAIT))
}

fn wait_from_text(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.parse::<f64>() {
        return finite_wait(seconds);
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    // A date that has passed means: now.
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

fn finite_wait(seconds: f64) -> Option<Duration> {
    (seconds.is_finite() && seconds >= 0.0)
        .then(|| Duration::from_secs_f64(seconds.min(LONGEST_WAIT.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(name: &'static str, value: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        retry_after(&headers, "1994-11-06T08:49:07Z".parse().unwrap())
    }

    #[test]
    fn seconds_dates_and_milliseconds_are_understood() {
        let cases = [
            ("retry-after", "7", Some(7_000)),
            ("retry-after", "1.5", Some(1_500)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT", Some(30_000)),
            ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("retry-after", "99999", Some(600_000)),
            ("retry-after", "1e300", Some(600_000)),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after", "-1", None),
            ("retry-after", "NaN", None),
            ("retry-after", "soon", None),
        ];
        for (name, value, expected) in cases {
            assert_eq!(wait(name, value), expected.map(Duration::from_millis), "{name}: {value}");
        }
    }

    #[test]
    fn milliseconds_win_over_seconds() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "1".parse().unwrap());
        headers.insert("retry-after-ms", "1200".parse().unwrap());
        assert_eq!(retry_after(&headers, Timestamp::UNIX_EPOCH), Some(Duration::from_millis(1_200)));
    }
}
