//! Whatever comes in whatever order: nothing destructive goes out that was not confirmed, exactly as it was shown, on
//! evidence that held at that moment.

use std::collections::HashSet;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sandkeeper::domain::plan::{Action, Intent, Item};
use sandkeeper::domain::{ContainerId, Status};
use sandkeeper::ui::{Effect, Layer, Message, Model, TABLE, update, view};

use super::desk::{observation, setup};
use crate::facts::{Facts, NOW, sandbox, session};

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    Key(KeyCode),
    /// What the open preview wants to be typed, letter by letter, without the Enter.
    Phrase,
    Seconds(u32),
    Look(Look),
    Resize(u16, u16),
    Click(u16, u16),
    Draw,
    WorkEnds,
}

/// A host, in few words.
#[derive(Clone, Debug)]
struct Look {
    boxes: Vec<(usize, bool, bool, bool)>,
    engine_fails: bool,
    store_fails: bool,
}

fn look() -> impl Strategy<Value = Look> {
    let boxes = vec((0_usize..14, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2)), 0..14);
    (boxes, prop::bool::weighted(0.1), prop::bool::weighted(0.1))
        .prop_map(|(boxes, engine_fails, store_fails)| Look { boxes, engine_fails, store_fails })
}

fn event() -> impl Strategy<Value = Event> {
    let letters: Vec<KeyCode> = TABLE
        .iter()
        .flat_map(|entry| entry.keys)
        .filter_map(|key| sandkeeper::ui::Chord::parse(key))
        .filter(|chord| chord.modifiers.is_empty() && chord.code != KeyCode::Char('q'))
        .map(|chord| chord.code)
        .chain([KeyCode::Char('y'), KeyCode::Char('n'), KeyCode::Enter, KeyCode::Esc, KeyCode::Backspace])
        .chain((2..=6).map(KeyCode::F))
        .collect();
    // Weighted towards what leads into dialogs and through them.
    let acting = select(vec!['S', 'X', 'R', 'D', 'F', 'y', 'y', 'y', '*', 'j', ' ']).prop_map(KeyCode::Char);
    prop_oneof![
        4 => select(letters).prop_map(Event::Key),
        6 => acting.prop_map(Event::Key),
        2 => Just(Event::Key(KeyCode::Enter)),
        2 => Just(Event::Phrase),
        2 => (0_u32..50).prop_map(Event::Seconds),
        4 => look().prop_map(Event::Look),
        1 => (0_u16..120, 0_u16..40).prop_map(|(width, height)| Event::Resize(width, height)),
        1 => (0_u16..120, 0_u16..40).prop_map(|(column, row)| Event::Click(column, row)),
        2 => Just(Event::WorkEnds),
        8 => Just(Event::Draw),
    ]
}

fn facts(look: &Look, at: jiff::Timestamp) -> Facts {
    let mut seen = HashSet::new();
    let mut facts = Facts::native().session(session("s0")).policy(|policy| policy.brake.more_than = 8);
    for (number, running, live, drained) in &look.boxes {
        if !seen.insert(*number) {
            continue;
        }
        let name = format!("box-{number}");
        let state = if *running { "running" } else { "exited" };
        facts = facts.container(sandbox(&name).workspace(&format!("ws-{}", number % 3)).state(state));
        if *live {
            facts = facts.session(session(&format!("s-{number}")).uses(&name).live());
        }
        if *drained {
            facts = facts.drain(&name);
        }
    }
    facts = facts.engine_read_at(at).store_read_at(at);
    if look.engine_fails {
        facts = facts.engine_fault("refused");
    }
    if look.store_fails {
        facts = facts.store_fault("locked");
    }
    facts
}

/// What makes two plans the same for a reader.
fn gist(items: &[Item]) -> Vec<(Option<ContainerId>, Action)> {
    items.iter().map(|item| (item.id.clone(), item.action)).collect()
}

/// What was on top of the screen before a message.
struct Shown {
    items: Vec<(Option<ContainerId>, Action)>,
    phrase: Option<String>,
    typed: String,
    drawn: bool,
}

fn shown(model: &Model) -> Option<Shown> {
    match model.layers.last() {
        Some(Layer::Preview(preview)) => Some(Shown {
            items: gist(preview.plan().items()),
            phrase: preview.phrase(),
            typed: preview.typed.value().trim().to_owned(),
            drawn: preview.is_drawn(),
        }),
        _ => None,
    }
}

fn messages(event: &Event, model: &Model) -> Vec<Message> {
    let key = |code| Message::Key(KeyEvent::new(code, KeyModifiers::NONE));
    match event {
        Event::Key(code) => vec![key(*code)],
        Event::Phrase => {
            let phrase = shown(model).and_then(|shown| shown.phrase).unwrap_or_default();
            phrase.chars().map(|character| key(KeyCode::Char(character))).collect()
        }
        Event::Seconds(seconds) => {
            vec![Message::Tick(model.now + std::time::Duration::from_secs(u64::from(*seconds)))]
        }
        Event::Look(look) => vec![Message::Observed(observation(&facts(look, model.now), model.now))],
        Event::Resize(width, height) => vec![Message::Resize { width: *width, height: *height }],
        Event::Click(column, row) => vec![Message::Click { column: *column, row: *row }],
        Event::Draw => vec![Message::Drawn],
        Event::WorkEnds if model.work.is_some() => vec![Message::WorkEnded(Ok(Vec::new()))],
        Event::WorkEnds => Vec::new(),
    }
}

fn check(
    model: &Model,
    before: Option<&Shown>,
    message: &str,
    said_yes: bool,
    effect: &Effect,
) -> Result<(), TestCaseError> {
    let Effect::CarryOut(confirmed) = effect else { return Ok(()) };
    let plan = confirmed.plan();
    let seen = model.observation.as_ref().unwrap();
    let limit = model.setup.policy.max_evidence_age;
    prop_assert!(seen.snapshot.engine.unusable(model.now, limit).is_none(), "on bad evidence, by {message}");
    prop_assert!(!plan.has_expired(model.now));
    if matches!(plan.intent(), Intent::Evict(_)) {
        for item in plan.items().iter().filter(|item| item.action != Action::Keep) {
            let id = item.id.as_ref().unwrap();
            let verdict = seen.verdicts.containers.iter().find(|v| v.subject.id() == Some(id)).unwrap();
            prop_assert!(seen.snapshot.drains.contains_key(id) && verdict.status == Status::Draining);
            prop_assert!(!verdict.is_in_use());
        }
        return Ok(());
    }
    let before = before.ok_or_else(|| TestCaseError::fail(format!("no preview was open: {message}")))?;
    prop_assert_eq!(gist(plan.items()), before.items.clone(), "another plan than the one shown");
    prop_assert!(said_yes, "{} is no yes", message);
    prop_assert!(before.drawn, "nobody had seen it");
    if let Some(phrase) = &before.phrase {
        prop_assert_eq!(phrase, &before.typed);
    }
    Ok(())
}

fn play(events: &[Event], read_only: bool) -> Result<usize, TestCaseError> {
    let rules = facts(&Look { boxes: Vec::new(), engine_fails: false, store_fails: false }, NOW).policy;
    let mut model = Model::new(setup(read_only, rules), NOW, 100, 30);
    let mut carried_out = 0;
    for (number, event) in events.iter().enumerate() {
        for message in messages(event, &model) {
            let before = shown(&model);
            let name = format!("{message:?}");
            let wants_phrase = before.as_ref().is_some_and(|shown| shown.phrase.is_some());
            let said_yes = match &message {
                Message::Key(key) => {
                    key.code == if wants_phrase { KeyCode::Enter } else { KeyCode::Char('y') }
                }
                _ => false,
            };
            for effect in update(&mut model, message) {
                check(&model, before.as_ref(), &name, said_yes, &effect)?;
                carried_out += usize::from(matches!(effect, Effect::CarryOut(_)));
                if read_only {
                    let acts =
                        matches!(effect, Effect::CarryOut(_) | Effect::Undrain(_) | Effect::Remember(_));
                    prop_assert!(!acts, "{:?}", effect);
                }
            }
        }
        if number % 10 == 9 {
            let area = ratatui::layout::Rect { x: 0, y: 0, width: model.width, height: model.height };
            view(&model, area, &mut ratatui::buffer::Buffer::empty(area));
        }
    }
    Ok(carried_out)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_carried_out_but_what_was_shown_and_confirmed(events in vec(event(), 1..120)) {
        play(&events, false)?;
    }

    #[test]
    fn read_only_carries_out_nothing_at_all(events in vec(event(), 1..120)) {
        prop_assert_eq!(play(&events, true)?, 0);
    }
}

/// The property above would hold of a dashboard that never does anything.
#[test]
fn the_events_of_the_property_do_reach_confirmations() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = vec(event(), 60..120);
    let confirmed: usize =
        (0..60).map(|_| play(&strategy.new_tree(&mut runner).unwrap().current(), false).unwrap()).sum();
    assert!(confirmed > 5, "only {confirmed} plans were confirmed");
}
