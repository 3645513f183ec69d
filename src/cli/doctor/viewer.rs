//! `doctor --read-only-user`: whether somebody who is to look over SSH can look, and can do nothing else.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::authorized_keys::{is_key, troubles};
use super::{Check, Health};
use crate::accounts::{self, Group, User};
use crate::database::beside;
use crate::domain::Snapshot;
use crate::sessions::keeps_log;

/// How long a database may be held by somebody else of us.
const PATIENCE: Duration = Duration::from_secs(3);

/// Groups whose members are, or can become, root.
const POWERFUL: [&str; 9] = ["root", "docker", "podman", "sudo", "wheel", "admin", "lxd", "libvirt", "disk"];
/// The engines' own sockets.
const ENGINES: [&str; 3] =
    ["/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"];

/// Everything about this user. `keys` is where the keys are, if not in the usual place.
pub(super) fn checks(name: &str, keys: Option<&Path>, snapshot: &Snapshot) -> Vec<Check> {
    let Some(user) = accounts::user(name) else {
        let sentence =
            format!("there is no user `{name}`; run `useradd --system --create-home --shell /bin/sh {name}`");
        return vec![Check::failed("viewer", &sentence)];
    };
    let groups = accounts::groups_of(&user);
    let viewer = Viewer { user, groups };
    let mut checks = vec![viewer.account(), viewer.membership(), viewer.engines()];
    checks.push(viewer.gate(snapshot));
    checks.extend(
        snapshot
            .stores()
            .filter(|store| store.exists && store.path.starts_with('/'))
            .map(|store| viewer.store(Path::new(&store.path))),
    );
    checks.extend(viewer.keys(keys));
    checks
}

struct Viewer {
    user: User,
    groups: Vec<Group>,
}

impl Viewer {
    fn account(&self) -> Check {
        let User { name, id, shell, .. } = &self.user;
        if *id == 0 {
            return Check::failed("viewer", &format!("`{name}` is root; make a user of its own for looking"));
        }
        let shell_name = shell.rsplit('/').next().unwrap_or_default();
        if matches!(shell_name, "nologin" | "false") {
            return Check::failed(
                "viewer",
                &format!(
                    "the shell of `{name}` is {shell}, which runs no command; run `usermod --shell /bin/sh {name}`"
                ),
            );
        }
        Check::new("viewer", Health::Ok, format!("{name} (uid {id}), shell {shell}"))
    }

    fn membership(&self) -> Check {
        let name = &self.user.name;
        let powerful: Vec<&str> = self
            .groups
            .iter()
            .map(|group| group.name.as_str())
            .filter(|group| POWERFUL.contains(group))
            .collect();
        if let Some(group) = powerful.first() {
            let all = powerful.join(", ");
            return Check::failed(
                "viewer groups",
                &format!(
                    "`{name}` is in {all}, and so can do anything; run `gpasswd --delete {name} {group}`"
                ),
            );
        }
        let all: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        Check::new("viewer groups", Health::Ok, all.join(", "))
    }

    /// Nothing that an engine listens on may be open to the viewer.
    fn engines(&self) -> Check {
        let there = ENGINES.iter().map(Path::new).filter(|socket| socket.exists());
        let mut closed = Vec::new();
        for socket in there {
            let place = socket.display();
            match self.may("-w", socket) {
                Some(false) => closed.push(place.to_string()),
                Some(true) => {
                    return Check::failed(
                        "viewer engine",
                        &format!(
                            "`{}` can open {place} and so do anything; run `chmod o-rw {place}`",
                            self.user.name
                        ),
                    );
                }
                None => return self.untried("viewer engine"),
            }
        }
        let finding =
            if closed.is_empty() { "none here".to_owned() } else { format!("closed: {}", closed.join(", ")) };
        Check::new("viewer engine", Health::Ok, finding)
    }

    /// The socket that `--host` names: a gate, and open to the viewer.
    fn gate(&self, snapshot: &Snapshot) -> Check {
        let host = &snapshot.host;
        let Some(path) = host.endpoint.strip_prefix("unix://").map(Path::new) else {
            return Check::failed(
                "viewer gate",
                &format!("{} is no unix socket; name the gate's with `--host unix://PATH`", host.endpoint),
            );
        };
        let place = path.display();
        if !host.guarded {
            return Check::failed(
                "viewer gate",
                &format!(
                    "{place} is not a gate; run `sandkeeper gate --listen PATH --mode 0660 --group GROUP` and name it with `--host unix://PATH`"
                ),
            );
        }
        match self.may("-w", path) {
            Some(true) => Check::new(
                "viewer gate",
                Health::Ok,
                format!("{place} lets look, and refuses everything else"),
            ),
            Some(false) => Check::failed(
                "viewer gate",
                &format!(
                    "`{}` cannot open {place}; run the gate with `--mode 0660 --group GROUP`, put the user in that group, and let the group pass through the folders above",
                    self.user.name
                ),
            ),
            None => self.untried("viewer gate"),
        }
    }

    /// A database in WAL mode is three files, and two of them are there only while somebody has it open.
    fn store(&self, path: &Path) -> Check {
        let about = "viewer sessions";
        let (name, place) = (&self.user.name, path.display());
        match self.may("-r", path) {
            None => return self.untried(about),
            Some(false) => {
                return Check::failed(
                    about,
                    &format!(
                        "`{name}` cannot read {place}; run `setfacl -m u:{name}:r {place}`, and let the user pass through the folders above"
                    ),
                );
            }
            Some(true) => {}
        }
        match keeps_log(path, PATIENCE) {
            Ok(true) => {}
            Ok(false) => return Check::new(about, Health::Ok, format!("{place} can be read")),
            Err(fault) => return Check::failed(about, &format!("{place}: {fault}; {}", fault.hint())),
        }
        // Its log lies beside the name that links lead to.
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let beside = ["-wal", "-shm"].map(|ending| beside(&real, ending));
        if let Some(closed) = beside.iter().find(|file| file.exists() && self.may("-r", file) != Some(true)) {
            let (closed, folder) = (closed.display(), path.parent().unwrap_or(Path::new("/")).display());
            return Check::failed(
                about,
                &format!(
                    "`{name}` can read {place} but not {closed}, which is made anew each time; run `setfacl -m d:u:{name}:r {folder}` and `setfacl -m u:{name}:r {closed}`"
                ),
            );
        }
        if beside.iter().all(|file| file.exists()) {
            return Check::new(
                about,
                Health::Ok,
                format!("{place} can be read (WAL: while its application runs)"),
            );
        }
        Check::new(
            about,
            Health::Note,
            format!(
                "{place} is in WAL mode and nobody has it open: until its application runs, `{name}` sees its containers as unknown"
            ),
        )
    }

    fn keys(&self, keys: Option<&Path>) -> Vec<Check> {
        let about = "viewer keys";
        let usual = Path::new(&self.user.home).join(".ssh/authorized_keys");
        let file = keys.unwrap_or(&usual);
        let place = file.display();
        #[allow(clippy::disallowed_methods, reason = "a list of keys, and never a database")]
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => {
                return vec![Check::failed(
                    about,
                    &format!(
                        "{place}: {error}; put the line of assets/ssh/authorized_keys there, or name the file with `--authorized-keys`"
                    ),
                )];
            }
        };
        let lines: Vec<(usize, &str)> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| is_key(line))
            .map(|(at, line)| (at + 1, line))
            .collect();
        if lines.is_empty() {
            return vec![Check::failed(
                about,
                &format!("{place} has no key; add one with the options of assets/ssh/authorized_keys"),
            )];
        }
        let wrong: Vec<Check> = lines
            .iter()
            .flat_map(|(number, line)| troubles(line).into_iter().map(move |trouble| (number, trouble)))
            .map(|(number, trouble)| Check::failed(about, &format!("{place}:{number}: {trouble}")))
            .collect();
        if wrong.is_empty() {
            let finding = format!("{place}: {} restricted to looking", lines.len());
            return vec![Check::new(about, Health::Ok, finding)];
        }
        wrong
    }

    fn untried(&self, about: &str) -> Check {
        let name = &self.user.name;
        Check::failed(about, &format!("what `{name}` may do cannot be tried from here; run this as root"))
    }

    /// Whether the user may do this, tried with its own rights; `None` if that cannot be tried.
    fn may(&self, what: &str, path: &Path) -> Option<bool> {
        let mut command = if rustix::process::geteuid().as_raw() == self.user.id {
            Command::new("test")
        } else {
            let groups: Vec<String> = self.groups.iter().map(|group| group.id.to_string()).collect();
            let mut command = Command::new("setpriv");
            command.arg(format!("--reuid={}", self.user.id)).arg(format!("--regid={}", self.user.group));
            if groups.is_empty() {
                command.arg("--clear-groups");
            } else {
                command.arg(format!("--groups={}", groups.join(",")));
            }
            command.args(["--", "test"]);
            command
        };
        let tried = command.arg(what).arg(path).stdin(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        match tried.code() {
            Some(0) => Some(true),
            // `setpriv` ends with 1 too when it may not become the user.
            Some(1) if rustix::process::geteuid().is_root() || self.is_us() => Some(false),
            _ => None,
        }
    }

    fn is_us(&self) -> bool {
        rustix::process::geteuid().as_raw() == self.user.id
    }
}
