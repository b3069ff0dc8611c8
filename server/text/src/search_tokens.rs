//! The tokens of search: the same bag for every engine.
//!
//! Text becomes words (lower case, NFKC), parts of identifiers, one and two characters of Chinese, Japanese and Korean, and
//! terms with punctuation inside (`c++`, `host-a`, `user@host`) whole. Tokens are encoded into `[a-z0-9]`, so that no engine
//! takes them apart: what isn't `[a-wyz0-9]` becomes `x<hex>x`. The encoding is injective and keeps prefixes.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Longest encoded token; longer ones are cut, and found by their beginning.
const MAX_TOKEN_BYTES: usize = 64;

/// The bag of a text, encoded, without repetitions.
#[must_use]
pub fn search_tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for term in terms(&fold(text)) {
        push_term(&mut tokens, term);
    }
    // Humps are seen in the original only: `readFile` folds to one word.
    for word in words(text).filter(|word| has_hump(word)) {
        humps(word).for_each(|hump| tokens.push(encode(&fold(&hump))));
    }
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

/// Lower case, compatibility forms composed.
pub(crate) fn fold(text: &str) -> String {
    text.nfkc().flat_map(char::to_lowercase).collect()
}

/// Runs of letters, digits, marks and underscores. (Not the words of UAX 29, which take Chinese apart.)
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || is_combining_mark(letter);
    text.split(move |letter: char| !is_part(letter))
        .filter(|word| !word.is_empty())
}

/// What stands between white space.
fn terms(folded: &str) -> impl Iterator<Item = &str> {
    folded.split_whitespace()
}

fn push_term(tokens: &mut Vec<String>, term: &str) {
    let core = term.trim_matches(is_bracket);
    let bare = core.trim_matches(|letter: char| !letter.is_alphanumeric());
    // `c++` keeps what stands behind it, `-x` what stands before.
    for whole in [core, bare, core.trim_end_matches(is_sentence_end)] {
        if is_compound(whole) {
            tokens.push(encode(whole));
        }
    }
    for word in words(core) {
        push_word(tokens, word);
    }
}

fn is_bracket(letter: char) -> bool {
    "()[]{}<>\"'`,;“”‘’«»（）「」【】、。，；".contains(letter)
}

fn is_sentence_end(letter: char) -> bool {
    ".!?:;,".contains(letter)
}

/// Letters and punctuation: a term that words alone would lose.
pub(crate) fn is_compound(term: &str) -> bool {
    let has_letter = term.chars().any(char::is_alphanumeric);
    has_letter && term.chars().any(|letter| !letter.is_alphanumeric()) && !term.chars().any(is_cjk)
}

fn push_word(tokens: &mut Vec<String>, word: &str) {
    for run in runs(word) {
        if run.chars().any(is_cjk) {
            let letters: Vec<char> = run.chars().collect();
            letters
                .iter()
                .for_each(|letter| tokens.push(encode(&letter.to_string())));
            letters
                .windows(2)
                .for_each(|pair| tokens.push(encode(&pair.iter().collect::<String>())));
        } else {
            tokens.push(encode(&run));
            run.split('_')
                .filter(|part| !part.is_empty())
                .for_each(|part| tokens.push(encode(part)));
        }
    }
}

/// Splits a word where Chinese, Japanese or Korean meets other letters.
pub(crate) fn runs(word: &str) -> Vec<String> {
    let mut runs: Vec<String> = Vec::new();
    let mut was_cjk = None;
    for letter in word.chars() {
        match runs.last_mut() {
            Some(run) if was_cjk == Some(is_cjk(letter)) => run.push(letter),
            _ => runs.push(letter.to_string()),
        }
        was_cjk = Some(is_cjk(letter));
    }
    runs
}

/// Han, Hiragana, Katakana, Hangul.
pub(crate) fn is_cjk(letter: char) -> bool {
    matches!(u32::from(letter),
        0x3040..=0x30ff | 0x31f0..=0x31ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x323af)
}

fn has_hump(word: &str) -> bool {
    let mut before = 'A';
    word.chars().any(|letter| {
        let is_hump = before.is_lowercase() && letter.is_uppercase();
        before = letter;
        is_hump
    })
}

fn humps(word: &str) -> impl Iterator<Item = String> {
    let mut humps = vec![String::new()];
    let mut before = 'A';
    for letter in word.chars() {
        if before.is_lowercase() && letter.is_uppercase() {
            humps.push(String::new());
        }
        if let Some(hump) = humps.last_mut() {
            hump.push(letter);
        }
        before = letter;
    }
    humps.into_iter()
}

/// A token in `[a-z0-9]`.
pub(crate) fn encode(token: &str) -> String {
    let mut encoded = String::with_capacity(token.len());
    for letter in token.chars() {
        let next = match letter {
            'a'..='w' | 'y' | 'z' | '0'..='9' => letter.to_string(),
            other => format!("x{:x}x", u32::from(other)),
        };
        if encoded.len() + next.len() > MAX_TOKEN_BYTES {
            break;
        }
        encoded.push_str(&next);
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn has(text: &str, token: &str) -> bool {
        search_tokens(text).contains(&encode(token))
    }

    #[test]
    fn row_h2_words_identifiers_and_compounds() {
        for (text, token) in [
            ("Read the File", "file"),
            ("call read_file now", "read_file"),
            ("call read_file now", "read"),
            ("readFile", "readfile"),
            ("readFile", "file"),
            ("use C++.", "c++"),
            ("on host-a,", "host-a"),
            ("on host-a,", "host"),
            ("(user@host)", "user@host"),
            ("修改youer服务端", "youer"),
            ("桂林山水", "桂林"),
            ("桂林山水", "山"),
            ("ＦＵＬＬ width", "full"),
            ("Straße", "straße"),
        ] {
            assert!(has(text, token), "{token} in {text}: {:?}", search_tokens(text));
        }
        assert!(!has("C programming", "c++"));
    }

    proptest! {
        #[test]
        fn tokens_are_plain(text: String) {
            for token in search_tokens(&text) {
                prop_assert!(!token.is_empty() && token.len() <= MAX_TOKEN_BYTES);
                prop_assert!(token.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
            }
        }

        #[test]
        fn the_encoding_is_injective(one in "[a-z0-9ß中+ x]{0,6}", other in "[a-z0-9ß中+ x]{0,6}") {
            prop_assert_eq!(encode(&one) == encode(&other), one == other);
        }
    }
}
