//! A cat on the keyboard: a thousand random keys, clicks, pastes and sizes. Nothing breaks, and nobody who is in use is hurt.

use std::time::Duration;

use crate::support::simulated::SimHost;
use crate::support::terminal::{Key, Terminal};
use rstest::rstest;
use sandkeeper::domain::ContainerId;
use sandkeeper::engine::sim::Dice;

const STEPS: usize = 1_000;

const KEYS: [Key; 17] = [
    Key::Esc,
    Key::Enter,
    Key::Tab,
    Key::BackTab,
    Key::Backspace,
    Key::Delete,
    Key::Up,
    Key::Down,
    Key::Left,
    Key::Right,
    Key::PageUp,
    Key::PageDown,
    Key::Home,
    Key::End,
    Key::Ctrl('u'),
    Key::Ctrl('f'),
    Key::Ctrl('l'),
];

/// Busy, quiet and forgotten sandboxes; the busy ones.
fn populate(host: &SimHost) -> Vec<ContainerId> {
    for number in 0..8 {
        host.orphan(&format!("old-{number}"), &format!("ws-{}", number % 3));
        host.sandbox(&format!("loose-{number}"), "loose")
            .printed(&["\u{1b}[31mred", "\u{202e}evil\u{1b}]0;x\u{7}"])
            .placed();
    }
    for number in 0..4 {
        host.idle(&format!("quiet-{number}"), &format!("quiet-{number}"));
    }
    host.store.session("lost", "gone").container("nowhere").status("active").insert();
    (0..4).map(|number| host.active(&format!("busy-{number}"), &format!("busy-{number}"))).collect()
}

/// One random thing that a person, a window manager or a cat could do, short of ending the program.
fn poke(terminal: &Terminal, dice: &mut Dice) {
    match dice.below(100) {
        0..20 => {
            terminal.send(&[*dice.pick(b"XyRDSFuy:/?*o zjjkgGlw").unwrap()]);
        }
        // Now and then it means something.
        20..25 => {
            terminal.type_keys(dice.pick(&["\rXy", "\rSy", "\rDy", "\r Ry", "\r*Dy"]).unwrap());
        }
        25..55 => {
            let printable = u8::try_from(dice.below(95)).unwrap() + b' ';
            // Quitting is the way out at the end.
            if printable != b'q' {
                terminal.send(&[printable]);
            }
        }
        55..80 => {
            terminal.press(*dice.pick(&KEYS).unwrap());
        }
        80..86 => {
            let (row, column) = (dice.below(40), dice.below(200));
            terminal.click(u16::try_from(row).unwrap(), u16::try_from(column).unwrap());
        }
        86..90 => {
            terminal.wheel(5, 5, dice.happens(50));
        }
        90..93 => {
            terminal.type_keys("\u{1b}[200~pasted \u{1b}[31m\ry\u{202e}\u{1b}[201~");
        }
        93..95 => {
            // Something that no terminal sends.
            let bytes: Vec<u8> = (0..8).map(|_| u8::try_from(dice.below(128)).unwrap() | 0x80).collect();
            terminal.send(&bytes);
        }
        _ => {
            let (rows, columns) = (1 + dice.below(60), 1 + dice.below(240));
            let tiny = dice.happens(20);
            let (rows, columns) =
                if tiny { (1 + dice.below(3), 1 + dice.below(12)) } else { (rows, columns) };
            terminal.resize(u16::try_from(rows).unwrap(), u16::try_from(columns).unwrap());
        }
    }
}

/// Leaves whatever is open, and ends.
#[track_caller]
fn leave(terminal: &Terminal) {
    terminal.resize(30, 110);
    while terminal.exited_within(Duration::from_millis(300)).is_none() {
        assert!(terminal.age() < Duration::from_mins(5), "it does not end\n{terminal}");
        terminal.press(Key::Ctrl('c'));
    }
    let status = terminal.wait_exit();
    assert!(status.success(), "{status:?}\n{terminal}");
    terminal.wait_restored();
    let said = String::from_utf8_lossy(&terminal.raw_bytes()).into_owned();
    assert!(!said.contains("panicked") && !said.contains("bug"), "{terminal}");
}

/// Everything that reaches the terminal is meant for it: no title, no clipboard, no override of the direction comes from a
/// container.
#[track_caller]
fn expect_only_our_own_sequences(terminal: &Terminal) {
    let said = String::from_utf8_lossy(&terminal.raw_bytes()).into_owned();
    assert!(!said.contains('\u{202e}') && !said.contains("\u{1b}]0;"), "{terminal}");
}

#[rstest]
#[case(1)]
#[case(2)]
#[case(3)]
fn a_thousand_random_keys_break_nothing_and_hurt_nobody_who_is_in_use(#[case] seed: u64) {
    let host = SimHost::new();
    let busy = populate(&host);
    let terminal = host.dashboard(&[]);
    terminal.wait_for("4 active");
    let mut dice = Dice::new(seed);
    for _ in 0..STEPS {
        poke(&terminal, &mut dice);
    }
    leave(&terminal);
    expect_only_our_own_sequences(&terminal);
    for id in &busy {
        assert_eq!(host.state(id).as_deref(), Some("running"), "{:?}", host.engine.mutations());
    }
    // Names and short ids are never addresses, and volumes never go.
    for request in host.engine.mutations() {
        let addressed = request.split('/').nth(2).unwrap().split('?').next().unwrap();
        assert!(ContainerId::parse(addressed).is_some() && !request.contains("v=true"), "{request}");
    }
}

#[rstest]
#[case(11)]
#[case(12)]
fn a_thousand_random_keys_change_nothing_in_read_only_mode(#[case] seed: u64) {
    let host = SimHost::new();
    populate(&host);
    let before = host.names();
    let terminal = host.dashboard(&["--read-only"]);
    terminal.wait_for("4 active");
    let mut dice = Dice::new(seed);
    for _ in 0..STEPS {
        poke(&terminal, &mut dice);
    }
    leave(&terminal);
    assert_eq!(host.engine.mutations(), [""; 0], "nothing but GET and HEAD");
    assert_eq!(host.names(), before);
    assert!(!host.state_folder().exists());
}
