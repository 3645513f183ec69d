//! Puts the commit into the version, where there is one to be found. Without git, or outside of a repository, the version
//! stands alone; whoever packages the program may name the commit in `SANDKEEPER_COMMIT`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=SANDKEEPER_COMMIT");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let named = std::env::var("SANDKEEPER_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = named.or_else(|| {
        // The repository that is found may be one around this source, and not its own.
        git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
        for file in ["HEAD", "packed-refs", &git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default()] {
            if let Some(path) = git(&["rev-parse", "--git-path", file])
                && std::path::Path::new(&path).exists()
            {
                println!("cargo::rerun-if-changed={path}");
            }
        }
        git(&["rev-parse", "--short=12", "HEAD"])
    });
    let shown = commit.map_or(version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=SANDKEEPER_VERSION={shown}");
    println!("cargo::rerun-if-changed=build.rs");
}

/// What git says, if there is a git and it has something to say.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
