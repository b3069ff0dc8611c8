//! What a client accepts (RFC 9110, 12.5.1), in the part that this server needs: is a media type wanted at all?

use axum::http::{HeaderMap, header};

/// Whether a client that sent these headers wants an answer of this media type.
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut ranges = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|range| !range.is_empty())
        .peekable();
    if ranges.peek().is_none() {
        return true;
    }
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    // The most exact range decides: `*/*, image/png;q=0` wants anything but PNG.
    let best = ranges
        .filter_map(|range| Some((exactness(range, essence)?, range)))
        .max_by_key(|(exactness, _)| *exactness);
    best.is_some_and(|(_, range)| !is_unwanted(range))
}

/// How exactly a range names a type: 2 by its name, 1 by its kind, 0 as any type; `None` when it doesn't.
fn exactness(range: &str, essence: &str) -> Option<u8> {
    let range = range.split(';').next().unwrap_or_default().trim();
    if range.eq_ignore_ascii_case(essence) {
        return Some(2);
    }
    let (kind, subtype) = range.split_once('/')?;
    let of_kind = essence
        .split_once('/')
        .is_some_and(|(own, _)| own.eq_ignore_ascii_case(kind));
    match (kind, subtype) {
        ("*", "*") => Some(0),
        (_, "*") if of_kind => Some(1),
        _ => None,
    }
}

fn is_unwanted(range: &str) -> bool {
    range
        .split(';')
        .skip(1)
        .filter_map(|parameter| parameter.trim().strip_prefix("q="))
        .any(|quality| quality.trim().parse() == Ok(0.0_f32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted() {
        for (accept, media_type, expected) in [
            ("", "application/json", true),
            ("*/*", "application/json", true),
            ("application/json", "application/json; charset=utf-8", true),
            ("APPLICATION/JSON;q=0.5", "application/json", true),
            ("application/*", "application/json", true),
            ("text/event-stream, application/json", "application/json", true),
            ("image/png", "application/json", false),
            ("image/*, text/html", "application/json", false),
            ("*/*, application/json;q=0", "application/json", false),
            ("application/json;q=0, */*", "text/event-stream", true),
            ("nonsense", "application/json", false),
            ("text/*", "text/event-stream", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(accepts(&headers, media_type), expected, "{accept} for {media_type}");
        }
    }
}
