//! The tokens of search: the same bag for every engine.
//!
//! Text becomes words (lower case, NFKC), parts of identifiers, one and two characters of Chinese, Japanese and Korean, and
//! terms with punctuation inside (`c++`, `host-a`, `user@host`) whole. A single letter is in most texts, so it also comes
//! with the punctuation beside it (`c++` and `c+` of `c++/java`, `a-` and `=a` of `x=a-b`): that is what a query for it asks
//! for. Tokens are encoded into `[a-z0-9]`, so that no engine takes them apart: what isn't `[a-wyz0-9]` becomes `x<hex>x`.
//! The encoding is injective and keeps prefixes.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::cut::{prefix_chars, suffix_chars};

/// Longest encoded token; longer ones are cut, and found by their beginning.
const MAX_TOKEN_BYTES: usize = 64;

/// Most punctuation beside a letter that a token holds.
const MAX_SIDE_CHARS: usize = 3;

/// The bag of a text, encoded, without repetitions.
#[must_use]
pub fn search_tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for term in terms(&fold(text)) {
        push_term(&mut tokens, term);
    }
    // Humps are seen in the original only: `readFile` folds to one word.
    for hump in humps(text) {
        terms(&hump).for_each(|term| push_term(&mut tokens, term));
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
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !is_part(letter) && letter != '_')
        .filter(|word| !word.is_empty())
}

/// Whether a letter goes on with the word beside it.
pub(crate) fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || is_combining_mark(letter)
}

/// What stands between white space.
pub(crate) fn terms(folded: &str) -> impl Iterator<Item = &str> {
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
    // An identifier as a whole; its parts come below.
    let is_identifier = |run: &String| run.contains('_') && !run.chars().any(is_cjk);
    for run in words(core).flat_map(runs).filter(is_identifier) {
        tokens.push(encode(&run));
    }
    for part in parts(term) {
        push_part(tokens, &part);
    }
}

fn push_part(tokens: &mut Vec<String>, part: &Part<'_>) {
    let letters: Vec<char> = part.text.chars().collect();
    if part.is_cjk {
        tokens.extend(letters.iter().map(|letter| encode(&letter.to_string())));
        tokens.extend(pairs(&letters));
        return;
    }
    tokens.push(encode(part.text));
    if letters.len() == 1 {
        for count in 1..=MAX_SIDE_CHARS {
            tokens.push(encode(&format!("{}{}", part.text, prefix_chars(part.after, count))));
            tokens.push(encode(&format!("{}{}", suffix_chars(part.before, count), part.text)));
        }
    }
}

/// Tokens that a text with this part of a term certainly has; as few and as rare as will do.
pub(crate) fn required_of(part: &Part<'_>) -> Vec<String> {
    let letters: Vec<char> = part.text.chars().collect();
    match (letters.as_slice(), part.is_cjk) {
        ([_], true) => vec![encode(part.text)],
        (_, true) => pairs(&letters).collect(),
        ([_], false) if !part.after.is_empty() => {
            vec![encode(&format!(
                "{}{}",
                part.text,
                prefix_chars(part.after, MAX_SIDE_CHARS)
            ))]
        }
        ([_], false) => vec![encode(&format!(
            "{}{}",
            suffix_chars(part.before, MAX_SIDE_CHARS),
            part.text
        ))],
        (_, false) => vec![encode(part.text)],
    }
}

fn pairs(letters: &[char]) -> impl Iterator<Item = String> + '_ {
    letters.windows(2).map(|pair| encode(&pair.iter().collect::<String>()))
}

/// A piece of a term: letters of one kind, and the punctuation right beside them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) text: &'a str,
    pub(crate) is_cjk: bool,
    before: &'a str,
    after: &'a str,
}

impl Part<'_> {
    /// Whether a longer word could begin with it, where it is the last of its term.
    pub(crate) fn is_open(&self) -> bool {
        self.after.is_empty() && !self.is_cjk
    }
}

/// What a term (without white space) is made of.
pub(crate) fn parts(term: &str) -> Vec<Part<'_>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Cjk,
        Other,
        Punctuation,
    }
    let kind = |letter: char| match letter {
        letter if !is_part(letter) => Kind::Punctuation,
        letter if is_cjk(letter) => Kind::Cjk,
        _ => Kind::Other,
    };
    let mut pieces: Vec<(Kind, std::ops::Range<usize>)> = Vec::new();
    for (at, letter) in term.char_indices() {
        let end = at + letter.len_utf8();
        match pieces.last_mut() {
            Some((last, range)) if *last == kind(letter) => range.end = end,
            _ => pieces.push((kind(letter), at..end)),
        }
    }
    let text = |index: Option<usize>, wanted: &dyn Fn(Kind) -> bool| {
        let (kind, range) = pieces.get(index?)?;
        wanted(*kind).then(|| term.get(range.clone()))?
    };
    let is_punctuation = |kind| kind == Kind::Punctuation;
    let part = |index: usize| {
        Some(Part {
            text: text(Some(index), &|kind| kind != Kind::Punctuation)?,
            is_cjk: pieces.get(index)?.0 == Kind::Cjk,
            before: text(index.checked_sub(1), &is_punctuation).unwrap_or_default(),
            after: text(Some(index + 1), &is_punctuation).unwrap_or_default(),
        })
    };
    (0..pieces.len()).filter_map(part).collect()
}

fn is_bracket(letter: char) -> bool {
    "()[]{}<>\"'`,;“”‘’«»（）「」【】、。，；".contains(letter)
}

fn is_sentence_end(letter: char) -> bool {
    ".!?:;,".contains(letter)
}

/// Letters and punctuation: a term that words alone would lose.
fn is_compound(term: &str) -> bool {
    let has_letter = term.chars().any(char::is_alphanumeric);
    has_letter && term.chars().any(|letter| !letter.is_alphanumeric()) && !term.chars().any(is_cjk)
}

/// Splits a word where Chinese, Japanese or Korean meets other letters.
fn runs(word: &str) -> Vec<String> {
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

/// The parts of words such as `readFile`, folded. They are seen in the original only.
pub(crate) fn humps(text: &str) -> impl Iterator<Item = String> + '_ {
    words(text).filter(|word| has_hump(word)).flat_map(|word| {
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
        humps.into_iter().map(|hump| fold(&hump))
    })
}

fn has_hump(word: &str) -> bool {
    let letters = word.chars();
    letters
        .clone()
        .zip(letters.skip(1))
        .any(|(before, letter)| before.is_lowercase() && letter.is_uppercase())
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
            ("c++/java", "c++"),
            ("c++/java", "java"),
            ("x=a-b", "a-"),
            ("x=a-b", "=a"),
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
