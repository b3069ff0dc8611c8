//! What a value looks like: made by chance, or said by somebody.

/// Shortest value that can be a secret.
pub(super) const MIN_SECRET: usize = 8;
/// Letters alone are a secret only from this length on.
const MIN_LETTERS: usize = 20;
/// Fewer different characters than that are a filler such as `xxxx`.
const MIN_DISTINCT: u32 = 5;

/// Parts of values that stand for a secret in examples.
const PLACEHOLDERS: &[&str] = &[
    "example",
    "change",
    "placeholder",
    "your",
    "xxxx",
    "****",
    "....",
    "dummy",
    "redacted",
    "insert",
    "replace",
    "sample",
    "process.env",
    "environ",
    "getenv",
    "import.meta",
];
/// How values begin that refer to something else, or that anybody may know.
const HARMLESS_STARTS: &[&str] = &[
    "$",
    "%",
    "&",
    "/",
    "./",
    "../",
    "~/",
    "sha1:",
    "sha1-",
    "sha256:",
    "sha256-",
    "sha384-",
    "sha512:",
    "sha512-",
    "md5:",
    "ssh-",
    "redacted:",
];

/// Whether a text that stands where a secret belongs is only an example of one.
pub(super) fn is_placeholder(value: &str) -> bool {
    distinct(value) < MIN_DISTINCT || PLACEHOLDERS.iter().any(|part| has_folded(value, part))
}

/// Whether the value of a field with a secret name is a secret.
pub(super) fn is_secret_value(value: &str, kind: &str) -> bool {
    let starts = |start: &&str| {
        value
            .get(..start.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(start))
    };
    value.len() >= MIN_SECRET
        && !HARMLESS_STARTS.iter().any(starts)
        && !value.contains("://")
        && !value.contains("::")
        && (kind == "password" || !is_name(value))
        && !is_placeholder(value)
        && !is_own_id(value)
        && is_random(value)
}

/// Whether a value is the name of something in a program. People choose passwords like `Summer2024`; what a
/// machine makes has its digits everywhere. So `PayloadU16` and `base64.b64encode` are names.
fn is_name(value: &str) -> bool {
    let is_word = |word: &str| {
        let groups = word
            .split(|char: char| !char.is_ascii_digit())
            .filter(|group| !group.is_empty());
        word.len() < MIN_LETTERS
            && groups.count() < 2
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    value.split('.').all(is_word)
}

/// Whether a value mixes its characters as chance does, and no name or word does.
pub(super) fn is_random(value: &str) -> bool {
    let count = |is: fn(&u8) -> bool| value.bytes().filter(is).count();
    let (digits, lower, upper) = (
        count(u8::is_ascii_digit),
        count(u8::is_ascii_lowercase),
        count(u8::is_ascii_uppercase),
    );
    let marks = count(|byte| {
        matches!(
            byte,
            b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'+' | b'=' | b'~' | b'?'
        )
    });
    if lower + upper == 0 {
        return false;
    }
    if digits > 0 {
        return digits > 1 || marks > 0 || (lower > 0 && upper > 0);
    }
    if marks > 0 && lower > 0 && upper > 0 {
        return true;
    }
    // Words change their case seldom.
    let changes = value
        .as_bytes()
        .windows(2)
        .filter(|pair| matches!(pair, [a, b] if a.is_ascii_uppercase() != b.is_ascii_uppercase()))
        .count();
    value.len() >= MIN_LETTERS && lower > 0 && upper > 0 && changes * 5 >= value.len() * 2
}

/// An id of ours: three letters, `_`, and a ULID.
fn is_own_id(value: &str) -> bool {
    let Some((prefix, ulid)) = value.split_once('_') else {
        return false;
    };
    (2..=6).contains(&prefix.len())
        && prefix.bytes().all(|byte| byte.is_ascii_lowercase())
        && ulid.len() == 26
        && ulid
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn distinct(value: &str) -> u32 {
    let seen = value.bytes().fold(0_u128, |seen, byte| seen | 1 << (byte & 127));
    seen.count_ones()
}

/// Whether a text contains a lower-case word, in any case.
fn has_folded(text: &str, word: &str) -> bool {
    text.as_bytes()
        .windows(word.len())
        .any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}
