//! What runs in a simulated container: a program that prints, sleeps, ends, and listens to signals or does not.
//!
//! Real containers of the agreement suite run busybox; the few words of its shell that the suite uses are understood
//! here, so that one command line means the same on both engines.

use std::collections::BTreeMap;
use std::time::Duration;

use super::shell;

/// A signal by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(pub u8);

impl Signal {
    /// Ends whatever runs, whether it listens or not.
    pub const KILL: Self = Self(9);
    /// Asks politely.
    pub const TERM: Self = Self(15);

    /// Reads `TERM`, `SIGTERM` or `15`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse::<u8>() {
            return (1..=64).contains(&number).then_some(Self(number));
        }
        let upper = text.to_ascii_uppercase();
        let number = match upper.strip_prefix("SIG").unwrap_or(&upper) {
            "HUP" => 1,
            "INT" => 2,
            "QUIT" => 3,
            "ABRT" => 6,
            "KILL" => 9,
            "USR1" => 10,
            "SEGV" => 11,
            "USR2" => 12,
            "PIPE" => 13,
            "ALRM" => 14,
            "TERM" => 15,
            "CHLD" => 17,
            "CONT" => 18,
            "STOP" => 19,
            "TSTP" => 20,
            "WINCH" => 28,
            _ => return None,
        };
        Some(Self(number))
    }

    /// The exit code of a process that this signal ended.
    pub(super) fn exit_code(self) -> i32 {
        128 + i32::from(self.0)
    }
}

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// One thing a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Prints a line.
    Say(Output, String),
    /// Waits.
    Sleep(Duration),
}

/// A program: what it does once, what it does for ever after, and which signals it obeys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Done once, at the beginning.
    pub first: Vec<Deed>,
    /// Done again and again afterwards; when empty the program ends instead.
    pub then: Vec<Deed>,
    /// With which code it ends by itself.
    pub exit_code: i32,
    /// The signals it listens to, each with the exit code it then ends with. Like every first process of a container
    /// it does not notice any other, except the one that nobody can ignore.
    pub obeys: BTreeMap<Signal, i32>,
    /// How long it takes to end once it has been asked to.
    pub dying: Duration,
}

/// A line that was printed so long after the program's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) after: Duration,
    pub(super) output: Output,
    pub(super) line: String,
}

/// No more of an endless program's lines are remembered; engines rotate their logs as well.
const REMEMBERED: u32 = 1000;

impl Program {
    /// A program that runs until it is asked to end.
    pub fn service() -> Self {
        Self {
            then: vec![Deed::Sleep(Duration::from_mins(1))],
            obeys: BTreeMap::from([(Signal::TERM, 0)]),
            ..Self::default()
        }
    }

    /// What a command line does; `None` when the image has no such command.
    pub fn of_command(command: &[String]) -> Option<Self> {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["sh" | "/bin/sh", "-c", script, ..] => Some(shell::program(script)),
            ["sh" | "/bin/sh"] => Some(Self::default()),
            [name, ..] if shell::COMMANDS.contains(name) => Some(shell::program(&words.join(" "))),
            _ => None,
        }
    }

    /// How long it runs when nobody interferes; `None` for ever.
    pub(super) fn runs_for(&self) -> Option<Duration> {
        self.then.is_empty().then(|| length(&self.first))
    }

    /// Everything it has printed after running for `ran`, the oldest of a great many left out.
    pub(super) fn said(&self, ran: Duration) -> Vec<Said> {
        let mut said = Vec::new();
        collect(&self.first, Duration::ZERO, ran, &mut said);
        let (before, round) = (length(&self.first), length(&self.then));
        // A program that prints without ever sleeping would have printed for ever.
        if let Some(cycling) = ran.checked_sub(before).filter(|_| !round.is_zero()) {
            let rounds = u32::try_from(cycling.as_nanos() / round.as_nanos()).unwrap_or(u32::MAX);
            for number in rounds.saturating_sub(REMEMBERED)..=rounds {
                collect(&self.then, before + round.saturating_mul(number), ran, &mut said);
            }
        }
        said
    }

    /// When it next prints something after having run for `ran`, looking one round ahead.
    pub(super) fn next_word(&self, ran: Duration) -> Option<Duration> {
        let horizon = ran + length(&self.first) + length(&self.then) * 2;
        self.said(horizon).into_iter().map(|said| said.after).find(|after| *after > ran)
    }
}

fn length(deeds: &[Deed]) -> Duration {
    deeds.iter().map(|deed| if let Deed::Sleep(time) = deed { *time } else { Duration::ZERO }).sum()
}

fn collect(deeds: &[Deed], mut at: Duration, until: Duration, said: &mut Vec<Said>) {
    for deed in deeds {
        if at > until {
            return;
        }
        match deed {
            Deed::Sleep(time) => at += *time,
            Deed::Say(output, line) => said.push(Said { after: at, output: *output, line: line.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn signals_are_read_in_every_spelling() {
        for text in ["TERM", "SIGTERM", "15", "term"] {
            assert_eq!(Signal::parse(text), Some(Signal::TERM), "{text}");
        }
        for text in ["", "USR9", "0", "65", "SIG"] {
            assert_eq!(Signal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_command_that_the_image_lacks_is_no_program() {
        assert_eq!(Program::of_command(&words("no-such-command at all")), None);
        assert_eq!(Program::of_command(&[]), None);
        let sleep = Program::of_command(&words("sleep 5")).unwrap();
        assert_eq!(sleep.runs_for(), Some(Duration::from_secs(5)));
        assert!(sleep.obeys.is_empty(), "a first process without a handler does not notice TERM");
    }

    #[test]
    fn an_endless_program_keeps_talking_and_forgets_the_oldest() {
        let program = Program {
            first: vec![Deed::Say(Output::Out, "hello".into()), Deed::Sleep(Duration::from_secs(1))],
            then: vec![Deed::Say(Output::Error, "tick".into()), Deed::Sleep(Duration::from_secs(2))],
            ..Program::default()
        };
        let at = |seconds| program.said(Duration::from_secs(seconds)).len();
        assert_eq!((at(0), at(1), at(2), at(3)), (1, 2, 2, 3));
        assert_eq!(program.next_word(Duration::from_secs(1)), Some(Duration::from_secs(3)));
        assert_eq!(program.runs_for(), None);
        let many = program.said(Duration::from_hours(100));
        assert_eq!(many.len(), 1002);
        assert_eq!(many.last().map(|said| said.line.as_str()), Some("tick"));
    }
}
