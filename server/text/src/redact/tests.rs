use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::vendors::{Alphabet, VENDORS, Vendor};
use super::*;

mod harmless;

/// Characters as chance makes them, the same for the same seed.
fn body(alphabet: Alphabet, length: usize, seed: u64) -> String {
    let letters: &[u8] = match alphabet {
        Alphabet::Hex => b"0123456789abcdef",
        Alphabet::Upper => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        _ => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
    };
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(letters[usize::try_from(state >> 33).unwrap() % letters.len()])
    };
    (0..length).map(|_| next()).collect()
}

/// A key of this form that nobody has: scanners of this repository find no whole one.
fn key(vendor: &Vendor, prefix: &str, seed: u64) -> String {
    format!("{prefix}{}", body(vendor.alphabet, vendor.min, seed))
}

fn all_keys(seed: u64) -> Vec<(&'static str, String)> {
    let forms = VENDORS
        .iter()
        .flat_map(|vendor| vendor.prefixes.iter().map(move |prefix| (vendor, prefix)));
    forms
        .map(|(vendor, prefix)| (vendor.kind, key(vendor, prefix, seed)))
        .collect()
}

fn redact(text: &str) -> String {
    let once = Redactor::default().redact(text).into_owned();
    assert_eq!(Redactor::default().redact(&once), once, "twice is once: {text}");
    once
}

#[test]
fn keys_of_more_than_sixty_vendors_are_found() {
    let vendors: BTreeSet<_> = VENDORS.iter().map(|vendor| vendor.kind).collect();
    assert!(vendors.len() >= 60, "{}", vendors.len());
    for seed in 1..20 {
        for (kind, key) in all_keys(seed) {
            assert_eq!(
                redact(&format!("use {key}, please")),
                format!("use [redacted:{kind}], please"),
                "{key}"
            );
            assert_eq!(
                redact(&format!("a=%3D{key}")),
                format!("a=%3D[redacted:{kind}]"),
                "{key}"
            );
        }
    }
}

#[test]
fn keys_without_a_vendor_s_prefix_are_found_by_their_form() {
    let part = |seed| body(Alphabet::Alnum, 30, seed);
    let jwt = format!("eyJ{}.eyJ{}.{}", part(1), part(2), part(3));
    let bot = format!("1234567890:AA{}", body(Alphabet::Alnum, 33, 4));
    for (text, expected) in [
        (format!("it is {jwt}."), "it is [redacted:jwt].".to_owned()),
        (format!("bot {bot}!"), "bot [redacted:telegram]!".to_owned()),
        (
            format!("https://api.telegram.org/bot{bot}/getMe"),
            "https://api.telegram.org/[redacted:telegram]/getMe".to_owned(),
        ),
        (
            "postgres://app:s3cr3t!@db:5432/x?y=1".to_owned(),
            "postgres://app:[redacted:url-password]@db:5432/x?y=1".to_owned(),
        ),
        (
            format!("https://{}@github.com/a/b", part(5)),
            "https://[redacted:url-password]@github.com/a/b".to_owned(),
        ),
    ] {
        assert_eq!(redact(&text), expected);
    }
}

#[test]
fn colours_of_a_terminal_hide_no_key() {
    let key = key(&VENDORS[0], "tlr_", 3);
    let text = format!("\u{1b}[3mtoken\u{1b}[0m\u{1b}[2m=\u{1b}[0m{key}\u{1b}[0m");
    let expected = text.replace(&key, "[redacted:talaria]");
    assert_eq!(redact(&text), expected);
}

#[test]
fn secret_names_make_random_values_secret() {
    let value = body(Alphabet::Alnum, 24, 7);
    let hex = body(Alphabet::Hex, 64, 8);
    for (before, after, kind) in [
        ("password=", "", "password"),
        ("DB_PASSWORD: ", "\nnext: 1", "password"),
        ("{\"password\":\"", "\",\"user\":\"ann\"}", "password"),
        ("{\"password\" : \"", "\"}", "password"),
        ("{\\\"api_key\\\":\\\"", "\\\"}", "api-key"),
        ("apiKey = '", "';", "api-key"),
        ("export GITHUB_TOKEN=", " && x", "token"),
        ("AWS_SECRET_ACCESS_KEY=", "", "secret"),
        ("X-Api-Key: ", "\r\nAccept: */*", "api-key"),
        ("Authorization: Bearer ", "\nHost: x", "authorization"),
        ("authorization: ", "", "authorization"),
        ("Bearer ", "", "authorization"),
        ("curl -H \"Authorization: Token ", "\" x", "authorization"),
        ("Cookie: theme=dark; sid=", "; lang=en", "cookie"),
        ("Set-Cookie: sid=", "; Path=/; HttpOnly", "cookie"),
        ("https://x.example/?a=1&access_token=", "&b=2", "token"),
        ("--token ", " run", "token"),
        ("<password>", "</password>", "password"),
        ("client_secret => '", "'", "secret"),
    ] {
        for value in [&value, &hex] {
            let expected = format!("{before}[redacted:{kind}]{after}");
            assert_eq!(redact(&format!("{before}{value}{after}")), expected);
        }
    }
    let basic = format!("Authorization: Basic {}{}", "dXNlcjpw", "YXNzd29yZA==");
    assert_eq!(redact(&basic), "Authorization: Basic [redacted:authorization]");
    assert_eq!(redact("password: hunter2hunter"), "password: hunter2hunter");
    assert_eq!(redact("password: hunter42hunter"), "password: [redacted:password]");
}

fn armour(name: &str, lines: usize) -> String {
    let lines: Vec<_> = (0..lines as u64)
        .map(|seed| body(Alphabet::Alnum, 64, seed + 1))
        .collect();
    format!(
        "-----BEGIN {name}-----\n{}\nshort==\n-----END {name}-----",
        lines.join("\n")
    )
}

#[test]
fn private_keys_are_found_to_their_end_or_the_text_s() {
    for name in [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ] {
        let key = armour(name, 20);
        let expected = format!("-----BEGIN {name}-----[redacted:private-key]-----END {name}-----");
        assert_eq!(redact(&format!("a {key} b")), format!("a {expected} b"));
        let in_json = key.replace('\n', "\\n");
        assert_eq!(
            redact(&format!("{{\"k\":\"{in_json}\"}}")),
            format!("{{\"k\":\"{expected}\"}}")
        );
        let numbered: String = key
            .lines()
            .enumerate()
            .map(|(at, line)| format!("{at}\t{line}\n"))
            .collect();
        assert!(!redact(&numbered).contains(&body(Alphabet::Alnum, 64, 3)));
        let cut: String = key.chars().take(700).collect();
        assert_eq!(redact(&cut), format!("-----BEGIN {name}-----[redacted:private-key]"));
    }
    let public = armour("PUBLIC KEY", 5) + &armour("CERTIFICATE", 9);
    assert_eq!(redact(&public), public);
    let prose = format!(
        "A key begins with -----BEGIN PRIVATE KEY----- and then {}.",
        "a word or two ".repeat(30)
    );
    assert!(
        redact(&prose).ends_with("a word or two a word or two ."),
        "only a few words are taken"
    );
}

#[test]
fn known_secrets_are_found_in_every_form() {
    use base64::Engine as _;
    let secret = "correct horse \"battery\" staple/\\+é";
    let redactor = Redactor::new([secret, "short", "12345678 "]);
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let json = secret.replace('\\', "\\\\").replace('"', "\\\"");
    let address = "correct%20horse%20%22battery%22%20staple%2F%5C%2B%C3%A9";
    for form in [secret.to_owned(), json, address.to_owned(), address.to_lowercase()] {
        assert_eq!(redactor.redact(&format!("a{form}b")), "a[redacted:own-secret]b");
    }
    for before in ["", "u", "us", "use"] {
        let encoded = base64(&format!("{before}{secret}:more"));
        assert!(redactor.redact(&encoded).contains("[redacted:own-secret]"), "{encoded}");
    }
    assert_eq!(redactor.redact("short 12345678"), "short [redacted:own-secret]");
}

#[test]
fn nothing_is_allocated_where_nothing_is_found() {
    let text = "Just words, and a hash: d41d8cd98f00b204e9800998ecf8427e.";
    assert!(matches!(
        Redactor::new(["something secret"]).redact(text),
        Cow::Borrowed(_)
    ));
}

#[test]
fn the_work_grows_with_the_text_alone() {
    const SIZE: usize = 1_000_000;
    let texts: Vec<(String, usize)> = [
        (
            "Just some words of a text, with https://example.com/a/b?c=d and more.\n",
            16,
        ),
        ("AKIA", 64),
        ("AKIA ", 64),
        ("sk-", 128),
        ("EAA-", 128),
        ("sk-a1B2 ", 64),
        ("eyJ-", 256),
        ("eyJ.", 64),
        ("eyJhbGciOiJ.", 64),
        ("-----BEGIN", 64),
        ("-----BEGIN PRIVATE KEY-----", 64),
        ("-----BEGIN PRIVATE KEY----- ", 64),
        ("password=", 64),
        ("token:", 64),
        ("://a:b@", 64),
        ("://", 64),
        ("=:", 64),
        ("12345678:", 64),
        ("a", 64),
        ("-", 64),
        ("\\", 64),
        ("é", 64),
    ]
    .into_iter()
    .map(|(piece, factor)| (piece.repeat(SIZE / piece.len()), factor))
    .collect();
    for (text, factor) in texts {
        work::taken();
        let redactor = Redactor::default();
        let out = redactor.redact(&text);
        let work = work::taken();
        let begin: String = text.chars().take(30).collect();
        assert!(work <= factor * SIZE, "{begin}: {work}");
        assert!(out.len() <= 4 * SIZE);
    }
}

#[test]
fn a_stream_lets_words_go_at_once_and_holds_back_little() {
    let mut stream = StreamRedactor::new(Arc::default());
    assert_eq!(stream.push("Hello"), "Hello");
    assert_eq!(stream.push(", you"), ", you");
    assert_eq!(stream.push(" sk"), " ");
    assert_eq!(stream.push("ip"), "skip");
    assert_eq!(
        stream.push(&"=b".repeat(MAX_HELD_BYTES)).len() + stream.held_bytes(),
        2 * MAX_HELD_BYTES
    );
    assert!(stream.held_bytes() <= MAX_HELD_BYTES);
    let held = stream.held_bytes();
    assert_eq!(stream.finish().len(), held);
    assert_eq!(stream.held_bytes(), 0);
}

#[test]
fn a_key_longer_than_a_word_may_be_leaves_nothing_behind() {
    let part = |length, seed| body(Alphabet::Alnum, length, seed);
    let jwt = format!("eyJ{}.eyJ{}.{}", part(30, 1), part(30_000, 2), part(40, 3));
    assert_eq!(redact(&format!("a {jwt} b")), "a [redacted:jwt] b");
}

fn streamed(redactor: &Arc<Redactor>, text: &str, cuts: &[usize]) -> String {
    let mut stream = StreamRedactor::new(Arc::clone(redactor));
    let mut out = String::new();
    let mut rest = text;
    for cut in cuts {
        let mut at = (*cut).min(rest.len());
        while !rest.is_char_boundary(at) {
            at -= 1;
        }
        let (piece, after) = rest.split_at(at);
        out += &stream.push(piece);
        rest = after;
    }
    out += &stream.push(rest);
    out += &stream.finish();
    out
}

fn surroundings() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z ]{1,12}",
        "[ -~]{0,8}",
        "\\PC{0,6}",
        prop::sample::select(vec![
            "password",
            "token: ",
            "\"secret\":\"",
            "=",
            "Bearer ",
            "Cookie: ",
            "Authorization: ",
            "\n",
            "\\n",
            "\\",
            "https://",
            "u:p4ss@h",
            "-----BEGIN ",
            "PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "eyJ",
            "sk-",
            "AKIA",
            "own secret value",
            "own secret",
            "\u{1b}[31m",
            "[redacted:token]",
            "\\u0022",
            "bot12345678:",
            ";",
            "{",
            "x9Y8z7W6v5U4",
        ])
        .prop_map(str::to_owned),
        (0..all_keys(1).len(), 1..1000_u64).prop_map(|(at, seed)| all_keys(seed)[at].1.clone()),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_split_gives_the_same_whole(text in surroundings(), cuts in prop::collection::vec(0..9_usize, 0..40)) {
        let redactor = Arc::new(Redactor::new(["own secret value", "secret value two"]));
        prop_assert_eq!(streamed(&redactor, &text, &cuts), redactor.redact(&text));
    }

    #[test]
    fn twice_is_once(text in surroundings()) {
        let redactor = Redactor::new(["own secret value"]);
        let once = redactor.redact(&text).into_owned();
        prop_assert_eq!(redactor.redact(&once), once.as_str());
    }

    #[test]
    fn a_planted_key_is_found_anywhere(
        before in surroundings(), after in surroundings(), at in 0..all_keys(1).len(), seed in 1..1000_u64,
        left in "[ \n\t\"'(,;=:@/é]", right in "[ \n\t\"'),;é]",
    ) {
        let key = all_keys(seed)[at].1.clone();
        let out = Redactor::default().redact(&format!("{before}{left}{key}{right}{after}")).into_owned();
        prop_assert!(!out.contains(&key), "{}", out);
    }
}
