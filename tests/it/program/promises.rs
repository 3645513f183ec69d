//! SAFETY.md names tests that exist, and `tests/sabotage` changes lines that are there.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every function of the tests and of the sources.
fn functions() -> String {
    let mut text = String::new();
    let mut folders = vec![root().join("tests/it"), root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}

#[test]
fn every_test_that_safety_names_exists() {
    let safety = fs::read_to_string(root().join("SAFETY.md")).unwrap();
    let named: Vec<&str> = safety
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            word.contains('_') && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        })
        .filter(|word| *word != "open_lifetime")
        .collect();
    assert!(named.len() > 20, "{named:?}");
    let functions = functions();
    let missing: Vec<&&str> =
        named.iter().filter(|name| !functions.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "SAFETY.md names tests that do not exist: {missing:?}");
}

#[test]
fn every_sabotage_changes_a_line_that_is_there_once() {
    let list = fs::read_to_string(root().join("tests/sabotage.list")).unwrap();
    let mut count = 0;
    for entry in
        list.split("\n\n").map(str::trim).filter(|entry| !entry.is_empty() && !entry.starts_with('#'))
    {
        let lines: Vec<&str> = entry.lines().collect();
        let [what, file, old, new, test] = lines[..] else { panic!("five lines each: {entry}") };
        let source = fs::read_to_string(root().join(Path::new(file))).unwrap();
        assert_eq!(source.matches(old).count(), 1, "{what}: `{old}` must stand in {file} once");
        assert_ne!(old, new, "{what}");
        assert!(functions().contains(&format!("fn {test}(")), "{what}: there is no test `{test}`");
        count += 1;
    }
    assert!(count >= 12, "{count} are too few");
}
