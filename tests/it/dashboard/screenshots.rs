//! The pictures in `screenshots/` are what the program draws. `tests/screenshots` takes them anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyEvent;
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use sandkeeper::demo::Scene;
use sandkeeper::domain::plan::Action;
use sandkeeper::domain::{Policy, Snapshot, classify};
use sandkeeper::keeper::{Ending, ItemOutcome, Progress};
use sandkeeper::ui::theme::{Depth, Theme};
use sandkeeper::ui::{
    Chord, Effect, Glyphs, Keymap, Message, Model, Observation, Setup, animation, svg, update, view,
};

const NOW: &str = "2026-02-22T11:00:00Z";
/// The second it takes to read one picture of the animation.
const PAUSE: Duration = Duration::from_millis(1800);

/// A camera in front of the dashboard on the demo host.
struct Camera {
    model: Model,
    theme: Theme,
    plan: Vec<(usize, Action, sandkeeper::domain::plan::Item)>,
}

/// The demo host, frozen.
fn host() -> (Arc<Snapshot>, Timestamp) {
    let now: Timestamp = NOW.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let snapshot = runtime.block_on(async {
        let scene = Scene::still(7, now).unwrap();
        scene.snapshot(now).await.unwrap()
    });
    (Arc::new(snapshot), now)
}

impl Camera {
    fn new(host: &(Arc<Snapshot>, Timestamp), width: u16, height: u16, theme: &str, read_only: bool) -> Self {
        let theme_name = theme;
        let theme = Theme::named(theme_name, None, Depth::True).unwrap();
        // As in the demo's own surroundings.
        let policy =
            Policy { instance: Some("atelier".to_owned()), count_downtime: true, ..Policy::default() };
        let setup = Setup {
            read_only,
            policy: policy.clone(),
            machine: "demo host".to_owned(),
            keymap: Keymap::new(&BTreeMap::new(), read_only).unwrap(),
            themes: vec![(theme_name.to_owned(), theme.clone())],
            glyphs: Glyphs::Unicode,
            mouse: false,
            tour: Vec::new(),
            warnings: Vec::new(),
        };
        let (snapshot, now) = host;
        let verdicts = Arc::new(classify(snapshot, &policy, *now));
        let mut camera = Self { model: Model::new(setup, *now, width, height), theme, plan: Vec::new() };
        let observation = Observation { snapshot: Arc::clone(snapshot), verdicts, at: *now };
        camera.take(Message::Observed(observation));
        camera
    }

    fn take(&mut self, message: Message) {
        for effect in update(&mut self.model, message) {
            if let Effect::CarryOut(confirmed) = effect {
                let items = confirmed.plan().items().iter().cloned().enumerate();
                self.plan = items.map(|(index, item)| (index, item.action, item)).collect();
            }
        }
    }

    /// Presses keys: words are chords, what stands in `'…'` is typed.
    fn press(mut self, keys: &str) -> Self {
        for (index, part) in keys.split('\'').enumerate() {
            let words: Vec<String> = if index % 2 == 1 {
                part.chars().map(|c| if c == ' ' { "space".to_owned() } else { c.to_string() }).collect()
            } else {
                part.split_whitespace().map(str::to_owned).collect()
            };
            for word in words {
                let chord = Chord::parse(&word).unwrap();
                self.take(Message::Key(KeyEvent::new(chord.code, chord.modifiers)));
                // Whoever presses the next key has seen what this one did.
                self.take(Message::Drawn);
            }
        }
        self
    }

    /// Puts the cursor on a container.
    fn on(mut self, name: &str) -> Self {
        let place =
            self.model.list.rows.iter().position(|row| {
                self.model.verdict(row).is_some_and(|verdict| verdict.subject.name() == name)
            });
        self.model.list.select(place.unwrap_or_else(|| panic!("{name} is not on the demo host")));
        self.take(Message::Tick(self.model.now));
        self
    }

    /// Lets work get somewhere: the first few are done, the next are in the middle.
    fn at_work(mut self) -> Self {
        let changing: Vec<_> =
            self.plan.iter().filter(|(_, action, _)| *action != Action::Keep).cloned().collect();
        for (place, (index, action, item)) in changing.into_iter().enumerate() {
            let message = match (place, action) {
                (0..4, _) => {
                    Progress::Finished { index, outcome: Box::new(done(item, Ending::Removed, "removed")) }
                }
                (4..9, Action::StopAndRemove) => {
                    Progress::Stopping { index, grace: Duration::from_secs(10 - place as u64) }
                }
                (4..9, _) => Progress::Removing { index },
                _ => continue,
            };
            self.take(Message::Progress(message));
        }
        self
    }

    /// Lets work end.
    fn done(mut self) -> Self {
        let outcomes = self.plan.drain(..).map(|(index, action, item)| match (index, action) {
            (_, Action::Keep) => {
                let reason = item.reason.to_string();
                done(item, Ending::Kept, &reason)
            }
            (_, Action::Remove) => {
                let reason = item.reason.to_string();
                done(item, Ending::Removed, &reason)
            }
            (index, _) if index % 5 == 2 => {
                done(item, Ending::Skipped, "session 41c8 of its workspace became live while it was planned")
            }
            _ => {
                let reason = item.reason.to_string();
                done(item, Ending::Removed, &reason)
            }
        });
        let outcomes = outcomes.collect();
        self.take(Message::WorkEnded(Ok(outcomes)));
        self
    }

    fn buffer(&self) -> Buffer {
        let area = Rect { x: 0, y: 0, width: self.model.width, height: self.model.height };
        let mut buffer = Buffer::empty(area);
        view(&self.model, area, &mut buffer);
        buffer
    }

    fn picture(&self) -> String {
        svg(&self.buffer(), "sandkeeper", self.theme.ground())
    }
}

fn done(item: sandkeeper::domain::plan::Item, ending: Ending, reason: &str) -> ItemOutcome {
    let duration = Duration::from_secs(1);
    ItemOutcome {
        item,
        ending,
        reason: reason.to_owned(),
        evidence_missing: false,
        unjournalled: None,
        duration,
    }
}

/// Every picture, by name.
fn pictures() -> Vec<(&'static str, String)> {
    let host = host();
    let wide = |theme| Camera::new(&host, 140, 40, theme, false);
    let confirmed = |camera: Camera| {
        let phrase = match camera.model.layers.last() {
            Some(sandkeeper::ui::Layer::Preview(preview)) => preview.phrase(),
            _ => None,
        };
        match phrase {
            Some(phrase) => camera.press(&format!("'{phrase}' enter")),
            None => camera.press("y"),
        }
    };
    let small = || Camera::new(&host, 112, 32, "dark", false);
    let tour = [
        small(),
        small().on("atelier-docs-2"),
        small().on("atelier-docs-2").press("tab"),
        small().press("/ 'status:stale,orphaned'"),
        small().press("R"),
        confirmed(small().press("R")).at_work(),
        confirmed(small().press("R")).at_work().done(),
    ];
    let frames: Vec<Buffer> = tour.iter().map(Camera::buffer).collect();
    vec![
        ("dashboard", wide("dark").picture()),
        ("why", wide("dark").on("atelier-docs-2").press("enter").picture()),
        ("preview", wide("dark").press("R").picture()),
        ("progress", confirmed(wide("dark").press("R")).at_work().picture()),
        ("summary", confirmed(wide("dark").press("R")).at_work().done().picture()),
        ("narrow", Camera::new(&host, 80, 24, "dark", false).on("parachute-ws-borealis").picture()),
        (
            "read-only",
            Camera::new(&host, 140, 40, "dark", true).on("parachute-ws-garden").press("tab").picture(),
        ),
        ("light", wide("light").on("parachute-ws-thesis").picture()),
        ("tour", animation(&frames, "sandkeeper", tour[0].theme.ground(), PAUSE)),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("screenshots")
}

#[test]
fn the_pictures_show_what_the_program_draws() {
    let anew = std::env::var_os("SANDKEEPER_TAKE_SCREENSHOTS").is_some();
    let mut different = Vec::new();
    for (name, drawn) in pictures() {
        let path = folder().join(format!("{name}.svg"));
        if anew {
            std::fs::write(&path, &drawn).unwrap();
        } else if std::fs::read_to_string(&path).ok().as_deref() != Some(drawn.as_str()) {
            different.push(name);
        }
    }
    assert!(
        different.is_empty(),
        "{different:?} no longer show the program; run `tests/screenshots` and look at them"
    );
}

/// A PNG is made from each picture and carries its checksum, so that one that was left behind is noticed.
#[test]
fn every_picture_has_its_png() {
    for (name, _) in pictures().iter().filter(|(name, _)| *name != "tour") {
        let drawn = std::fs::read(folder().join(format!("{name}.svg"))).unwrap();
        let png = std::fs::read(folder().join(format!("{name}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "{name}.png is no PNG");
        let checksums = std::fs::read_to_string(folder().join("checksums")).unwrap();
        let line = format!("{:016x} {:016x} {name}", sum(&drawn), sum(&png));
        assert!(
            checksums.lines().any(|known| known == line),
            "{name}.png is not of {name}.svg: expected `{line}`"
        );
    }
}

#[test]
fn checksums_are_written_when_pictures_are_taken_anew() {
    if std::env::var_os("SANDKEEPER_SUM_SCREENSHOTS").is_none() {
        return;
    }
    let mut lines = String::new();
    for (name, _) in pictures().iter().filter(|(name, _)| *name != "tour") {
        let read = |end: &str| std::fs::read(folder().join(format!("{name}.{end}"))).unwrap();
        writeln!(lines, "{:016x} {:016x} {name}", sum(&read("svg")), sum(&read("png"))).unwrap();
    }
    std::fs::write(folder().join("checksums"), lines).unwrap();
}

/// FNV-1a: enough to notice a difference.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
