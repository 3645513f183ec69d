//! What a command line says about who runs it: whether it only waits, keeps another program company, or lets somebody type.

use crate::domain::container::program_of;

/// Run one program, pass signals on to it, and end when it ends.
const INITS: [&str; 6] = ["tini", "tini-static", "dumb-init", "docker-init", "podman-init", "catatonit"];
/// Where engines put an init of theirs that is named like any other.
const PLACES_OF_INITS: [&str; 2] = ["/dev/init", "/run/podman-init"];
const SHELLS: [&str; 8] = ["sh", "bash", "ash", "dash", "zsh", "ksh", "mksh", "fish"];
/// Programs that hold others under their own names.
const MANY_IN_ONE: [&str; 3] = ["busybox", "toybox", "coreutils"];

/// Whether it is an init of one program.
pub(super) fn is_init(command: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    INITS.contains(&program_of(command)) || PLACES_OF_INITS.contains(&first)
}

/// Whether it does nothing but wait, for ever or for a while.
pub(super) fn waits(command: &str) -> bool {
    let mut words = command.split_whitespace().peekable();
    let mut program = program_of(words.next().unwrap_or_default());
    if MANY_IN_ONE.contains(&program) {
        // `coreutils --coreutils-prog-shebang=sleep /usr/bin/sleep 5`
        while words.next_if(|word| word.starts_with("--")).is_some() {}
        program = program_of(words.next().unwrap_or_default());
    }
    match program {
        "sleep" | "pause" => true,
        "tail" => words.any(|word| {
            word.starts_with("--follow") || word.starts_with('-') && !word.starts_with("--") && follows(word)
        }),
        "cat" => words.all(|word| word == "-"),
        _ => is_init(command),
    }
}

fn follows(options: &str) -> bool {
    options.contains(['f', 'F'])
}

/// Whether it is a shell, whatever it was given to do.
pub(super) fn is_shell(command: &str) -> bool {
    let program = program_of(command);
    SHELLS.contains(&program) || program == "busybox" && is_shell(without_first_word(command))
}

/// Whether it is a shell that was given nothing to do: it does what somebody types.
pub(super) fn is_interactive_shell(command: &str) -> bool {
    let arguments = shell_arguments(command);
    is_shell(command) && arguments.split_whitespace().all(|word| word.starts_with('-') && !names_script(word))
}

/// Whether it is a shell with a script that does nothing but wait: `while true; do sleep 60; done`.
pub(super) fn is_waiting_script(command: &str) -> bool {
    if !is_shell(command) {
        return false;
    }
    let mut rest = shell_arguments(command);
    loop {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        if names_script(word) {
            return only_waits(after);
        }
        if !word.starts_with('-') {
            return false;
        }
        rest = after.trim_start();
    }
}

/// `-c`, alone or among others.
fn names_script(option: &str) -> bool {
    option.starts_with('-') && !option.starts_with("--") && option.contains('c')
}

fn shell_arguments(command: &str) -> &str {
    let arguments = without_first_word(command);
    if program_of(command) == "busybox" { without_first_word(arguments) } else { arguments }
}

fn without_first_word(text: &str) -> &str {
    text.trim_start().split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start())
}

/// Whether every statement of a script waits, or says how to. What can do anything else by any trick is not read at all.
fn only_waits(script: &str) -> bool {
    const TRICKS: [char; 7] = ['`', '|', '<', '>', '(', '{', '\\'];
    if script.contains(TRICKS) {
        return false;
    }
    let statements = script.split([';', '&', '\n']);
    let mut any = false;
    for statement in statements {
        let mut words = statement.split_whitespace().map(|word| word.trim_matches(['\'', '"'])).peekable();
        while words.next_if(|word| matches!(*word, "while" | "until" | "do" | "exec" | "")).is_some() {}
        match words.next() {
            // `exec "$@"` without arguments does nothing.
            None | Some("$@" | "done") => {}
            Some(":" | "true" | "false" | "sleep" | "wait" | "trap" | "exit" | "kill" | "echo") => any = true,
            Some("tail" | "cat") if waits(statement.trim().trim_start_matches("exec ")) => any = true,
            Some(_) => return false,
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("sleep infinity")]
    #[case("/usr/bin/sleep 3600")]
    #[case("tail -f /dev/null")]
    #[case("tail -n0 -F /var/log/x")]
    #[case("tail --follow=name /dev/null")]
    #[case("cat")]
    #[case("/pause")]
    #[case("/bin/busybox sleep 5")]
    #[case("/usr/bin/coreutils --coreutils-prog-shebang=sleep /usr/bin/sleep 5")]
    #[case("/sbin/docker-init -- sleep 5")]
    fn it_only_waits(#[case] command: &str) {
        assert!(waits(command), "{command}");
    }

    #[rstest]
    #[case("sleeper 5")]
    #[case("tail /var/log/x")]
    #[case("tail -n 5 file")]
    #[case("cat /dev/zero")]
    #[case("python sleep")]
    #[case("/sbin/init")]
    #[case("s6-svscan /run/service")]
    #[case("busybox httpd -f")]
    #[case("")]
    fn it_may_do_something(#[case] command: &str) {
        assert!(!waits(command), "{command}");
    }

    #[rstest]
    #[case("sh -c while true; do sleep 60; done", true)]
    #[case("sh -c while :; do sleep 2; done", true)]
    #[case("/bin/bash -ec trap 'exit 0' TERM; while true; do sleep 1 & wait $!; done", true)]
    #[case(
        r#"/bin/sh -c echo Container started trap "exit 0" 15 exec "$@" while sleep 1 & wait $!; do :; done -"#,
        true
    )]
    #[case("sh -c exec tail -f /dev/null", true)]
    #[case("busybox sh -c sleep infinity", true)]
    #[case("sh -c tail /etc/passwd", false)]
    #[case("sh -c while true; do work; sleep 60; done", false)]
    #[case("sh -c sleep 1; make", false)]
    #[case("sh -c while sleep 1; do echo $(work); done", false)]
    #[case("sh -c while sleep 1 | work; do :; done", false)]
    #[case("sh -c", false)]
    #[case("sh", false)]
    #[case("sh /entrypoint.sh", false)]
    #[case("python -c sleep 1", false)]
    fn a_script_that_only_waits_is_told_from_one_that_does_more(#[case] command: &str, #[case] only: bool) {
        assert_eq!(is_waiting_script(command), only, "{command}");
    }

    #[rstest]
    #[case("sh", true)]
    #[case("-bash", true)]
    #[case("/bin/bash -l", true)]
    #[case("bash --norc -i", true)]
    #[case("busybox sh", true)]
    #[case("bash -c make", false)]
    #[case("bash -lc make", false)]
    #[case("bash entrypoint.sh", false)]
    #[case("python3", false)]
    fn a_shell_without_a_script_does_what_somebody_types(#[case] command: &str, #[case] typed: bool) {
        assert_eq!(is_interactive_shell(command), typed, "{command}");
    }
}
