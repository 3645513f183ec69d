//! Git repositories in the folders of a sandbox, and whether work lies in them that nobody else has.
//!
//! They are not ours, and whoever can write a repository's configuration can have programs run by `git status`. So git never
//! sees that configuration: it is given a repository of our own, with copies of the index and the branches and the
//! objects borrowed, and the folder only to compare. No hook, filter, monitor or submodule is ever run, and as root it
//! is run as the folder's owner.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::stand_in;
use crate::domain::evidence::plural;

/// How many folders are looked through, and how deep.
const MOST_FOLDERS: usize = 300;
const DEEPEST: usize = 2;
/// More changes than fit in here are not counted.
const MOST_OUTPUT: u64 = 1 << 20;

/// A repository with work that nobody else has, or of which that cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Where it is.
    pub path: PathBuf,
    /// What lies in it; `None` when that cannot be told.
    pub unsaved: Option<Unsaved>,
}

/// Work that nobody else has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsaved {
    /// Files that are not committed.
    pub files: usize,
    /// Commits on no remote.
    pub commits: usize,
}

impl Repository {
    pub(super) fn sentence(&self) -> String {
        let path = self.path.display();
        match self.unsaved {
            None => format!("whether {path} holds unsaved work cannot be told (it stays on the disk)"),
            Some(Unsaved { files, commits }) => {
                let mut parts = Vec::new();
                if files > 0 {
                    parts.push(format!("{files} uncommitted {}", plural(files, "file")));
                }
                if commits > 0 {
                    parts.push(format!("{commits} {} on no remote", plural(commits, "commit")));
                }
                format!("{} in {path} (it stays on the disk)", parts.join(" and "))
            }
        }
    }
}

/// Looks into these folders for repositories with unsaved work.
pub(super) fn look_into(folders: &[PathBuf], patience: Duration) -> Vec<Repository> {
    let mut search = Search { left: MOST_FOLDERS, until: Instant::now() + patience, ..Search::default() };
    for folder in folders {
        let known = search.untold.len();
        if search.look(folder, DEEPEST).is_err() {
            // What was not looked through may hold anything.
            search.untold.truncate(known);
            search.untold.push(folder.clone());
        }
    }
    let Search { until, mut found, untold, .. } = search;
    found.sort();
    found.dedup();
    let judged = found.into_iter().map(|path| {
        let unsaved = judge(&path, until).ok();
        Repository { path, unsaved }
    });
    let judged = judged.filter(|it| it.unsaved != Some(Unsaved { files: 0, commits: 0 }));
    judged.chain(cannot_be_told(untold)).collect()
}

/// Of these folders it cannot be told whether they hold unsaved work.
pub(super) fn cannot_be_told(mut folders: Vec<PathBuf>) -> impl Iterator<Item = Repository> {
    folders.sort();
    folders.dedup();
    folders.into_iter().map(|path| Repository { path, unsaved: None })
}

/// A search through folders that does not last.
struct Search {
    /// How many folders it may still look into.
    left: usize,
    until: Instant,
    found: Vec<PathBuf>,
    /// Where something is that cannot be judged.
    untold: Vec<PathBuf>,
}

impl Default for Search {
    fn default() -> Self {
        Self { left: 0, until: Instant::now(), found: Vec::new(), untold: Vec::new() }
    }
}

impl Search {
    /// Links are not followed: they lead out of the sandbox. Fails when there is more than can be looked through.
    fn look(&mut self, folder: &Path, deeper: usize) -> io::Result<()> {
        match kind_of(folder) {
            Ok(Some(kind)) if kind.is_dir() => {}
            Ok(_) => return Ok(()),
            Err(_) => {
                self.untold.push(folder.to_owned());
                return Ok(());
            }
        }
        self.left = self.left.checked_sub(1).filter(|_| Instant::now() <= self.until).ok_or_else(unusable)?;
        match kind_of(&folder.join(".git")) {
            Ok(None) => {}
            Ok(Some(kind)) if kind.is_dir() => {
                self.found.push(folder.to_owned());
                return Ok(());
            }
            // A worktree or a submodule, whose repository is elsewhere; or one that may not be looked at.
            Ok(Some(_)) | Err(_) => {
                self.untold.push(folder.to_owned());
                return Ok(());
            }
        }
        if deeper == 0 {
            return Ok(());
        }
        let Ok(entries) = fs::read_dir(folder) else {
            self.untold.push(folder.to_owned());
            return Ok(());
        };
        for entry in entries {
            let is_folder = |entry: &fs::DirEntry| entry.file_type().map_or(true, |kind| kind.is_dir());
            match entry {
                Ok(entry) if is_folder(&entry) => self.look(&entry.path(), deeper - 1)?,
                Ok(_) => {}
                Err(_) => self.untold.push(folder.to_owned()),
            }
            if Instant::now() > self.until {
                return Err(unusable());
            }
        }
        Ok(())
    }
}

/// What is there, without following it if it is a link.
pub(super) fn kind_of(path: &Path) -> io::Result<Option<fs::FileType>> {
    match path.symlink_metadata() {
        Ok(metadata) => Ok(Some(metadata.file_type())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn judge(repository: &Path, until: Instant) -> io::Result<Unsaved> {
    let git = repository.join(".git");
    let ours = tempfile::Builder::new().prefix("sandkeeper-look.").tempdir()?;
    let owner = repository.metadata()?;
    stand_in::prepare(&git, ours.path())?;
    let as_owner = rustix::process::geteuid().is_root() && owner.uid() != 0;
    if as_owner {
        stand_in::give(ours.path(), owner.uid(), owner.gid())?;
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs([
                ("HOME", "/nonexistent"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_ATTR_NOSYSTEM", "1"),
                ("GIT_OPTIONAL_LOCKS", "0"),
                ("GIT_TERMINAL_PROMPT", "0"),
                ("GIT_NO_LAZY_FETCH", "1"),
                ("LC_ALL", "C"),
            ])
            .current_dir("/")
            .arg("--git-dir")
            .arg(ours.path())
            .arg("--work-tree")
            .arg(repository)
            .args(arguments);
        if as_owner {
            command.uid(owner.uid()).gid(owner.gid());
        }
        output(command, until)
    };
    let status = run(&[
        "status",
        "--porcelain",
        "-z",
        "--ignore-submodules=all",
        "--untracked-files=normal",
        "--no-renames",
    ])?;
    let files = status.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).count();
    let commits = run(&[
        "rev-list",
        "--count",
        "--branches",
        // With a pattern, one that is not there is no mistake.
        "--glob=refs/stas[h]",
        "--glob=refs/detached/*",
        "--not",
        "--remotes",
    ])?;
    let commits = String::from_utf8_lossy(&commits).trim().parse().map_err(io::Error::other)?;
    Ok(Unsaved { files, commits })
}

pub(super) fn unusable() -> io::Error {
    io::Error::other("it is not a plain repository")
}

/// What a command prints; it is ended when the time is over.
fn output(mut command: Command, until: Instant) -> io::Result<Vec<u8>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let printed = child.stdout.take().ok_or_else(unusable)?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let mut printed = printed;
        let read = printed.by_ref().take(MOST_OUTPUT + 1).read_to_end(&mut text);
        // Whoever prints more is not held up by it.
        let _ = io::copy(&mut printed, &mut io::sink());
        read.map(|_| text)
    });
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > until => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = reader.join().map_err(|_| unusable())??;
    let is_whole = u64::try_from(text.len()).is_ok_and(|length| length <= MOST_OUTPUT);
    if status.success() && is_whole { Ok(text) } else { Err(unusable()) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        let done = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
            .args(arguments)
            .current_dir(folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn looked(folder: &Path) -> Vec<Option<Unsaved>> {
        let found = look_into(&[folder.to_owned()], Duration::from_mins(1));
        found.into_iter().map(|repository| repository.unsaved).collect()
    }

    #[test]
    fn uncommitted_and_unpushed_work_is_counted_and_saved_work_is_not() {
        let place = tempfile::tempdir().unwrap();
        let (work, remote) = (place.path().join("sandbox/work"), place.path().join("remote"));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(&remote).unwrap();
        git(&remote, &["init", "--bare"]);
        git(&work, &["init"]);
        fs::write(work.join("a"), "1").unwrap();
        fs::write(work.join(".gitignore"), "ignored\n").unwrap();
        fs::write(work.join("ignored"), "1").unwrap();
        assert_eq!(looked(place.path().join("sandbox").as_path()), [Some(Unsaved { files: 2, commits: 0 })]);
        git(&work, &["add", "."]);
        git(&work, &["commit", "-m", "one"]);
        assert_eq!(looked(&work), [Some(Unsaved { files: 0, commits: 1 })]);
        git(&work, &["remote", "add", "origin", remote.to_str().unwrap()]);
        git(&work, &["push", "origin", "main"]);
        assert_eq!(looked(&work), []);
        git(&work, &["pack-refs", "--all"]);
        assert_eq!(looked(&work), []);
        fs::write(work.join("a"), "22").unwrap();
        let before = fs::read(work.join(".git/index")).unwrap();
        assert_eq!(looked(&work), [Some(Unsaved { files: 1, commits: 0 })]);
        assert_eq!(fs::read(work.join(".git/index")).unwrap(), before, "it was written to");
    }

    #[test]
    fn nothing_that_a_repository_names_is_ever_run() {
        let place = tempfile::tempdir().unwrap();
        let work = place.path().join("work");
        fs::create_dir_all(&work).unwrap();
        git(&work, &["init"]);
        fs::write(work.join("a"), "1").unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "-m", "one"]);
        let proof = place.path().join("proof");
        let trap = place.path().join("trap");
        let mut script = File::create(&trap).unwrap();
        writeln!(script, "#!/bin/sh\necho \"$0 $*\" >>{}\ncat", proof.display()).unwrap();
        drop(script);
        fs::set_permissions(&trap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let trap = trap.display();
        let config = format!(
            "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {trap}\n\thooksPath = {trap}\n\tpager = {trap}\n\
             \tsshCommand = {trap}\n[filter \"x\"]\n\tclean = {trap}\n\tsmudge = {trap}\n\tprocess = {trap}\n\
             [diff \"x\"]\n\ttextconv = {trap}\n\texternal = {trap}\n[alias]\n\tstatus = !{trap}\n"
        );
        fs::write(work.join(".git/config"), config).unwrap();
        fs::write(work.join(".gitattributes"), "* filter=x diff=x\n").unwrap();
        fs::write(work.join("a"), "another").unwrap();
        assert_eq!(looked(&work), [Some(Unsaved { files: 2, commits: 1 })]);
        assert!(!proof.exists(), "{}", fs::read_to_string(&proof).unwrap_or_default());
    }

    #[test]
    fn what_cannot_be_told_is_said_so() {
        let place = tempfile::tempdir().unwrap();
        for (name, head) in [("a", "ref: refs/../../x\n"), ("b", "nonsense"), ("c", "")] {
            let git = place.path().join(name).join(".git");
            fs::create_dir_all(&git).unwrap();
            fs::write(git.join("HEAD"), head).unwrap();
        }
        assert_eq!(looked(place.path()), [None, None, None]);
        std::os::unix::fs::symlink("/", place.path().join("link")).unwrap();
        assert_eq!(looked(&place.path().join("link")), [], "links are not followed");
    }

    #[test]
    fn commits_that_no_branch_leads_to_and_stashes_are_counted() {
        let place = tempfile::tempdir().unwrap();
        let (work, remote) = (place.path().join("work"), place.path().join("remote"));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(&remote).unwrap();
        git(&remote, &["init", "--bare"]);
        git(&work, &["init"]);
        fs::write(work.join("a"), "1").unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "-m", "one"]);
        git(&work, &["remote", "add", "origin", remote.to_str().unwrap()]);
        git(&work, &["push", "origin", "HEAD"]);
        assert_eq!(looked(&work), []);
        git(&work, &["checkout", "--detach"]);
        git(&work, &["commit", "--allow-empty", "-m", "two"]);
        assert_eq!(looked(&work), [Some(Unsaved { files: 0, commits: 1 })]);
        git(&work, &["checkout", "-"]);
        assert_eq!(looked(&work), []);
        fs::write(work.join("a"), "22").unwrap();
        git(&work, &["stash"]);
        for packed in [false, true] {
            if packed {
                git(&work, &["pack-refs", "--all"]);
            }
            assert_eq!(looked(&work), [Some(Unsaved { files: 0, commits: 2 })], "packed: {packed}");
        }
    }

    #[test]
    fn what_was_not_looked_through_or_leads_elsewhere_is_said_so() {
        let place = tempfile::tempdir().unwrap();
        let worktree = place.path().join("worktree");
        fs::create_dir_all(&worktree).unwrap();
        fs::write(worktree.join(".git"), "gitdir: /elsewhere\n").unwrap();
        assert_eq!(looked(place.path()), [None]);
        let linked = place.path().join("linked");
        fs::create_dir_all(&linked).unwrap();
        git(&linked, &["init"]);
        fs::rename(linked.join(".git/refs"), place.path().join("refs")).unwrap();
        std::os::unix::fs::symlink(place.path().join("refs"), linked.join(".git/refs")).unwrap();
        assert_eq!(looked(&linked), [None]);
        let many = place.path().join("many");
        for number in 0..=MOST_FOLDERS {
            fs::create_dir_all(many.join(number.to_string())).unwrap();
        }
        assert_eq!(looked(&many), [None]);
        assert_eq!(look_into(std::slice::from_ref(&many), Duration::ZERO).len(), 1, "no time to look");
    }
}
