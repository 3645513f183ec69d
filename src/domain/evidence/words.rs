//! The sentences people read.

use std::fmt;

use super::{Evidence, HashSource};
use crate::domain::span::{Precise, Span};

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LiveSession { .. }
            | Self::MoreLiveSessions(_)
            | Self::QuietSessions { .. }
            | Self::WithinLifetime { .. }
            | Self::QuietPastLifetime { .. }
            | Self::AllSessionsEnded { .. }
            | Self::OpenSessions { .. }
            | Self::VanishedSessions(_)
            | Self::SessionOpen { .. } => self.write_sessions(f),
            Self::StoreUnreadable { .. }
            | Self::StoreSuspect { .. }
            | Self::StoreUnproven { .. }
            | Self::LivenessUnclear { .. }
            | Self::ActivityUnreadable { .. } => self.write_store(f),
            Self::RunningExec(_)
            | Self::AtWork { .. }
            | Self::MayBeWork { .. }
            | Self::ShellOnTerminal(_)
            | Self::MayBeAttached(_)
            | Self::ProcessesUnreadable(_)
            | Self::NamespaceShared { .. }
            | Self::NeighbourUnreadable(_)
            | Self::CompanionRuns(_) => self.write_process(f),
            Self::ConfigOutdated { hash, expected, source } => {
                let source = match source {
                    HashSource::Newest => "the newest container's",
                    HashSource::Profile => "the profile's",
                    HashSource::Operator => "the expected one",
                };
                write!(f, "config {hash} is not {expected} ({source})")
            }
            Self::ConfigUndecided => f.write_str(
                "the current config cannot be told: no single newest container shows it; name it with --expect-hash",
            ),
            Self::ImageMoved { reference, image_id, now } => {
                let short = |id: &str| id.trim_start_matches("sha256:").chars().take(12).collect::<String>();
                write!(f, "{reference} now names image {}, not {}", short(now), short(image_id))
            }
            Self::NoSession { age, state, has_store } => {
                let claim = if *has_store { "no session claims it" } else { "nothing claims it" };
                write!(f, "{claim}; {state}, made {} ago", Span(*age))
            }
            Self::PathGone(_)
            | Self::PathUnsure { .. }
            | Self::TooOld { .. }
            | Self::MayBeInUse { .. }
            | Self::TooNew { .. } => self.write_sign(f),
            Self::DrainMarked { ago, by } => write!(f, "marked for eviction {} ago by {by}", Span(*ago)),
            Self::FactsTooOld { source, age } => write!(f, "the facts from {source} are {} away from now", Span(*age)),
            Self::EngineFailed(fault) => write!(f, "the engine did not answer: {fault}"),
            Self::ClockStepped(by) => write!(f, "the clock jumped by {}, so silence proves nothing for now", Span(*by)),
            Self::StateNotRecognised(state) if state.is_empty() => f.write_str("the engine gives no state for it"),
            Self::StateNotRecognised(state) => write!(f, "the engine calls its state `{state}`, which is not known here"),
            Self::BeingRemoved => f.write_str("the engine is removing it"),
            Self::RowUnreadable(problem) => write!(f, "the engine's row for it cannot be read: {problem}"),
            Self::InspectFailed(fault) => write!(f, "it could not be inspected: {fault}"),
            Self::LabelsFromImage { labels, .. } if labels.is_empty() => {
                f.write_str("its profile asks for no label, so nobody has shown that it is ours")
            }
            Self::LabelsFromImage { labels, image } => {
                write!(f, "its ownership label {labels} comes from its image {image}, so nobody has shown that it is ours")
            }
            Self::ImageUnverifiable { image, why } => {
                write!(f, "its image {image} cannot be asked whether the labels are its own: {why}")
            }
            Self::Disputed(_)
            | Self::SeveralStores(_)
            | Self::HomeNotRead(_)
            | Self::HomeUnclear
            | Self::SeveralInstances(_)
            | Self::OtherInstance { .. }
            | Self::InstanceUnproven(_)
            | Self::NoInstance { .. } => self.write_owner(f),
            Self::LifetimeUnreadable(why) => write!(f, "its lifetime cannot be told: {why}"),
            Self::PersistenceUnreadable(why) => {
                write!(f, "whether it outlives its sessions cannot be told: {why}")
            }
            Self::Undecidable(why) | Self::ProfileBroken(why) => f.write_str(why),
            recovery => recovery.write_recovery(f),
        }
    }
}

impl Evidence {
    /// What the sessions say that claim it.
    fn write_sessions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LiveSession { session, title, quiet, declared } => {
                write!(f, "session {}", shortened(session))?;
                if let Some(title) = title {
                    write!(f, " ({title})")?;
                }
                f.write_str(if *declared { " is live" } else { " was active" })?;
                match (quiet, declared) {
                    (Some(quiet), true) => write!(f, ", last activity {} ago", Span(*quiet)),
                    (Some(quiet), false) => write!(f, " {} ago and counts as live", Span(*quiet)),
                    (None, true) => f.write_str(", with no readable time of activity in the past"),
                    (None, false) => f.write_str(" in the future by this clock and counts as live"),
                }
            }
            Self::MoreLiveSessions(count) => write!(f, "{count} more live {}", plural(*count, "session")),
            Self::QuietSessions { count, ended } => write_quiet_sessions(f, *count, *ended),
            Self::WithinLifetime { quiet, lifetime } => {
                write!(f, "quiet for {}, within its lifetime of {}", Span(*quiet), Span(*lifetime))
            }
            Self::QuietPastLifetime { quiet, lifetime } => {
                write!(f, "quiet for {}, longer than its lifetime of {}", Span(*quiet), Span(*lifetime))
            }
            Self::AllSessionsEnded { count, ago } => {
                let whose = if *count == 1 {
                    "its session has".to_owned()
                } else {
                    format!("all {count} of its sessions have")
                };
                write!(f, "not persistent, and {whose} ended")?;
                ago.map_or(Ok(()), |ago| write!(f, ", {} ago", Span(ago)))
            }
            Self::OpenSessions { count, quiet, limit } => {
                let has = if *count == 1 { "has" } else { "have" };
                write!(
                    f,
                    "{count} {} of it {has} not ended; quiet for {}, kept until {}",
                    plural(*count, "session"),
                    Span(*quiet),
                    Span(*limit)
                )
            }
            Self::VanishedSessions(count) => {
                let (is, its) = if *count == 1 { ("is", "its") } else { ("are", "their") };
                write!(
                    f,
                    "{count} {} {is} no longer in the store and never ended: counted as open since {its} last look",
                    plural(*count, "session")
                )
            }
            Self::SessionOpen { quiet } => {
                f.write_str("it has not ended")?;
                quiet.map_or(Ok(()), |quiet| write!(f, "; last activity {} ago", Span(quiet)))
            }
            _ => Ok(()),
        }
    }

    /// Why a store says nothing that lets anything go.
    fn write_store(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StoreUnreadable { path, fault } => {
                write!(f, "the session store {path} could not be read, so a session may need it: {fault}")
            }
            Self::StoreSuspect { path, vanished, live, left } => {
                let live = match (live, vanished) {
                    (false, _) => "",
                    (true, 1) => ", a live one,",
                    (true, _) => ", live ones among them,",
                };
                write!(
                    f,
                    "the session store {path} no longer has {vanished} open {}{live} that it had, and may be the wrong \
                     one; doubted for {} more, or until `sandkeeper accept {path}`",
                    plural(*vanished, "session"),
                    Precise(*left)
                )
            }
            Self::StoreUnproven { path, left } => write!(
                f,
                "the session store {path} is new here and claims none of these containers, so it may be the wrong one; \
                 doubted for {} more, or until `sandkeeper accept {path}`",
                Precise(*left)
            ),
            Self::LivenessUnclear { session, why } => {
                write!(f, "whether session {} is live cannot be told: {why}", shortened(session))
            }
            Self::ActivityUnreadable { session, why } => {
                write!(f, "when session {} was last active cannot be told: {why}", shortened(session))
            }
            _ => Ok(()),
        }
    }

    /// What runs in it, or beside it.
    fn write_process(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunningExec(count) => {
                write!(f, "{count} {} running in it (exec)", plural(*count, "command"))
            }
            Self::AtWork { count: 1, program } => write!(f, "{program} runs in it in the background"),
            Self::AtWork { count, program } => {
                write!(f, "{program} and {} more run in it in the background", count - 1)
            }
            Self::MayBeWork { count, program, stray } => {
                match count {
                    1 => write!(f, "{program} runs in it"),
                    _ => write!(f, "{program} and {} more run in it", count - 1),
                }?;
                f.write_str(if *stray {
                    ", as what a command leaves behind does"
                } else {
                    " and began more than a minute after its first process"
                })?;
                f.write_str(", so it may be somebody's work; if it is not, name it under rules.at_rest")
            }
            Self::ShellOnTerminal(shell) => {
                write!(f, "its first process is {shell} on a terminal, so somebody may be typing in it")
            }
            Self::MayBeAttached(program) => write!(
                f,
                "{program} was started with its input attached, so whoever started it may still be there; \
                 if nobody is, name it under rules.at_rest"
            ),
            Self::ProcessesUnreadable(why) => {
                write!(f, "whether something runs in it in the background cannot be told: {why}")
            }
            Self::NamespaceShared { namespace, by } => write!(f, "{by} runs in its {namespace} namespace"),
            Self::NeighbourUnreadable(name) => {
                write!(f, "{name} runs and could not be inspected, so it may share a namespace with this one")
            }
            Self::CompanionRuns(name) => write!(f, "{name} runs, which watches over it"),
            _ => Ok(()),
        }
    }

    /// What shows, or does not show, that an unclaimed container is over.
    fn write_sign(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathGone(path) => write!(f, "{path} is gone, so what it was made for is over"),
            Self::PathUnsure { path, why } => {
                write!(f, "whether {path} is still there cannot be told: {why}")
            }
            Self::TooOld { age, limit } => {
                write!(
                    f,
                    "{} old, more than the {} that anything in it may take",
                    Precise(*age),
                    Precise(*limit)
                )
            }
            Self::MayBeInUse { age, state, limit } => {
                write!(
                    f,
                    "nothing claims it, and nothing shows that it is over; {state}, {} old",
                    Precise(*age)
                )?;
                limit.map_or(Ok(()), |limit| write!(f, " of at most {}", Precise(limit)))
            }
            Self::TooNew { age, started, grace } => {
                let what = if *started { "started" } else { "made" };
                write!(
                    f,
                    "{what} {} ago, within the grace of {}: its session may be about to start",
                    Span(*age),
                    Span(*grace)
                )
            }
            _ => Ok(()),
        }
    }

    /// Whose it is, or why that cannot be told.
    fn write_owner(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disputed(systems) => write!(f, "claimed by several profiles: {}", listed(systems)),
            Self::SeveralStores(stores) => {
                write!(f, "claimed by sessions of several stores: {}", listed(stores))
            }
            Self::HomeNotRead(home) => {
                write!(f, "belongs to {home}, whose sessions are not read here; name its database with --db")
            }
            Self::HomeUnclear => {
                f.write_str("no session claims it, and nothing shows to whose sessions it belongs")
            }
            Self::SeveralInstances(instances) => {
                write!(
                    f,
                    "several instances share this engine ({}); name yours with --instance",
                    listed(instances)
                )
            }
            Self::OtherInstance { instance, ours } => {
                write!(f, "belongs to instance {instance}; ours is {ours}")
            }
            Self::InstanceUnproven(instance) => write!(
                f,
                "belongs to instance {instance}, and no session read here claims one of its containers by id; if it is \
                 yours, name it with --instance {instance}"
            ),
            Self::NoInstance { ours } => write!(f, "names no instance, while ours is {ours}"),
            _ => Ok(()),
        }
    }
}

fn write_quiet_sessions(f: &mut fmt::Formatter<'_>, count: usize, ended: usize) -> fmt::Result {
    let verb = if count == 1 { "claims" } else { "claim" };
    write!(f, "{count} {} {verb} it, none is live", plural(count, "session"))?;
    match ended {
        0 => Ok(()),
        ended if ended == count => f.write_str(", all ended"),
        ended => write!(f, ", {ended} ended"),
    }
}

/// `1 session`, `2 sessions`.
pub fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// Long ids are shown by their beginning; everything that matters is keyed by the whole.
fn shortened(id: &str) -> String {
    const LONGEST: usize = 24;
    if id.chars().count() <= LONGEST {
        return id.to_owned();
    }
    id.chars().take(LONGEST - 1).chain(['…']).collect()
}

fn listed<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
