//! A real sshd on loopback, with keys, port and users of its own: what it believes to be `/etc/passwd` is a file of the
//! test's, in a mount namespace of its own.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use super::{seconds, wait_until};

/// The number of the user and group that may only look.
pub(crate) const VIEWER: u32 = 64_997;

/// The server. Everything it started ends when this is dropped.
pub(crate) struct Sshd {
    folder: TempDir,
    port: u16,
    child: Child,
}

impl Sshd {
    /// Starts a server that lets `viewer` in with one key, which has these options before it in `authorized_keys`.
    #[track_caller]
    pub(crate) fn start(options: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("sandkeeper-sshd.").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(at("home")).unwrap();
        chown(at("home"), Some(VIEWER), Some(VIEWER)).unwrap();
        for key in ["host", "viewer"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(key))
                .status();
            assert!(made.unwrap().success(), "ssh-keygen makes a key");
        }
        let public = fs::read_to_string(at("viewer.pub")).unwrap();
        fs::write(at("authorized_keys"), format!("{options} {public}")).unwrap();

        let account = |file: &str, line: &str| {
            let others = fs::read_to_string(Path::new("/etc").join(file)).unwrap_or_default();
            fs::write(at(file), format!("{}\n{line}\n", others.trim_end())).unwrap();
        };
        let home = at("home").display().to_string();
        let needs_sshd =
            !fs::read_to_string("/etc/passwd").unwrap().lines().any(|line| line.starts_with("sshd:"));
        let sshd = if needs_sshd { "\nsshd:x:64996:65534::/run/sshd:/usr/sbin/nologin" } else { "" };
        account("passwd", &format!("viewer:x:{VIEWER}:{VIEWER}::{home}:/bin/sh{sshd}"));
        account("group", &format!("viewer:x:{VIEWER}:"));
        account("shadow", "viewer:*:19000:0:99999:7:::");

        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             LogLevel VERBOSE\nSubsystem sftp internal-sftp\nAllowUsers viewer\nAcceptEnv *\n{}",
            at("host").display(),
            at("authorized_keys").display(),
            servers_half(options, &at("authorized_keys")),
        );
        fs::write(at("sshd_config"), config).unwrap();
        let script = "for file in passwd group shadow; do mount --bind \"$1/$file\" \"/etc/$file\" || exit 9; done; \
                      mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -f \"$1/sshd_config\"";
        let log = fs::File::create(at("log")).unwrap();
        let child = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["--", "sh", "-c", script, "sh"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let sshd = Self { folder, port, child };
        wait_until("sshd listens", || sshd.log().contains("Server listening"));
        sshd
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.at("log")).unwrap_or_default()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `ssh OPTIONS viewer@127.0.0.1 WORDS`.
    pub(crate) fn client(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-F", "none", "-p", &self.port.to_string(), "-i"]).arg(self.at("viewer"));
        let settings = [
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "IdentitiesOnly=yes",
            "BatchMode=yes",
            "LogLevel=ERROR",
        ];
        for setting in settings {
            command.args(["-o", setting]);
        }
        command.args(options).arg("viewer@127.0.0.1").args(words);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TERM", "xterm-256color")
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, options: &[&str], words: &[&str]) -> Output {
        self.client(options, words).output().unwrap()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes of the viewer that run this program.
pub(crate) fn processes_of(program: &Path) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let viewers = numbers.filter(|number| {
        let file = |name: &str| fs::read(format!("/proc/{number}/{name}")).unwrap_or_default();
        let status = String::from_utf8_lossy(&file("status")).into_owned();
        let ours = status.lines().any(|line| {
            line.starts_with("Uid:") && line.split_whitespace().nth(1) == Some(VIEWER.to_string().as_str())
        });
        ours && String::from_utf8_lossy(&file("cmdline")).contains(program.to_str().unwrap())
    });
    viewers.collect()
}

/// The server's half of the recipe as it is handed out, with the paths of this test in place of its own.
fn servers_half(options: &str, keys: &Path) -> String {
    let handed_out = include_str!("../../../assets/ssh/sshd-viewer.conf");
    let command = options.split("command=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let lines = handed_out.lines().map(|line| {
        let indent = &line[..line.len() - line.trim_start().len()];
        match line.split_whitespace().next() {
            Some("AuthorizedKeysFile") => format!("{indent}AuthorizedKeysFile {}\n", keys.display()),
            Some("ForceCommand") => format!("{indent}ForceCommand {command}\n"),
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}
