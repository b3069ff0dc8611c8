//! The rules of the house, read off the manifests and the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use talaria_tests::server::repository;

/// Which of our crates each may use (docs/ARCHITECTURE.md).
const OURS: &[(&str, &[&str])] = &[
    ("openapi", &[]),
    ("client-cli", &["openapi", "text"]),
    ("server/text", &[]),
    ("server/domain", &["openapi"]),
    ("server/store", &["openapi", "text", "domain"]),
    ("server/model", &["openapi", "text", "domain"]),
    ("server/tools", &["openapi", "text", "domain", "store"]),
    ("server/agent", &["openapi", "text", "domain", "store"]),
    ("server/http", &["openapi", "text", "domain", "store", "agent"]),
    (
        "server/app",
        &["openapi", "text", "domain", "store", "model", "tools", "agent", "http"],
    ),
    ("tests", &["openapi", "client", "server"]),
];
/// Which crates may use these libraries.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("sqlx", &["server/store"]),
    ("axum", &["server/http", "server/app", "tests"]),
    ("reqwest", &["server/model", "client-cli", "tests"]),
];
const MAX_LINES: usize = 600;
const MAX_TEST_LINES: usize = 1_000;
/// The loop reads in one sitting; its policies are in their own files.
const LOOP: (&str, usize) = ("server/agent/src/turn.rs", 300);

fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = std::fs::read_to_string(repository().join(folder).join("Cargo.toml")).unwrap();
    let mut is_dependency = false;
    let mut names = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_dependency = line == "[dependencies]";
        } else if let (true, Some(name)) = (
            is_dependency,
            line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty()),
        ) {
            names.insert(name.to_owned());
        }
    }
    names
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn all_sources() -> Vec<PathBuf> {
    ["openapi", "client-cli", "server", "tests"]
        .iter()
        .flat_map(|folder| sources(&repository().join(folder)))
        .collect()
}

#[test]
fn crates_use_what_they_may() {
    let members: BTreeMap<_, _> = OURS.iter().copied().collect();
    let manifest = std::fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    for (folder, allowed) in &members {
        assert!(manifest.contains(&format!("\"{folder}\"")), "{folder} is no member");
        for name in dependencies(folder) {
            let Some(ours) = name.strip_prefix("talaria-") else {
                continue;
            };
            assert!(allowed.contains(&ours), "{folder} may not use {name}");
        }
    }
    let count = manifest.lines().filter(|line| line.starts_with("    \"")).count();
    assert_eq!(count, members.len(), "every member has its rule here");
}

#[test]
fn libraries_stay_in_their_crates() {
    for (library, allowed) in LIBRARIES {
        for (folder, _) in OURS {
            let uses = dependencies(folder).contains(*library);
            assert!(!uses || allowed.contains(folder), "{folder} may not use {library}");
        }
    }
}

#[test]
fn files_are_one_idea_long() {
    for path in all_sources() {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        let is_test = path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        let limit = if path.ends_with(LOOP.0) {
            LOOP.1
        } else if is_test {
            MAX_TEST_LINES
        } else {
            MAX_LINES
        };
        assert!(
            lines <= limit,
            "{} has {lines} lines, more than {limit}",
            path.display()
        );
    }
}

#[test]
fn names_say_what_they_hold() {
    for path in all_sources() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let folder = path
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        for vague in ["core", "common", "utils", "helpers", "manager", "misc"] {
            assert!(
                name != vague && folder != vague && !name.ends_with(&format!("_{vague}")),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn every_migration_has_a_number_and_a_name() {
    let folder = repository().join("migrations/sqlite");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    for (index, name) in names.iter().enumerate() {
        assert!(
            name.starts_with(&format!("{:04}_", index + 1)) && name.ends_with(".sql"),
            "{name}"
        );
    }
}
