//! How long a provider asks to wait: in its headers, or in its words.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Longest wait that a provider can ask for.
const MAX: Duration = Duration::from_secs(600);

/// What the headers ask for: milliseconds, seconds, or a date.
pub(crate) fn in_headers(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return bounded(millis / 1_000.0);
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = value.parse::<f64>() {
        return bounded(seconds);
    }
    let until = httpdate::parse_http_date(value).ok()?;
    Some(until.duration_since(now).unwrap_or_default().min(MAX))
}

/// What a text asks for, such as `Please try again in 1m30.5s`.
pub(crate) fn in_words(text: &str) -> Option<Duration> {
    let text = text.to_lowercase();
    let (_, mut rest) = ["retry in ", "try again in "]
        .iter()
        .find_map(|words| text.split_once(words))?;
    let mut seconds = None;
    while let Some((part, after)) = first_part(rest) {
        seconds = Some(seconds.unwrap_or(0.0) + part);
        rest = after;
    }
    bounded(seconds?)
}

/// The seconds of the number and the unit that a text begins with, and what follows them.
fn first_part(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let (number, rest) = split_where(text, |letter| !letter.is_ascii_digit() && letter != '.');
    let (unit, rest) = split_where(rest.trim_start(), |letter| !letter.is_ascii_alphabetic());
    let factor = match unit {
        "ms" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor, rest))
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at_checked(text.find(ends).unwrap_or(text.len()))
        .unwrap_or((text, ""))
}

fn bounded(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).map_or(MAX, |wait| wait.min(MAX)))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn fault_f10_headers_in_all_their_forms() {
        let now = httpdate::parse_http_date("Tue, 01 Dec 2026 12:00:00 GMT").unwrap();
        for (name, value, expected) in [
            ("retry-after", "7", Some(7_000)),
            ("retry-after", " 1.5 ", Some(1_500)),
            ("retry-after", "0", Some(0)),
            ("retry-after", "99999999999999999999", Some(600_000)),
            ("retry-after", "-1", None),
            ("retry-after", "NaN", None),
            ("retry-after", "soon", None),
            ("retry-after", "Tue, 01 Dec 2026 12:01:30 GMT", Some(90_000)),
            ("retry-after", "Tuesday, 01-Dec-26 12:01:30 GMT", Some(90_000)),
            ("retry-after", "Tue, 01 Dec 2026 11:00:00 GMT", Some(0)),
            ("retry-after", "Tue, 01 Dec 2026 23:00:00 GMT", Some(600_000)),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after-ms", "x", None),
            ("x-other", "7", None),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
            let expected = expected.map(Duration::from_millis);
            assert_eq!(in_headers(&headers, now), expected, "{name}: {value}");
        }
        let both = [("retry-after", "7"), ("retry-after-ms", "6500")]
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        let exact = Some(Duration::from_millis(6_500));
        assert_eq!(in_headers(&HeaderMap::from_iter(both), now), exact, "the finer one");
    }

    #[test]
    fn fault_f10_words_of_providers() {
        for (text, expected) in [
            ("limit: 20\nPlease retry in 58.5s.", Some(58_500)),
            ("Please try again in 6ms. Visit", Some(6)),
            ("Please try again in 1m30.5s", Some(90_500)),
            ("try again in 2 minutes and be patient", Some(120_000)),
            ("try again in 7h12m", Some(600_000)),
            ("try again in a moment", None),
            ("retry in 5 parsecs", None),
            ("retry in 5", None),
            ("slow down", None),
        ] {
            assert_eq!(in_words(text), expected.map(Duration::from_millis), "{text}");
        }
    }
}
