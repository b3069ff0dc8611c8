//! Keys that show by themselves what they are: those of vendors, signed tokens, passwords in addresses.

use super::edit::Edit;
use super::shape::{is_placeholder, is_random};
use super::vendors::{Alphabet, Vendor, beginning_with};
use super::work;

/// How a JSON web token begins: `{"` in base64.
const JWT: &[u8] = b"eyJ";
/// Longest first part of a token that is looked through for its dot.
const MAX_JWT_HEADER: usize = 512;
/// Shortest first and second part of a token.
const MIN_JWT_PART: usize = 8;
/// Digits of a Telegram bot's number.
const BOT_DIGITS: std::ops::RangeInclusive<usize> = 8..=10;
/// Characters after it.
const BOT_KEY: usize = 35;
/// Prefixes as short as this prove little.
const SHORT_PREFIX: usize = 3;

/// Finds keys in a word of ASCII that stands at `offset` of the text.
pub(super) fn find(word: &str, offset: usize, edits: &mut Vec<Edit>) {
    let mut at = 0;
    while at < word.len() {
        match key_at(word, at) {
            Some((end, kind)) => {
                edits.push(Edit::secret(offset + at, offset + end, kind));
                at = end;
            }
            None => at = next_start(word, at),
        }
    }
}

/// The next place where a key may begin.
fn next_start(word: &str, at: usize) -> usize {
    work::note(1);
    let mut next = at + 1;
    while next < word.len() && !is_start(word, next) {
        work::note(1);
        next += 1;
    }
    next
}

/// A key begins where no letter, digit or `_` stands before it, or after `%XX`.
fn is_start(word: &str, at: usize) -> bool {
    let bytes = word.as_bytes();
    let Some(before) = at.checked_sub(1).and_then(|at| bytes.get(at)) else {
        return true;
    };
    if !before.is_ascii_alphanumeric() && *before != b'_' {
        return true;
    }
    let escape = at.checked_sub(3).and_then(|start| bytes.get(start..at));
    matches!(escape, Some([b'%', a, b]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
}

fn key_at(word: &str, at: usize) -> Option<(usize, &'static str)> {
    let rest = word.get(at..)?;
    let first = *rest.as_bytes().first()?;
    for (prefix, vendor) in beginning_with(first) {
        work::note(1);
        let length = rest
            .strip_prefix(prefix)
            .and_then(|body| body_length(body, vendor, prefix));
        if let Some(length) = length {
            return Some((at + prefix.len() + length, vendor.kind));
        }
    }
    jwt(rest)
        .map(|length| (at + length, "jwt"))
        .or_else(|| bot_key(rest).map(|length| (at + length, "telegram")))
}

fn run(bytes: &[u8], alphabet: Alphabet, limit: usize) -> usize {
    let length = bytes.iter().take(limit).take_while(|byte| alphabet.has(**byte)).count();
    work::note(length + 1);
    length
}

fn body_length(body: &str, vendor: &Vendor, prefix: &str) -> Option<usize> {
    let bytes = body.as_bytes();
    let length = without_dots(bytes, run(bytes, vendor.alphabet, vendor.max + 2));
    // A narrow alphabet ends where the word goes on: then it was another word.
    let goes_on = bytes
        .get(length)
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let is_wide = vendor.alphabet.has(b'-');
    let is_short = prefix.len() <= SHORT_PREFIX;
    // What hangs on a key with a `-` can't be told from it, unless the length is all that tells the key.
    let is_too_long = length > vendor.max && (!is_wide || (is_short && vendor.min == vendor.max));
    if (goes_on && !is_wide) || length < vendor.min || is_too_long {
        return None;
    }
    let key = body.get(..length)?;
    work::note(length);
    // Words joined by marks may follow a short prefix as well.
    let may_be_words = is_short && vendor.alphabet.has(b'_');
    if is_placeholder(key) || (may_be_words && !is_random(key)) {
        return None;
    }
    Some(if length > vendor.max {
        without_dots(bytes, run(bytes, vendor.alphabet, usize::MAX))
    } else {
        length
    })
}

/// The end of a sentence isn't part of a key.
fn without_dots(bytes: &[u8], mut length: usize) -> usize {
    while length > 0 && bytes.get(length - 1) == Some(&b'.') {
        length -= 1;
    }
    length
}

fn jwt(rest: &str) -> Option<usize> {
    let after = rest.as_bytes().strip_prefix(JWT)?;
    let header = run(after, Alphabet::UrlSafe, MAX_JWT_HEADER);
    let payload = after.get(header..)?.strip_prefix(b".")?;
    let length = run(payload, Alphabet::UrlSafe, usize::MAX);
    if header < MIN_JWT_PART || length < MIN_JWT_PART {
        return None;
    }
    let signature = payload.get(length..)?;
    let end = JWT.len() + header + 1 + length + run(signature, Alphabet::Dotted, usize::MAX);
    Some(without_dots(rest.as_bytes(), end))
}

/// `123456789:AA…`, also after the `bot` of an address.
fn bot_key(rest: &str) -> Option<usize> {
    let number = rest.strip_prefix("bot").unwrap_or(rest);
    let digits = number.bytes().take(12).take_while(u8::is_ascii_digit).count();
    let key = number.get(digits..)?.strip_prefix(':')?;
    let length = run(key.as_bytes(), Alphabet::UrlSafe, BOT_KEY + 1);
    let is_key = BOT_DIGITS.contains(&digits) && length == BOT_KEY && is_random(key.get(..length)?);
    is_key.then(|| rest.len() - number.len() + digits + 1 + length)
}

/// Finds passwords in addresses: `scheme://user:password@host`, and keys before the `@`.
pub(super) fn find_in_addresses(word: &str, offset: usize, edits: &mut Vec<Edit>) {
    let mut from = 0;
    while let Some(scheme) = word.get(from..).and_then(|rest| rest.find("://")) {
        let start = from + scheme + 3;
        let authority = word.get(start..).unwrap_or_default();
        let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
        work::note(authority.len() + scheme);
        from = start + authority.len();
        let Some((user, _)) = authority.rsplit_once('@') else {
            continue;
        };
        let (secret_start, is_secret) = match user.split_once(':') {
            Some((name, password)) => (start + name.len() + 1, !password.is_empty() && !is_example(password)),
            None => (start, user.len() >= 16 && is_random(user) && !is_placeholder(user)),
        };
        if is_secret {
            let (start, end) = (offset + secret_start, offset + start + user.len());
            edits.push(Edit::secret(start, end, "url-password"));
        }
    }
}

/// Passwords of addresses may be short and simple, so only clear examples are left.
fn is_example(password: &str) -> bool {
    password.starts_with('$')
        || password.bytes().all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.'))
        || [
            "password",
            "pass",
            "pwd",
            "secret",
            "example",
            "changeme",
            "your-password",
        ]
        .iter()
        .any(|word| password.eq_ignore_ascii_case(word))
}

/// Whether a word that isn't whole yet may still turn out to hold a key that begins in what is here.
pub(super) fn may_become_key(word: &str) -> bool {
    (0..word.len())
        .filter(|at| is_start(word, *at))
        .filter_map(|at| word.get(at..))
        .any(may_begin_key)
}

fn may_begin_key(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let Some(first) = bytes.first() else { return false };
    let grows = |prefix: &str| prefix.starts_with(rest) || rest.starts_with(prefix);
    let number = rest.strip_prefix("bot").unwrap_or(rest);
    beginning_with(*first).iter().any(|(prefix, _)| grows(prefix))
        || grows("eyJ")
        || "bot".starts_with(rest)
        || number.bytes().all(|byte| byte.is_ascii_digit())
}
