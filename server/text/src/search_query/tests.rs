//! What queries find, and the law between what they ask for and what they find.

use proptest::prelude::*;

use super::*;
use crate::search_tokens::search_tokens;

fn finds(query: &str, text: &str) -> bool {
    let query = SearchQuery::parse(query);
    let tokens = search_tokens(text);
    let has_all = query.required_tokens().iter().all(|token| tokens.contains(token));
    let has_prefixes = query
        .required_prefixes()
        .iter()
        .all(|prefix| tokens.iter().any(|token| token.starts_with(prefix.as_str())));
    has_all && has_prefixes && query.matches(text)
}

#[test]
fn row_h2_grammar() {
    for (query, text, expected) in [
        ("exit code", "the code of the exit", true),
        ("\"exit code\"", "the code of the exit", false),
        ("\"exit code\"", "an Exit  Code of 1", true),
        ("exit -code", "exit code", false),
        ("exit -code", "exit now", true),
        ("conf*", "the configuration", true),
        ("conf*", "unconfigured", false),
        ("c++", "I write C++.", true),
        ("c++", "I write C.", false),
        ("host-a", "on host-a, then", true),
        ("user@host", "mail user@host now", true),
        ("桂林", "我去桂林看漓江", true),
        ("林", "我去桂林", true),
        ("山林", "山上的林", false),
        ("youer", "修改youer服务端", true),
        ("file", "read_file", true),
        ("\"unbalanced", "an unbalanced quote", true),
        ("AND OR *", "x and y or z", true),
        // Beginnings.
        ("foo_bar*", "call foo_barbaz()", true),
        ("foo_bar*", "my_foo_bar", true),
        ("foo_bar*", "foo bar", false),
        ("foo_*", "foo_x", true),
        ("host-a*", "on host-abc", true),
        ("host-a*", "on host-b", false),
        ("c+*", "in c++", true),
        ("fil*", "readFileName", true),
        ("桂*", "我去桂林", true),
        ("桂林*", "我去桂林看漓江", true),
        ("漓江*", "我去桂林", false),
        ("去g*", "我去guilin", true),
        ("-foo* bar", "foobar bar", false),
        // Compounds, whole and in parts.
        ("c++", "c++/java", true),
        ("java", "c++/java", true),
        ("c++/java", "c++/java", true),
        ("c++", "c++17", true),
        ("c++", "语言c++很难", true),
        ("c", "c++/java", true),
        ("c#", "C#, F#", true),
        ("f#", "C#, F#", true),
        ("a-b", "x=a-b", true),
        ("x=a-b", "set x=a-b;", true),
        ("x", "x=a-b", true),
        ("b", "x=a-b", true),
        ("x=a", "x=a-b", true),
        ("a-c", "x=a-b", false),
        (".net", "asp.net", true),
        ("f(x)", "y=f(x),", true),
        ("foo_bar", "my_foo_bar", true),
        ("a_b", "a_b_c", true),
        ("user@host:22", "ssh://user@host:22/", true),
        // Phrases.
        ("\"a b\"", "xa b a b", true),
        ("\"x a\"", "x a-b", true),
        ("one -\"two three\"", "one two three", false),
        ("one -\"two three\"", "one three two", true),
        ("what is this?", "this is what", true),
        // What only looks like a filter.
        ("role:admin", "set role:admin", true),
        ("role:", "the role: none", true),
        ("x\u{300}", "an x\u{300} y", true),
        ("x", "an x\u{300} y", false),
    ] {
        assert_eq!(finds(query, text), expected, "{query} in {text}");
    }
}

/// Text in which words, compounds, identifiers and scripts meet.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "([a-cA-C桂林é]{1,3}[-_+=/.:@( ]{0,2}){1,5}",
        1 => any::<String>(),
    ]
}

/// Whether the parser takes a word as it is.
fn is_plain(word: &str) -> bool {
    let folded = fold(word);
    !word.contains('"')
        && !folded.starts_with('-')
        && !folded.starts_with("role:")
        && !folded.starts_with("tool:")
        && folded.chars().any(char::is_alphanumeric)
}

proptest! {
    #[test]
    fn anything_is_a_query(query: String, text: String) {
        let query = SearchQuery::parse(&query);
        let snippet = query.snippet(&text, 20);
        prop_assert!(!query.matches(&text) || text.trim().is_empty() || !snippet.is_empty());
        prop_assert!(query.score(&text) >= 0.0);
    }

    /// What an engine is asked for is a list of plain words: no syntax of its own can come out of it.
    #[test]
    fn an_engine_is_asked_for_plain_words(query in prop_oneof![any::<String>(), any_text(), "[\"*:^(){}+~ANDORNTE -]{0,30}"]) {
        let query = SearchQuery::parse(&query);
        let (tokens, prefixes) = (query.required_tokens(), query.required_prefixes());
        prop_assert!(tokens.len() <= MAX_TOKENS && prefixes.len() <= MAX_TERMS);
        for token in tokens.iter().chain(&prefixes) {
            prop_assert!(!token.is_empty());
            prop_assert!(token.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
        }
    }

    #[test]
    fn what_matches_is_among_the_candidates(text in any_text(), query in any_text(), ending in "[*\"]?") {
        let query = format!("{query}{ending}");
        if SearchQuery::parse(&query).matches(&text) {
            prop_assert!(finds(&query, &text), "{:?} in {:?}", query, text);
        }
    }

    #[test]
    fn every_word_finds_its_text_whole_and_by_its_beginning(text in any_text()) {
        for word in text.split_whitespace().filter(|word| is_plain(word)) {
            prop_assert!(finds(word, &text), "{:?} in {:?}", word, text);
            let phrase = format!("\"{word}\"");
            prop_assert!(finds(&phrase, &text), "{:?} in {:?}", phrase, text);
            let beginnings = word.char_indices().map(|(at, _)| &word[..at]).filter(|beginning| is_plain(beginning));
            for beginning in beginnings.filter(|beginning| fold(word).starts_with(&fold(beginning))) {
                let query = format!("{beginning}*");
                prop_assert!(finds(&query, &text), "{:?} in {:?}", query, text);
            }
        }
    }

    #[test]
    fn every_part_of_a_word_finds_its_text(words in proptest::collection::vec("[a-zA-Zäß桂林0-9]{1,8}", 1..6), joint in "[-+_=/.:@( ]") {
        let text = words.join(&joint);
        for word in &words {
            prop_assert!(finds(word, &text), "{} in {}", word, text);
        }
    }
}
