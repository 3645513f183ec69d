//! The `sandkeeper` program: arguments in, exit code out; everything else is in the library.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use color_eyre::config::{HookBuilder, Theme};
use sandkeeper::cli;

/// One heap for all threads. The system's allocator gives each thread one of its own, and what a thread has freed no other
/// uses: with ten thousand containers that is a third more memory.
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

static PANICKED: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    // First of all: a clock that is set while this program starts is seen by comparing with this moment.
    sandkeeper::clock::start();
    // A panic is our mistake: it is told in one place and never as a bare back trace.
    // It may go to a log, so it is plain.
    let hooks = HookBuilder::blank()
        .theme(Theme::new())
        .panic_section("This is a bug in sandkeeper. `sandkeeper log` shows what was done so far.");
    if let Err(error) = hooks.install() {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    // Whoever reads about it needs his terminal back first.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        sandkeeper::ui::terminal::restore();
        report(panic);
        PANICKED.store(true, Ordering::SeqCst);
    }));
    let code = cli::main(std::env::args_os());
    // One that did not bring the program down is a failure all the same.
    if PANICKED.load(Ordering::SeqCst) { ExitCode::FAILURE } else { code }
}
