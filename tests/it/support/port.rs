//! A port of this machine that leads to a socket.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

/// Opens a port for as long as the test runs; its address, as `--host` takes it.
pub(crate) fn to_socket(socket: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket = socket.to_owned();
    thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            let socket = socket.clone();
            thread::spawn(move || pass_on(caller, &socket));
        }
    });
    format!("tcp://{address}")
}

fn pass_on(caller: TcpStream, socket: &Path) -> io::Result<()> {
    let engine = UnixStream::connect(socket)?;
    let (mut asked, mut asking) = (caller.try_clone()?, engine.try_clone()?);
    thread::spawn(move || io::copy(&mut asked, &mut asking));
    let (mut answering, mut answered) = (engine, caller);
    io::copy(&mut answering, &mut answered)?;
    Ok(())
}
