//! A stage in a process of its own, so that a console on a host of ten thousand containers is measured by itself.
//!
//! The stage ends when its standard input does: when the console goes, however it goes, the stage follows and takes
//! the folder with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Backstage, DemoFault, DemoOptions, PREFIX, Places};

/// Names the folder to a process that is to be the stage. It is no argument, for it is not meant for people.
pub const BACKSTAGE: &str = "SANDKEEPER_DEMO_BACKSTAGE";
/// What the stage says when it is set.
const READY: &str = "ready";

/// A stage that plays elsewhere, until this is dropped.
#[derive(Debug)]
pub(super) struct Apart {
    child: Child,
}

impl Apart {
    /// Starts `program demo` as a stage and waits until it is set.
    pub(super) fn start(program: &Path, folder: &Path, options: &DemoOptions) -> Result<Self, DemoFault> {
        let failed = |why: String| DemoFault::Engine(format!("its process: {why}"));
        let mut command = Command::new(program);
        command.env(BACKSTAGE, folder).arg("demo");
        command.args(["--seed", &options.seed.to_string(), "--speed", &options.speed.to_string()]);
        command.args(options.scale.iter().flat_map(|scale| ["--scale".to_owned(), scale.to_string()]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // The terminal's Ctrl-C is for the console.
        command.process_group(0);
        let mut apart = Self { child: command.spawn().map_err(|error| failed(error.to_string()))? };
        let mut line = String::new();
        if let Some(output) = apart.child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        }
        match line.trim() {
            READY => Ok(apart),
            "" => Err(failed("it ended before it began".to_owned())),
            problem => Err(failed(problem.to_owned())),
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The other side: sets the stage in a folder that somebody made, plays until standard input ends, and takes the
/// folder away.
pub fn play_apart(folder: &Path, options: &DemoOptions) -> Result<(), DemoFault> {
    let mut out = std::io::stdout();
    // This process is the engine, and nobody who passes on to one. Without a name all of it is `unknown`.
    let _ = std::fs::write("/proc/self/comm", crate::engine::sim::PROCESS);
    let backstage = must_be_ours(folder)
        .and_then(|()| Places::make(folder))
        .and_then(|places| Backstage::here(places, options));
    // Whoever asked may have gone already; then there is nobody to tell.
    let _ = match &backstage {
        Ok(_) => writeln!(out, "{READY}"),
        Err(fault) => writeln!(out, "{fault}"),
    };
    let _ = out.flush();
    let backstage = backstage?;
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(backstage);
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}

/// What is not an empty folder with a demo's name was not made for this, and is not taken away.
fn must_be_ours(folder: &Path) -> Result<(), DemoFault> {
    let named = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if named && empty {
        return Ok(());
    }
    Err(DemoFault::Engine(format!("{} was not made for a demo", folder.display())))
}
