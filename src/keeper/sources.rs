//! The folders of the host under a container that is to run again. An engine makes an empty folder where one is missing, and
//! whoever comes back then works on nothing; so what is missing is named, and nothing is made or started on it.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::comeback::{Comeback, failed};
use super::outcome::Ending;
use super::protocol::Ended;
use crate::domain::ContainerId;
use crate::engine::{EngineView, Permit};
use crate::recovery::{Source, sources_in};
use crate::watch::place::Place;

/// How long a disk may take to say whether a folder is there.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a look that took too long is repeated.
const ROUNDS: usize = 3;

/// What is known of the folders.
pub(super) enum Ground {
    /// Each of them is there.
    There,
    /// They cannot be looked at; the text says why.
    Unseen(String),
}

impl Comeback<'_> {
    /// Looks at the folders under a container that is here; the right to start it is good only for as long as the look is.
    pub(super) async fn may_start(&self, id: &ContainerId) -> Result<Permit, Ended> {
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let inspection = match self.engine.inspection_to_keep(id).await {
                Ok(inspection) => inspection,
                Err(fault) => {
                    let reason = format!("its folders cannot be told: {fault}");
                    return Err(Ended::for_lack_of_evidence(Ending::Failed, reason));
                }
            };
            let sources = sources_in(&inspection);
            if let Ground::Unseen(why) = ground(self.engine, &sources).await?
                && let Some(source) = sources.iter().find(|source| source.made_if_missing)
            {
                return Err(unseen(&source.path, &why));
            }
            let permit = Permit::after_look(id, began);
            if permit.is_fresh() {
                return Ok(permit);
            }
        }
        let reason = "its folders could not be looked at in time; try again when the machine is less busy";
        Err(Ended::for_lack_of_evidence(Ending::Failed, reason))
    }
}

/// Looks at the folders as the engine sees them. One that is missing is an error with its name.
pub(super) async fn ground(engine: &EngineView, sources: &[Source]) -> Result<Ground, Ended> {
    if sources.is_empty() {
        return Ok(Ground::There);
    }
    let place = Place::of(&engine.endpoint().address).await;
    if let Err(why) = place.root() {
        return Ok(Ground::Unseen(why.to_owned()));
    }
    let paths: Vec<String> = sources.iter().map(|source| source.path.clone()).collect();
    let look = tokio::task::spawn_blocking(move || {
        let root = place.root().map_err(ToOwned::to_owned)?;
        Ok::<_, String>(look(root, paths))
    });
    let looked = match tokio::time::timeout(PATIENCE, look).await {
        Ok(Ok(Ok(looked))) => looked,
        Ok(Ok(Err(why))) => return Ok(Ground::Unseen(why)),
        Ok(Err(_)) => return Ok(Ground::Unseen("the look at them failed".to_owned())),
        Err(_) => return Ok(Ground::Unseen("the disk did not answer in time".to_owned())),
    };
    let missing: Vec<&str> =
        looked.iter().filter(|(_, seen)| *seen == Seen::Missing).map(|(path, _)| path.as_str()).collect();
    if !missing.is_empty() {
        let (them, are) = if missing.len() == 1 { ("it", "is") } else { ("them", "are") };
        return Err(failed(format!(
            "{} {are} not there, and the engine would put an empty folder in the place of {them}; bring {them} back \
             (moved away, or on a disk that is not mounted?), then try once more",
            missing.join(", ")
        )));
    }
    let unsure = looked.into_iter().find_map(|(path, seen)| match seen {
        Seen::Unsure(why) => Some(format!("{path}: {why}")),
        Seen::There | Seen::Missing => None,
    });
    Ok(unsure.map_or(Ground::There, Ground::Unseen))
}

/// Nothing is done on a folder that nobody has seen.
pub(super) fn unseen(path: &str, why: &str) -> Ended {
    let reason = format!(
        "whether {path} is still there cannot be told ({why}), and the engine would put an empty folder in its place; \
         run sandkeeper on the engine's machine, as root if need be"
    );
    Ended::for_lack_of_evidence(Ending::Failed, reason)
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    There,
    Missing,
    Unsure(String),
}

/// What is at each path below a root, through links as somebody would follow them for whom that is the root.
fn look(root: &Path, paths: Vec<String>) -> Vec<(String, Seen)> {
    let (at, open) = (root, OFlags::PATH | OFlags::CLOEXEC);
    let opened = rustix::fs::open(root, open | OFlags::DIRECTORY, Mode::empty());
    let seen = |path: &str| match &opened {
        Err(error) => Seen::Unsure(error.to_string()),
        Ok(root) => match openat2(root.as_fd(), path, open, Mode::empty(), ResolveFlags::IN_ROOT) {
            Ok(_) => Seen::There,
            Err(Errno::NOENT | Errno::NOTDIR) => Seen::Missing,
            // Kernels and sandboxes that do not know the call.
            Err(Errno::NOSYS | Errno::PERM) => plainly(&at.join(path.trim_start_matches('/'))),
            Err(error) => Seen::Unsure(error.to_string()),
        },
    };
    let with_path = |path: String| {
        let seen = seen(&path);
        (path, seen)
    };
    paths.into_iter().map(with_path).collect()
}

fn plainly(path: &Path) -> Seen {
    match path.metadata() {
        Ok(_) => Seen::There,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Seen::Missing
        }
        Err(error) => Seen::Unsure(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_they_lead_for_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("srv/real")).unwrap();
        std::fs::write(root.join("srv/file"), "x").unwrap();
        std::os::unix::fs::symlink("/srv/real", root.join("srv/link")).unwrap();
        std::os::unix::fs::symlink("/srv/gone", root.join("srv/dangling")).unwrap();
        let paths = ["/srv/real", "/srv/file", "/srv/link", "/srv/dangling", "/srv/none", "/srv/file/deep"];
        let seen = look(root, paths.map(str::to_owned).to_vec());
        let seen: Vec<bool> = seen
            .into_iter()
            .map(|(path, seen)| match seen {
                Seen::There => true,
                Seen::Missing => false,
                Seen::Unsure(why) => panic!("{path}: {why}"),
            })
            .collect();
        assert_eq!(seen, [true, true, true, false, false, false]);
    }
}
