use proptest::prelude::*;
use talaria_text::cut::width;

use super::*;
use crate::render::style::{ansi, letters};

fn rows(text: &str, columns: usize) -> Vec<Line> {
    let mut markdown = Markdown::default();
    let mut rows = markdown.push(text, columns);
    rows.extend(markdown.finish(columns));
    rows
}

fn shown(text: &str, columns: usize) -> Vec<String> {
    rows(text, columns).iter().map(|row| letters(row)).collect()
}

#[test]
fn blocks_look_like_what_they_are() {
    let text = "# Title\n\nSome **bold** text.\n\n- one\n  - two\n3. three\n\n> said\n> more\n\n---\n- [x] done\n";
    assert_eq!(
        shown(text, 12),
        [
            "Title",
            "",
            "Some bold",
            "text.",
            "",
            "• one",
            "  • two",
            "3. three",
            "",
            "│ said",
            "│ more",
            "",
            "────────────",
            "☑ done"
        ]
    );
    assert_eq!(ansi(&rows("## Two ##", 40)[0]), "\x1b[1mTwo\x1b[0m");
}

#[test]
fn items_hang() {
    assert_eq!(shown("12. one two three", 11), ["12. one two", "    three"]);
}

#[test]
fn code_is_left_alone() {
    let text = "Look:\n```rust\nfn a() {\n\n    **b**\n}\n```\nafter";
    assert_eq!(
        shown(text, 20),
        ["Look:", "  rust", "  fn a() {", "  ", "      **b**", "  }", "after"]
    );
    assert_eq!(
        shown("```\nlonger than a row\n```", 10),
        ["  longer t", "  han a ro", "  w"]
    );
    assert_eq!(shown("````\n```\n````\nx", 10), ["  ```", "x"]);
    assert_eq!(shown("- item\n  ```\n  code\n  ```\n", 20), ["• item", "  code"]);
    assert_eq!(
        shown("> ```\n> code\nout", 20),
        ["│   code", "out"],
        "a quote's end ends its code"
    );
    assert_eq!(shown("```\nnever closed", 20), ["  never closed"]);
}

#[test]
fn tables_are_aligned_or_listed() {
    let text = "| a | wide head |\n|:--|--:|\n| **你好** | 1 |\n| x \\| y | 22 |\nafter";
    assert_eq!(
        shown(text, 40),
        [
            "a      wide head",
            "─────  ─────────",
            "你好           1",
            "x | y         22",
            "after"
        ]
    );
    assert_eq!(
        shown(text, 14),
        ["a: 你好", "wide head: 1", "", "a: x | y", "wide head: 22", "after"]
    );
    assert_eq!(shown("| not | a table\nafter", 40), ["| not | a table", "after"]);
}

#[test]
fn carriage_returns_are_no_letters() {
    assert_eq!(shown("a\r\n\r\nb\r\n", 10), ["a", "", "b"]);
}

#[test]
fn the_open_line_is_seen_before_it_ends() {
    let mut markdown = Markdown::default();
    assert!(markdown.push("one **tw", 20).is_empty());
    assert_eq!(
        markdown.tail(20).iter().map(|row| letters(row)).collect::<Vec<_>>(),
        ["one **tw"]
    );
    let ended = markdown.push("o**\nthree", 20);
    assert_eq!(ended.iter().map(|row| letters(row)).collect::<Vec<_>>(), ["one two"]);
    assert_eq!(
        markdown.tail(20).iter().map(|row| letters(row)).collect::<Vec<_>>(),
        ["three"]
    );
}

/// Text that looks like Markdown, and like its edges.
fn markdown() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[a-z0-9 *_`~|#>你好🙂.()-]{0,30}",
        "(#{1,3}|[-*+]|[0-9]{1,2}\\.|>|>>) [a-z *`你]{0,12}",
        "( {0,4})(```|~~~|````)[a-z]{0,3}",
        "\\|[a-z `*|你]{0,12}\\|",
        "\\|(:?-{1,3}:?\\|){1,3}",
        Just("---".to_owned()),
        Just(String::new()),
    ];
    proptest::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn cuts_make_no_difference(text in markdown(), cuts in proptest::collection::vec(0_usize..200, 0..12), columns in 8_usize..60) {
        let mut markdown = Markdown::default();
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        for cut in cuts {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(cut));
            pieces.extend(markdown.push(piece, columns));
            markdown.tail(columns);
            rest = after;
        }
        pieces.extend(markdown.push(rest, columns));
        pieces.extend(markdown.finish(columns));
        prop_assert_eq!(pieces, rows(&text, columns));
    }

    #[test]
    fn every_row_fits(text in markdown(), columns in 8_usize..60) {
        for row in shown(&text, columns) {
            prop_assert!(width(&row) <= columns, "{:?}", row);
        }
    }

    #[test]
    fn no_letter_is_lost(text in markdown(), columns in 8_usize..60) {
        let seen = shown(&text, columns).concat();
        for letter in text.chars().filter(|letter| letter.is_alphanumeric()) {
            let count = |text: &str| text.matches(letter).count();
            // The heads of a table that doesn't fit are said again with each row.
            prop_assert!(count(&seen) >= count(&text), "{} in {:?}", letter, seen);
        }
    }
}
