//! What the program refuses to run with: rights that were lent to it, and folders into which others may write.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use thiserror::Error;

/// Why the surroundings are not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrivilegeFault {
    /// The program is setuid or setgid.
    #[error(
        "sandkeeper does not run with rights lent to its file (setuid or setgid); run `chmod ug-s` on it, and give \
         people who may only look a `sandkeeper gate` instead"
    )]
    Lent,
    /// Others may change what the program does.
    #[error(
        "others may write to {path} (mode {mode:04o}), and with it decide what sandkeeper does; run `chmod go-w {path}`"
    )]
    OpenToOthers {
        /// Which file or folder.
        path: String,
        /// Its mode.
        mode: u32,
    },
}

/// Refuses rights that come from the file of the program and not from whoever started it.
pub fn refuse_lent() -> Result<(), PrivilegeFault> {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    if getuid() == geteuid() && getgid() == getegid() { Ok(()) } else { Err(PrivilegeFault::Lent) }
}

/// Refuses a file or folder into which anybody else may write. One that is not there, or cannot be looked at, is no
/// trouble here.
pub fn refuse_open_to_others(path: &Path) -> Result<(), PrivilegeFault> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    // In a sticky folder, such as /tmp, nobody can replace what is somebody else's.
    let sticky = metadata.is_dir() && metadata.mode() & 0o1000 != 0;
    // Devices are for everybody, and hold no settings: `--config /dev/null`.
    let holds_settings = metadata.is_dir() || metadata.is_file();
    if metadata.mode() & 0o022 != 0 && holds_settings && !sticky {
        let mode = metadata.mode() & 0o7777;
        return Err(PrivilegeFault::OpenToOthers { path: path.display().to_string(), mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_may_write_to_is_refused_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        fs::write(&file, "").unwrap();
        for (mode, open) in [(0o600, false), (0o644, false), (0o664, true), (0o602, true)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(refuse_open_to_others(&file).is_err(), open, "{mode:o}");
        }
        let fault = refuse_open_to_others(&file).unwrap_err().to_string();
        assert!(fault.contains("chmod go-w"), "{fault}");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(refuse_open_to_others(folder.path()).is_err());
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(refuse_open_to_others(folder.path()).is_ok());
        assert!(refuse_open_to_others(&folder.path().join("nothing")).is_ok());
    }

    #[test]
    fn nothing_is_lent_to_the_tests() {
        assert_eq!(refuse_lent(), Ok(()));
    }
}
