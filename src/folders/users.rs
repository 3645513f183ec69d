//! Who has a folder: every process of this machine says what is mounted for it, whatever engine started it and wherever that
//! engine is. A process that is there and does not say may have anything.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::ground::unescaped;
use crate::database::Identity;

/// What the processes of this machine have mounted.
#[derive(Debug)]
pub(crate) struct Users {
    /// Our own mounts.
    ours: Vec<Mount>,
    others: Vec<Process>,
    /// Why not every process could be looked at, if so.
    unseen: Option<String>,
}

#[derive(Debug)]
struct Process {
    /// As people know it.
    name: String,
    mounts: Vec<Mount>,
    /// Whether it sees the files of this machine where we see them.
    is_at_home: bool,
    /// Where it works, and what it has open, if that may be seen.
    works_in: Vec<PathBuf>,
    /// The folders around the places where it works, whatever it calls them.
    around: HashSet<Identity>,
}

/// One line of a list of mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// Which file system.
    device: String,
    /// What part of it.
    part: PathBuf,
    /// Where.
    place: PathBuf,
}

impl Users {
    /// Looks at every process.
    pub(crate) fn look() -> Result<Self, String> {
        Self::look_in(Path::new("/proc"))
    }

    fn look_in(proc: &Path) -> Result<Self, String> {
        let untold = |error: io::Error| format!("what is mounted here cannot be told: {error}");
        let text = fs::read(proc.join("self/mountinfo")).map_err(untold)?;
        let ours = mounts(&text);
        let our_root = root_of(&ours).cloned();
        let mut users = Self { ours, others: Vec::new(), unseen: hidden(&text) };
        for entry in proc.read_dir().map_err(untold)? {
            let name = entry.map_err(untold)?.file_name();
            let Some(pid) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            else {
                continue;
            };
            let folder = proc.join(pid);
            let command = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            let name = format!("process {pid} ({})", command.trim_end());
            match fs::read(folder.join("mountinfo")) {
                Ok(text) => {
                    let mounts = mounts(&text);
                    let is_at_home = root_of(&mounts) == our_root.as_ref();
                    let links = ["cwd", "root"].map(|link| folder.join(link));
                    let works_in = if is_at_home { opened(&folder, &links) } else { Vec::new() };
                    let around = if is_at_home { HashSet::new() } else { around(&links[..1]) };
                    users.others.push(Process { name, mounts, is_at_home, works_in, around });
                }
                Err(error) if has_ended(&error) => {}
                Err(error) => {
                    users.unseen.get_or_insert_with(|| format!("{name} cannot be looked at: {error}"));
                }
            }
        }
        Ok(users)
    }

    /// Refuses a folder that somebody has, or may have: it, something in it, or something around it is mounted somewhere, or
    /// somebody works in it.
    pub(crate) fn have_left(&self, folder: &Path) -> Result<(), String> {
        let untold = |what: &str| format!("whether somebody uses it cannot be told: {what}");
        let real = folder.canonicalize().map_err(|error| untold(&error.to_string()))?;
        let Some((home, part)) = part_of(&self.ours, &real) else {
            return Err(untold("no file system of this machine holds it"));
        };
        let own = identity(&real);
        for process in &self.others {
            for mount in process.mounts.iter().filter(|mount| mount.device == home.device) {
                let within = mount.part.starts_with(&part);
                let around = part.starts_with(&mount.part);
                // Somebody who sees our files as we do has them all around him; so does whoever looks at all of the disk.
                let is_a_view =
                    process.is_at_home || (mount.part == Path::new("/") && home.place == Path::new("/"));
                if within || (around && !is_a_view) {
                    let (name, place) = (&process.name, mount.place.display());
                    return Err(format!("{name} has {} mounted at {place}", shown(&real, &part, mount)));
                }
            }
            if let Some(place) = process.works_in.iter().find(|place| place.starts_with(&real)) {
                return Err(format!("{} works in {}", process.name, place.display()));
            }
            if own.is_some_and(|own| process.around.contains(&own)) {
                return Err(format!("{} works in it", process.name));
            }
        }
        match &self.unseen {
            Some(why) => Err(untold(why)),
            None => Ok(()),
        }
    }
}

/// Where a process works, and what it has open.
fn opened(process: &Path, links: &[PathBuf]) -> Vec<PathBuf> {
    let open = process.join("fd").read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    links.iter().cloned().chain(open).filter_map(|link| link.read_link().ok()).collect()
}

/// More folders are not inside of each other.
const DEEPEST: usize = 128;

/// The folders around these places up to the root, told by what they are: a process elsewhere has other names for them.
fn around(places: &[PathBuf]) -> HashSet<Identity> {
    let mut found = HashSet::new();
    for place in places {
        let mut place = place.clone();
        for _ in 0..DEEPEST {
            match identity(&place) {
                Some(folder) if found.insert(folder) => place.push(".."),
                _ => break,
            }
        }
    }
    found
}

fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|folder| (folder.dev(), folder.ino()))
}

/// What a mount shows, in our own terms.
fn shown(real: &Path, part: &Path, mount: &Mount) -> String {
    let below = mount.part.strip_prefix(part).ok();
    match below {
        Some(below) if below.as_os_str().is_empty() => "it".to_owned(),
        Some(below) => real.join(below).display().to_string(),
        None => "what is around it".to_owned(),
    }
}

/// A process that ended since it was listed has nothing any more; nor has one that only waits to be noticed.
fn has_ended(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH | Errno::INVAL))
}

/// Why processes may be missing from the list: where they are hidden from others, whoever is not root sees only his own.
fn hidden(mountinfo: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(mountinfo);
    let proc = text.lines().find(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let hides = proc.contains("hidepid=") && !proc.contains("hidepid=0") && !proc.contains("hidepid=off");
    let why = "processes of others are hidden here (hidepid); try as root";
    (hides && !rustix::process::geteuid().is_root()).then(|| why.to_owned())
}

fn mounts(text: &[u8]) -> Vec<Mount> {
    let lines = text.split(|byte| *byte == b'\n');
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let device = String::from_utf8_lossy(fields.next()?).into_owned();
        Some(Mount { device, part: unescaped(fields.next()?), place: unescaped(fields.next()?) })
    };
    lines.filter_map(mount).collect()
}

/// What is at the root; of several on top of each other the last.
fn root_of(mounts: &[Mount]) -> Option<&Mount> {
    mounts.iter().rev().find(|mount| mount.place == Path::new("/"))
}

/// The mount that holds a path, and which part of its file system the path is.
fn part_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<(&'a Mount, PathBuf)> {
    let holds = mounts.iter().filter(|mount| path.starts_with(&mount.place));
    let mount = holds.max_by_key(|mount| mount.place.as_os_str().len())?;
    let below = path.strip_prefix(&mount.place).ok()?;
    let part = if below.as_os_str().is_empty() { mount.part.clone() } else { mount.part.join(below) };
    Some((mount, plain(&part)))
}

/// Without a mark for what was deleted since, which the kernel puts at the end.
fn plain(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(b"//deleted").unwrap_or(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with one disk, and these other processes: a name and its list of mounts.
    fn machine(processes: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let proc = place.path().join("proc");
        let ours = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 21 0:5 / /proc rw - proc proc rw\n";
        for (pid, mounts) in [("self", ours), ("1", ours)].iter().chain(processes) {
            fs::create_dir_all(proc.join(pid)).unwrap();
            fs::write(proc.join(pid).join("comm"), "agent\n").unwrap();
            if *mounts == "unreadable" {
                // Reading a folder fails in a way that no ended process does.
                fs::create_dir_all(proc.join(pid).join("mountinfo")).unwrap();
            } else {
                fs::write(proc.join(pid).join("mountinfo"), mounts).unwrap();
            }
        }
        let folder = place.path().join("sandboxes/old");
        fs::create_dir_all(folder.join("home")).unwrap();
        (place, folder.canonicalize().unwrap())
    }

    fn told(processes: &[(&str, String)], of: impl Fn(&Path) -> PathBuf) -> Result<(), String> {
        let processes: Vec<(&str, &str)> =
            processes.iter().map(|(pid, text)| (*pid, text.as_str())).collect();
        let (place, folder) = machine(&processes);
        let fill = |text: &str| text.replace("{folder}", &of(&folder).display().to_string());
        for (pid, text) in processes.iter().filter(|(_, text)| *text != "unreadable") {
            fs::write(place.path().join("proc").join(pid).join("mountinfo"), fill(text)).unwrap();
        }
        Users::look_in(&place.path().join("proc")).unwrap().have_left(&folder)
    }

    const CONTAINER: &str = "50 40 0:60 / / rw - overlay overlay rw\n";

    #[test]
    fn a_folder_that_any_process_has_mounted_stays() {
        let bound =
            |part: &str| vec![("77", format!("{CONTAINER}51 50 8:1 {part} /root rw - ext4 /dev/sda1 rw\n"))];
        assert_eq!(told(&bound("/elsewhere"), Path::to_owned), Ok(()));
        let mounted = |of: &dyn Fn(&Path) -> PathBuf| told(&bound("{folder}"), of).unwrap_err();
        assert!(mounted(&|folder| folder.to_owned()).contains("process 77 (agent) has it mounted at /root"));
        let within = mounted(&|folder| folder.join("home"));
        assert!(within.contains("sandboxes/old/home mounted at /root"), "{within}");
        let around = mounted(&|folder| folder.parent().unwrap().to_owned());
        assert!(around.contains("has what is around it mounted"), "{around}");
        // Beside it is not in it, and all of the disk is a view of it, as ours is.
        assert_eq!(told(&bound("{folder}"), |folder| folder.with_file_name("older")), Ok(()));
        assert_eq!(told(&bound("/"), Path::to_owned), Ok(()));
        // Another disk may have the same names.
        let other = format!("{CONTAINER}51 50 8:2 {{folder}} /root rw - ext4 /dev/sdb1 rw\n");
        assert_eq!(told(&[("77", other)], Path::to_owned), Ok(()));
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_is_doubt_and_one_that_has_ended_is_not() {
        let refused = told(&[("77", "unreadable".to_owned())], Path::to_owned).unwrap_err();
        assert!(refused.contains("process 77 (agent) cannot be looked at"), "{refused}");
        let (place, folder) = machine(&[("77", CONTAINER)]);
        fs::remove_file(place.path().join("proc/77/mountinfo")).unwrap();
        assert_eq!(Users::look_in(&place.path().join("proc")).unwrap().have_left(&folder), Ok(()));
    }

    #[test]
    fn a_folder_that_somebody_works_in_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut child =
            std::process::Command::new("sleep").arg("1000").current_dir(folder.path()).spawn().unwrap();
        let refused = Users::look().unwrap().have_left(folder.path());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(refused.unwrap_err().contains("works in"));
        assert_eq!(Users::look().unwrap().have_left(folder.path()), Ok(()));
        // Another process's: our own are not asked.
        let open = fs::File::create(folder.path().join("notes")).unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").stdin(open).spawn().unwrap();
        let refused = Users::look().unwrap().have_left(folder.path());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(refused.unwrap_err().contains("notes"));
    }
}
