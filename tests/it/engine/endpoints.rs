//! Where the engine is looked for: flags, variables and contexts, as Docker's own tools have it; never in the clear
//! where TLS was asked for.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use rstest::rstest;
use serde_json::json;

use crate::support::native::evidence;
use crate::support::program::{Home, Program};
use crate::support::scripted::ScriptedEngine;

/// The address the program used.
#[track_caller]
fn endpoint_of(program: Program<'_>) -> String {
    let report = program.arg("status").arg("--json").run().expect_exit(0).json();
    report["host"]["endpoint"].as_str().unwrap().to_owned()
}

/// Writes a context as `docker context create` does.
fn write_context(home: &Home, id: &str, name: &str, host: &str) {
    let meta = json!({ "Name": name, "Metadata": {}, "Endpoints": { "docker": { "Host": host, "SkipTLSVerify": false } } });
    home.write(format!(".docker/contexts/meta/{id}/meta.json"), meta.to_string());
}

#[test]
fn whoever_is_more_explicit_wins() {
    let home = Home::new();
    let engines = [(); 6].map(|()| ScriptedEngine::start());
    let [flag, variable, docker_host, context, docker_context, file] = &engines;
    write_context(&home, "aa", "current", &context.endpoint());
    write_context(&home, "bb", "other", &docker_context.endpoint());
    let none = home.sandkeeper([""; 0]);
    home.write(".docker/config.json", r#"{"auths":{},"currentContext":"current"}"#);
    assert_eq!(endpoint_of(none), context.endpoint());

    home.write(".config/sandkeeper/config.toml", format!("host = \"{}\"", file.endpoint()));
    assert_eq!(endpoint_of(home.sandkeeper([""; 0])), file.endpoint());
    let named = || home.sandkeeper([""; 0]).env("DOCKER_CONTEXT", "other");
    assert_eq!(endpoint_of(named()), docker_context.endpoint());
    let hosted = || named().env("DOCKER_HOST", docker_host.endpoint());
    assert_eq!(endpoint_of(hosted()), docker_host.endpoint());
    assert_eq!(endpoint_of(hosted().env("SANDKEEPER_CONTEXT", "current")), context.endpoint());
    let ours = || hosted().env("SANDKEEPER_HOST", variable.endpoint());
    assert_eq!(endpoint_of(ours()), variable.endpoint());
    assert_eq!(endpoint_of(ours().arg("--context").arg("other")), docker_context.endpoint());
    assert_eq!(endpoint_of(ours().arg("--host").arg(flag.endpoint())), flag.endpoint());
    let bare_path = flag.socket().to_str().unwrap();
    assert_eq!(endpoint_of(ours().arg("--host").arg(bare_path)), flag.endpoint());
}

#[test]
fn dockers_config_may_be_elsewhere() {
    let home = Home::new();
    let engine = ScriptedEngine::start();
    write_context(&home, "aa", "box", &engine.endpoint());
    fs::rename(home.path().join(".docker"), home.path().join("docker-config")).unwrap();
    let config = home.path().join("docker-config");
    let program = home.sandkeeper(["--context", "box"]).env("DOCKER_CONFIG", config);
    assert_eq!(endpoint_of(program), engine.endpoint());
}

#[rstest]
#[case::ssh("ssh://ada@host-a", "ssh:// is not supported")]
#[case::https("https://host-a:2376", "asks for TLS, which sandkeeper does not speak")]
#[case::the_tls_port("tcp://127.0.0.1:2376", "asks for TLS")]
#[case::a_named_pipe("npipe:////./pipe/docker_engine", "is not an engine address")]
#[case::a_relative_path("unix://docker.sock", "is not an engine address")]
#[case::nothing("", "is not an engine address")]
fn what_cannot_be_reached_is_refused_with_a_way_out(#[case] host: &str, #[case] expected: &str) {
    let home = Home::new();
    let by_flag = home.sandkeeper(["status", "--host", host]).run().expect_exit(2);
    by_flag.expect_stderr(expected).expect_stderr("--host");
    if host.is_empty() {
        return; // An empty variable is one that is not set.
    }
    let by_variable = home.sandkeeper(["status"]).env("DOCKER_HOST", host).run().expect_exit(2);
    by_variable.expect_stderr(expected).expect_stderr("DOCKER_HOST");
    let by_ours = home.sandkeeper(["status"]).env("SANDKEEPER_HOST", host).run().expect_exit(2);
    by_ours.expect_stderr(expected).expect_stderr("SANDKEEPER_HOST");
    write_context(&home, "aa", "remote", host);
    let by_context = home.sandkeeper(["status", "--context", "remote"]).run().expect_exit(2);
    by_context.expect_stderr(expected).expect_stderr("context remote");
}

#[test]
fn where_tls_is_asked_for_nothing_is_sent_in_the_clear() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let host = format!("tcp://{}", listener.local_addr().unwrap());
    for variable in ["DOCKER_TLS_VERIFY", "DOCKER_TLS"] {
        let finished = home.sandkeeper(["status"]).env("DOCKER_HOST", &host).env(variable, "1").run();
        finished.expect_exit(2).expect_stderr("asks for TLS").expect_stderr("ssh -L");
    }
    write_context(&home, "aa", "secure", &host);
    fs::create_dir_all(home.path().join(".docker/contexts/tls/aa/docker")).unwrap();
    let finished = home.sandkeeper(["status", "--context", "secure"]).run();
    finished.expect_exit(2).expect_stderr("asks for TLS");
    assert!(listener.accept().is_err(), "somebody connected");
}

#[test]
fn plain_tcp_is_spoken_where_it_was_asked_for() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = format!("tcp://{}", listener.local_addr().unwrap());
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let length = stream.read(&mut request).unwrap();
        let body = "{\"message\":\"teapot\"}";
        write!(stream, "HTTP/1.1 418 Teapot\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let finished = home.sandkeeper(["status", "--json", "--host", &host]).run().expect_exit(1);
    assert!(serving.join().unwrap().starts_with("GET /_ping "));
    let error = evidence(&finished.json(), "engine")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("the engine answered 418: teapot"), "{error}");
}

#[test]
fn a_context_that_is_not_there_is_named_with_whoever_named_it() {
    let home = Home::new();
    let finished = home.sandkeeper(["status", "--context", "gone"]).run().expect_exit(2);
    finished.expect_stderr("`gone` (--context)").expect_stderr("docker context ls");
    write_context(&home, "aa", "box", "unix:///x.sock");
    let finished = home.sandkeeper(["status"]).env("DOCKER_CONTEXT", "gone").run().expect_exit(2);
    finished.expect_stderr("`gone` (DOCKER_CONTEXT)").expect_stderr("there is no such context");
    home.write(".docker/config.json", r#"{"currentContext":"gone"}"#);
    let finished = home.sandkeeper(["status"]).run().expect_exit(2);
    finished.expect_stderr("`gone` (the current context)");
    // Whoever names an engine needs no context.
    let engine = ScriptedEngine::start();
    assert_eq!(endpoint_of(home.sandkeeper(["--host", &engine.endpoint()])), engine.endpoint());
}
