//! `sandkeeper gate`: a read-only way to the engine for people who may only look.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::output::write;
use super::{House, Outcome, Trouble};
use crate::accounts;
use crate::engine::{Address, EngineView};
use crate::gate::{self, Options};
use crate::text::clean;

#[derive(Debug, Args)]
pub(super) struct GateArguments {
    /// Where to listen: a path in a folder in which nobody else may write
    #[arg(long, value_name = "PATH")]
    listen: PathBuf,
    /// The rights on that socket, in octal; who may write to it may ask
    #[arg(long, value_name = "MODE", value_parser = parse_mode, default_value = "0600")]
    mode: u32,
    /// The group that owns the socket
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Only the containers of the profiles (all, or those named with `--profile`) exist for whoever asks
    #[arg(long)]
    only_profiles: bool,
    /// Keep the logs of containers back
    #[arg(long)]
    no_logs: bool,
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let digits = text.trim_start_matches("0o");
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if mode <= 0o777 && mode & 0o111 == 0 => Ok(mode),
        _ => Err("write the rights of a socket in octal, such as 0660".to_owned()),
    }
}

pub(super) async fn run(arguments: &GateArguments, house: &House) -> Result<Outcome, Trouble> {
    let group = match &arguments.group {
        Some(name) => {
            let known = accounts::group(name).map(|group| group.id).or_else(|| name.parse().ok());
            Some(known.ok_or_else(|| Trouble::NoSuchGroup(name.clone()))?)
        }
        None => None,
    };
    let entries = house.library.select(&house.settings.profiles)?;
    let options = Options {
        engine: engine(house).await?,
        listen: arguments.listen.clone(),
        mode: arguments.mode,
        group,
        profiles: entries.into_iter().map(|entry| entry.profile).collect(),
        only_profiles: arguments.only_profiles,
        logs: !arguments.no_logs,
    };
    let stop = CancellationToken::new();
    let (mut terminated, mut interrupted, mut hung_up) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
            _ = hung_up.recv() => {}
        }
        told.cancel();
    });
    let line = format!("{} for {}", options.listen.display(), options.engine);
    gate::run(options, stop, || {
        write(&format!("listening on {}\n", clean(&line)));
    })
    .await?;
    Ok(Outcome::Done)
}

/// The engine to ask: the one that is named, even while it is away, or the first that answers.
async fn engine(house: &House) -> Result<Address, Trouble> {
    let endpoints = house.endpoints()?;
    if let [named] = endpoints.as_slice() {
        return Ok(named.address.clone());
    }
    match EngineView::first_that_answers(&endpoints, house.settings.timeout).await {
        Ok((engine, _)) => Ok(engine.endpoint().address.clone()),
        Err(attempts) => {
            let tried: Vec<String> = attempts.iter().map(ToString::to_string).collect();
            Err(Trouble::NoEngine(tried.join("; ")))
        }
    }
}
