//! `sandkeeper` alone: the dashboard, on a terminal that can show one.

use std::io::IsTerminal;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{House, Outcome, Trouble};
use crate::engine::Endpoint;
use crate::keeper::who;
use crate::ui::terminal::Terminal;
use crate::ui::theme::{self, Depth, Theme};
use crate::ui::{Glyphs, Hands, Input, Keymap, Model, Screen, Setup, World, run as run_dashboard};

/// Whether there is a terminal to draw a dashboard on.
pub(super) fn can_be_shown(house: &House) -> Showing {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Showing::Nowhere;
    }
    match house.environment.variables.get("TERM").map(String::as_str) {
        Some("dumb") | None => Showing::PlainOnly,
        Some(_) => Showing::Here,
    }
}

/// What a terminal can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Showing {
    /// There is none.
    Nowhere,
    /// It can print lines and no more.
    PlainOnly,
    /// It can show a dashboard.
    Here,
}

pub(super) async fn run(house: &House) -> Result<Outcome, Trouble> {
    let settings = &house.settings;
    // Every mistake in what people wrote is told before the screen is taken.
    let keymap = Keymap::new(&settings.keys, settings.read_only)?;
    let themes = themes(house)?;
    let observer = house.observer()?;
    let endpoints = house.endpoints()?;
    let systems = house.system_maker()?;
    let setup = Setup {
        read_only: settings.read_only,
        policy: settings.policy.clone(),
        machine: if house.demo.is_some() { "demo host".to_owned() } else { machine(&endpoints) },
        keymap,
        themes,
        glyphs: Glyphs::of(&house.environment),
        mouse: settings.mouse,
        tour: house.demo.as_ref().map(|demo| demo.0.clone()).unwrap_or_default(),
        warnings: house.library.problems.iter().map(ToString::to_string).collect(),
    };
    let tasks = TaskTracker::new();
    let cancel = CancellationToken::new();
    let watch = observer.spawn(settings.cadence, &tasks, cancel.clone());
    let world = World {
        watch,
        hands: (!settings.read_only).then(|| Hands { systems, who: who(&house.environment) }),
        state_folder: settings.state_folder.clone(),
        policy: settings.policy.clone(),
        timeout: settings.timeout,
        frame_floor: settings.frame_floor,
    };
    let (width, height) = crossterm::terminal::size().unwrap_or((80, 24));
    let model = Model::new(setup, Timestamp::now(), width, height);
    let input = Input::listen()?;
    let mut screen = Screen::new(Terminal::take(settings.mouse)?);
    let result = run_dashboard(&mut screen, input, model, world).await;
    drop(screen);
    cancel.cancel();
    result?;
    Ok(Outcome::Done)
}

/// All themes, the chosen one first. Another one that is broken is left out; the chosen one is an error.
fn themes(house: &House) -> Result<Vec<(String, Theme)>, Trouble> {
    let depth = Depth::of(&house.environment);
    let folder = Some(house.settings.theme_folder.as_path());
    let chosen = house.settings.theme.clone().unwrap_or_else(|| Theme::usual(&house.environment).to_owned());
    let mut themes = vec![(chosen.clone(), Theme::named(&chosen, folder, depth)?)];
    for name in theme::names(folder).into_iter().filter(|name| *name != chosen) {
        if let Ok(theme) = Theme::named(&name, folder, depth) {
            themes.push((name, theme));
        }
    }
    Ok(themes)
}

/// What people call the machine: its own name for a local engine, the address of a remote one.
fn machine(endpoints: &[Endpoint]) -> String {
    let address = endpoints.first().map(|endpoint| endpoint.address.to_string()).unwrap_or_default();
    match address.strip_prefix("tcp://") {
        Some(remote) => remote.to_owned(),
        None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    }
}
