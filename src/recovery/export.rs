//! Saves what a container has written inside itself, before it goes: one archive with every file that its image does not
//! have, or has otherwise.

use std::fs::{DirBuilder, File};
use std::io::{BufWriter, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::archive::Archive;
use crate::domain::container::Container;
use crate::engine::{Change, ChangeKind, EngineFault, EngineView};

/// How long the engine may take for each piece of a file.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why nothing was saved.
#[derive(Debug, Error)]
pub enum ExportFault {
    /// The engine cannot be asked.
    #[error("what it has written cannot be read: {0}")]
    Engine(#[from] EngineFault),
    /// The archive cannot be written.
    #[error("{path} cannot be written: {why}")]
    Unwritable {
        /// Which file.
        path: String,
        /// Why.
        why: std::io::Error,
    },
}

/// Saves the changes of a container to an archive in `folder`; says where, and how many entries it has.
pub async fn export(
    engine: &EngineView,
    container: &Container,
    folder: &Path,
) -> Result<(PathBuf, usize), ExportFault> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = container.name.chars().map(plain).collect();
    let place = folder.join(format!("{name}-{}.tar", container.id.short()));
    let unwritable = |why: std::io::Error| ExportFault::Unwritable { path: place.display().to_string(), why };
    engine.raw_inspection(&container.id).await?;
    let changes = engine.changes(&container.id).await?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unwritable)?;
    // Half an archive must not look like one, and nobody may have put a link where it goes: it is new, under a name that
    // nobody can guess, only its owner's, and goes by itself unless it gets its own name.
    let half = tempfile::Builder::new().prefix(&format!("{name}-")).suffix(".tar.part").tempfile_in(folder);
    let half = half.map_err(unwritable)?;
    let file = half.as_file().try_clone().map_err(unwritable)?;
    let entries = save(engine, container, &changes, file, &unwritable).await?;
    half.persist(&place).map_err(|fault| unwritable(fault.error))?;
    Ok((place, entries))
}

async fn save(
    engine: &EngineView,
    container: &Container,
    changes: &[Change],
    file: File,
    unwritable: &impl Fn(std::io::Error) -> ExportFault,
) -> Result<usize, ExportFault> {
    let mut archive = Archive::new(BufWriter::new(file));
    for (path, whole) in wanted(container, changes) {
        let mut packed = tempfile::tempfile().map_err(unwritable)?;
        match engine.save_path(&container.id, path, PATIENCE, &mut packed).await {
            // A socket or a device that the engine does not pack, or a file that has gone meanwhile.
            Err(EngineFault::Status { status: 404, .. }) => continue,
            packed => packed?,
        }
        packed.seek(SeekFrom::Start(0)).map_err(unwritable)?;
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        archive.add(&mut std::io::BufReader::new(packed), parent, !whole).map_err(unwritable)?;
    }
    let (out, entries) = archive.finish().map_err(unwritable)?;
    out.into_inner()
        .map_err(std::io::IntoInnerError::into_error)
        .map_err(unwritable)?
        .sync_all()
        .map_err(unwritable)?;
    Ok(entries)
}

/// The paths to save, and whether with all that is below. What is mounted stays, so it is left out.
fn wanted<'a>(container: &Container, changes: &'a [Change]) -> Vec<(&'a str, bool)> {
    let targets: Vec<&str> = container.mounts.iter().map(|mount| mount.target.as_str()).collect();
    let tmpfs = container.inspection().map(|inspection| inspection.tmpfs.as_slice()).unwrap_or_default();
    let targets: Vec<&str> = targets.into_iter().chain(tmpfs.iter().map(String::as_str)).collect();
    let mut paths: Vec<(&str, ChangeKind)> = changes
        .iter()
        .filter(|change| change.kind != ChangeKind::Deleted)
        .filter(|change| !targets.iter().any(|target| is_in(&change.path, target)))
        .map(|change| (change.path.as_str(), change.kind))
        .collect();
    paths.sort_unstable_by_key(|(path, _)| *path);
    let mut wanted: Vec<(&str, bool)> = Vec::new();
    for (path, kind) in paths {
        let saved =
            wanted.iter().rev().find(|(_, whole)| *whole).is_some_and(|(saved, _)| is_in(path, saved));
        let holds_mount = targets.iter().any(|target| is_in(target, path));
        let whole = kind == ChangeKind::Added && !holds_mount;
        if !saved {
            wanted.push((path, whole));
        }
    }
    wanted
}

/// Whether a path is another one, or below it.
fn is_in(path: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
