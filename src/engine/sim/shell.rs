//! The few words of a shell that the agreement suite's containers use: `echo`, `sleep`, `exit`, `trap`, `while`.
//! Any other command does nothing and succeeds.

use std::time::Duration;

use super::program::{Deed, Output, Program, Signal};

/// Commands that may be run without a shell.
pub(super) const COMMANDS: [&str; 8] = ["sleep", "true", "false", "echo", "touch", "cat", "ls", "rm"];

/// The program that a script is.
pub(super) fn program(script: &str) -> Program {
    let mut program = Program::default();
    let mut looping = false;
    for statement in statements(script) {
        let words: Vec<&str> = statement.iter().map(String::as_str).collect();
        let mut deeds = Vec::new();
        match words.as_slice() {
            ["while", ..] => {
                looping = true;
                continue;
            }
            ["do", rest @ ..] => deeds.extend(deed(rest)),
            ["done", ..] => return program,
            ["exit"] if !looping => return program,
            ["exit", code, ..] if !looping => {
                program.exit_code = code.parse().unwrap_or(2);
                return program;
            }
            ["false", ..] => program.exit_code = 1,
            ["trap", handler, signals @ ..] => {
                let code = handler.strip_prefix("exit").map(|code| code.trim().parse().unwrap_or(0));
                let signals = signals.iter().filter_map(|signal| Signal::parse(signal));
                program.obeys.extend(signals.filter_map(|signal| Some((signal, code?))));
            }
            words => deeds.extend(deed(words)),
        }
        if looping { &mut program.then } else { &mut program.first }.extend(deeds);
    }
    program
}

fn deed(words: &[&str]) -> Option<Deed> {
    match words {
        ["sleep", time, ..] => {
            let seconds = time.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0)?;
            Duration::try_from_secs_f64(seconds).ok().map(Deed::Sleep)
        }
        ["echo", words @ .., ">&2"] => Some(Deed::Say(Output::Error, words.join(" "))),
        ["echo", words @ ..] => Some(Deed::Say(Output::Out, words.join(" "))),
        _ => None,
    }
}

/// Splits a script at semicolons and new lines, and each statement at spaces; quotes keep words together.
fn statements(script: &str) -> Vec<Vec<String>> {
    let mut statements = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in script.chars().chain([';']) {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ' | ';' | '\n') => {
                if let (Some(word), Some(statement)) = (word.take(), statements.last_mut()) {
                    statement.push(word);
                }
                if letter != ' ' {
                    statements.push(Vec::new());
                }
            }
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    statements.retain(|statement| !statement.is_empty());
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_traps_and_waits() {
        let program = program("trap 'exit 3' TERM INT; echo 'is up'; while :; do sleep 0.1; done");
        assert_eq!(program.obeys.get(&Signal::TERM), Some(&3));
        assert_eq!(program.obeys.len(), 2);
        assert_eq!(program.first, [Deed::Say(Output::Out, "is up".into())]);
        assert_eq!(program.then, [Deed::Sleep(Duration::from_millis(100))]);
    }

    #[test]
    fn a_script_that_ends() {
        let program = program("echo one; echo two >&2; sleep 2; exit 7; echo never");
        assert_eq!(program.exit_code, 7);
        assert_eq!(program.runs_for(), Some(Duration::from_secs(2)));
        assert_eq!(program.first[1], Deed::Say(Output::Error, "two".into()));
        assert_eq!(program.first.len(), 3);
        assert!(super::program("trap '' TERM; sleep 9").obeys.is_empty());
    }
}
