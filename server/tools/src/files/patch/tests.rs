//! The laws of replacing.

use proptest::prelude::*;

use super::edited;
use super::replace::replace;

#[test]
fn strategies() {
    for (text, old, new, expected) in [
        ("a\nb\nc\n", "b", "x", Ok("a\nx\nc\n")),
        ("a  \nb\n", "a\nb", "x\ny", Ok("x\ny\n")),
        ("a  \nb\n", "a\nb\n", "x\ny\n", Ok("x\ny\n")),
        ("f(a,   b)  c\n", "f(a, b)", "g(a)", Ok("g(a)  c\n")),
        // Without regard to indentation; new lines get that of the file.
        ("    if a:\n        b\n", "if a:\n    b", "pass", Ok("    pass\n")),
        (
            "    if a:\n        b\n",
            "if a:\n    b",
            "if c:\n    b\n    d",
            Ok("    if c:\n        b\n        d\n"),
        ),
        (
            "\tif a {\n\t\tb\n\t}\n",
            "if a {\n  b\n}",
            "if a {\n  b\n  c\n}",
            Ok("\tif a {\n\t\tb\n\t\tc\n\t}\n"),
        ),
        (
            "    if a:\n        b\n",
            "if a:\nb",
            "if a:\nc",
            Ok("    if a:\n        c\n"),
        ),
        // Letters that look alike; lines that stay keep theirs.
        (
            "say “hi” – now\nx\n",
            "say \"hi\" - now\nx",
            "say \"hi\" - now\ny",
            Ok("say “hi” – now\ny\n"),
        ),
        (
            "He said ‘no’… then left.\n",
            "'no'...",
            "'yes'",
            Ok("He said 'yes' then left.\n"),
        ),
        ("a\u{a0}b\n", "a b", "c", Ok("c\n")),
        ("  it’s\u{200b} x\n", "    it's x", "    it's y", Ok("  it's y\n")),
        // Escaped once too often.
        ("a\nb\n", "a\\nb", "c\\nd", Ok("c\nd\n")),
        ("a\\nb\n", "a\\nb", "c", Ok("c\n")),
        // Line ends.
        ("a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nx\nc", Ok("a\r\nB\nx\nc\r\n")),
        ("a\r\nb", "b", "c\nd", Ok("a\r\nc\r\nd")),
        ("a\nb\n", "a\r\nb", "a\r\nc", Ok("a\nc\n")),
        ("a\nb\nc\n", "b\n", "", Ok("a\nc\n")),
        ("a\na\n", "a", "x", Err("stands 2 times in the file (lines 1, 2)")),
        (" a\n  a\n", "\ta", "x", Err("stands 2 times")),
        ("a\n", "z", "x", Err("isn't in the file")),
        ("a\n", " ", "x", Err("is empty")),
        ("a\n", "a", "a", Err("are the same")),
        ("a  b\n", "a b", "a  b", Err("has the new text already")),
        ("new text\n", "old text", "new text", Err("was it changed already?")),
        (
            "fn one() {\n    first();\n}\n",
            "fn one() {\n    second();\n}",
            "x",
            Err("1|fn one() {\n2|    first();"),
        ),
        (
            "alpha beta gamma\n",
            "alpha betta gamma delta",
            "x",
            Err("1|alpha beta gamma"),
        ),
    ] {
        let replaced = replace(text, old, new, false);
        match expected {
            Ok(after) => assert_eq!(replaced, Ok(after.to_owned()), "{old:?} in {text:?}"),
            Err(reason) => {
                let error = replaced.unwrap_err();
                assert!(error.contains(reason), "{old:?} in {text:?}: {error}");
            }
        }
    }
    assert_eq!(replace("a\na\n", "a", "b", true), Ok("b\nb\n".to_owned()));
}

#[test]
fn a_byte_order_mark_stays() {
    let text = "\u{feff}a\r\nb\r\n";
    let changed = edited(text, |text| replace(text, "a\nb", "c", false));
    assert_eq!(changed, Ok("\u{feff}c\r\n".to_owned()));
}

/// Lines with ends of any kind.
fn any_lines(
    letters: &'static str,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<(String, &'static str)>> {
    prop::collection::vec((letters, prop_oneof![Just("\n"), Just("\r\n")]), count)
}

fn joined(lines: &[(String, &str)]) -> String {
    lines.iter().map(|(line, end)| format!("{line}{end}")).collect()
}

proptest! {
    #[test]
    fn bytes_outside_the_passage_never_change(
        before in any_lines("[ \ta-e“–]{0,6}", 0..5),
        passage in any_lines("[ \t]{0,3}[v-z’][ \tv-z’]{0,5}", 1..4),
        after in any_lines("[ \ta-e“–]{0,6}", 0..5),
        given_indentation in "[ \t]{0,3}",
        new in "[m-q \n]{0,12}",
    ) {
        let text = format!("{}{}{}", joined(&before), joined(&passage), joined(&after));
        // As a model would copy it: other indentation, other spaces, plain quotes.
        let given: Vec<String> = passage
            .iter()
            .map(|(line, _)| {
                let words: Vec<&str> = line.split_whitespace().collect();
                format!("{given_indentation}{}", words.join(" ").replace('’', "'"))
            })
            .collect();
        let changed = replace(&text, &given.join("\n"), &new, false);
        prop_assume!(!changed.as_ref().is_err_and(|error| error.contains("times") || error.contains("already")));
        let changed = changed.map_err(TestCaseError::fail)?;
        prop_assert!(changed.starts_with(&joined(&before)));
        let (_, end) = passage.last().cloned().unwrap();
        let rest = format!("{end}{}", joined(&after));
        prop_assert!(changed.ends_with(&rest), "{changed:?} {rest:?}");
    }

    #[test]
    fn nothing_breaks_a_replacement(
        text in "[ \t\r\na-c“\u{a0}\u{200b}…-]{0,30}",
        old in "[ \t\r\na-c\"\u{a0}\\\\n.-]{0,8}",
        new: String,
        replace_all: bool,
    ) {
        drop(edited(&text, |text| replace(text, &old, &new, replace_all)));
    }

    #[test]
    fn what_stands_there_is_replaced_exactly(
        before in "[a-e \r\n]{0,12}", old in "[v-z]{1,4}", new in "[m-q ]{0,6}", after in "[a-e \r\n]{0,12}"
    ) {
        let replaced = replace(&format!("{before}{old}{after}"), &old, &new, false);
        prop_assert_eq!(replaced, Ok(format!("{before}{new}{after}")));
    }
}
