//! The process's surroundings as values, so that whoever depends on them can be tested without changing the process.

use std::collections::HashMap;
use std::path::PathBuf;

/// The home folder and the environment variables.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The user's home folder.
    pub home: PathBuf,
    /// Environment variables.
    pub variables: HashMap<String, String>,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let home = etcetera::home_dir().unwrap_or_else(|_| PathBuf::from("/"));
        // Variables that are not UTF-8 cannot be part of a pattern that is.
        let variables =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Self { home, variables: variables.collect() }
    }

    /// A variable, with the defaults of the XDG base directory specification.
    pub fn variable(&self, name: &str) -> Option<String> {
        if let Some(value) = self.variables.get(name).filter(|value| !value.is_empty()) {
            return Some(value.clone());
        }
        let below_home = match name {
            "HOME" => "",
            "XDG_DATA_HOME" => ".local/share",
            "XDG_CONFIG_HOME" => ".config",
            "XDG_STATE_HOME" => ".local/state",
            _ => return None,
        };
        Some(self.home.join(below_home).to_string_lossy().into_owned())
    }

    /// A folder of ours below one of the XDG folders.
    pub fn folder(&self, variable: &str) -> PathBuf {
        PathBuf::from(self.variable(variable).unwrap_or_default()).join("sandkeeper")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn xdg_folders_have_their_defaults() {
        let environment = Environment { home: PathBuf::from("/home/ada"), variables: HashMap::new() };
        assert_eq!(environment.folder("XDG_CONFIG_HOME"), Path::new("/home/ada/.config/sandkeeper"));
    }
}
