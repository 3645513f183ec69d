//! What runs in a container: what makes it active, what makes nobody sure, and what says nothing.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use regex_lite::Regex;
use rstest::rstest;
use sandkeeper::domain::container::{Namespace, Process, Processes};
use sandkeeper::domain::evidence::Evidence;
use sandkeeper::domain::{Profile, Status};

use crate::facts::profiles::native;
use crate::facts::{FIRST, Facts, Sandbox, id_of, process, sandbox};

/// A host with one orphan that runs this, and these beside it.
fn runs(first: &str, beside: &[Process]) -> Facts {
    host(native(), of(first, beside))
}

fn of(first: &str, beside: &[Process]) -> Sandbox {
    beside.iter().cloned().fold(sandbox("box").runs(first), Sandbox::beside)
}

fn host(profile: Profile, sandbox: Sandbox) -> Facts {
    Facts::new().system(profile).container(sandbox)
}

fn with_at_rest(patterns: &[&str]) -> Profile {
    let at_rest = patterns.iter().map(|pattern| Regex::new(&format!("^(?:{pattern})$")).unwrap());
    Profile { at_rest: at_rest.collect(), ..native() }
}

/// A process that a command has put into the background: its parent is the first, its session's leader has ended.
fn left(began: u64, command: &str) -> Process {
    process(205, FIRST, 204, began, command)
}

#[rstest]
#[case("sleep infinity")]
#[case("tail -f /dev/null")]
#[case("cat")]
#[case("/pause")]
#[case("python3 -m server")]
#[case("sh -c while true; do sleep 60; done")]
#[case("/sbin/init")]
fn what_runs_alone_says_nothing(#[case] first: &str) {
    runs(first, &[]).finds("box", Status::Orphaned);
}

#[rstest]
#[case("sleep infinity")]
#[case("tail -f /dev/null")]
#[case("cat")]
#[case("sh -c while true; do sleep 60; done")]
fn what_runs_beside_one_that_waits_is_somebodys_work(#[case] first: &str) {
    for began in [1, 3600] {
        let facts = runs(first, &[left(began, "/usr/bin/make -j8 --token abc")]);
        facts.finds("box", Status::Active).because("make runs in it in the background");
    }
    // Not even another one that waits is the container's own: somebody may be waiting by it.
    runs(first, &[left(1, "sleep 1000")]).finds("box", Status::Active).because("sleep runs in it");
    let several = [left(1, "make"), process(206, 205, 204, 2, "cc"), process(207, 205, 204, 2, "cc")];
    runs(first, &several).finds("box", Status::Active).because("make and 2 more run in it");
}

#[rstest]
#[case("tini -- sleep infinity", "sleep infinity")]
#[case("/sbin/docker-init -- tail -f /dev/null", "tail -f /dev/null")]
#[case("/dev/init -- python3 -m server", "python3 -m server")]
#[case("dumb-init -- entrypoint.sh", "node server.js")]
fn an_init_and_its_program_are_the_containers_own(#[case] init: &str, #[case] program: &str) {
    let program = process(101, FIRST, FIRST, 0, program);
    runs(init, std::slice::from_ref(&program)).finds("box", Status::Orphaned);
    // What the init was left with came later.
    let status = runs(init, &[left(0, "make"), program]).verdict("box").status;
    assert!(matches!(status, Status::Active | Status::Unknown), "{status}");
}

#[test]
fn an_init_whose_program_waits_has_nothing_else_to_do() {
    let program = process(101, FIRST, FIRST, 0, "sleep infinity");
    let facts = runs("tini -- sleep infinity", &[program, left(5, "make")]);
    facts.finds("box", Status::Active).because("make runs in it in the background");
}

#[test]
fn a_command_that_the_engine_has_forgotten_keeps_its_container() {
    for first in ["sleep infinity", "python3 -m server"] {
        let command = process(300, 0, 300, 4, "sh -c make");
        let child = process(301, 300, 300, 4, "make");
        let facts = runs(first, &[command.clone(), child.clone()]);
        facts.finds("box", Status::Active).because("sh runs in it in the background");
        // One that the engine still knows is told once.
        let known = host(native(), of(first, &[command.clone(), child]).execs(1));
        let evidence = known.finds("box", Status::Active).0.evidence;
        assert_eq!(evidence, [Evidence::RunningExec(1)]);
        let both = host(native(), of(first, &[command, process(400, 0, 400, 9, "vi")]).execs(1));
        assert_eq!(both.verdict("box").evidence.len(), 2);
    }
}

#[test]
fn what_a_command_has_left_beside_a_server_makes_nobody_sure() {
    for began in [1, 3600] {
        let facts = runs("python3 -m server", &[left(began, "make")]);
        facts.finds("box", Status::Unknown).because("make runs in it, as what a command leaves behind does");
    }
    // Those of the server are not taken for it: they are in its session, or lead one of their own below one that is.
    let own = [process(101, FIRST, FIRST, 2, "manager"), process(102, 101, 102, 2, "worker")];
    runs("python3 -m server", &own).finds("box", Status::Orphaned);
}

#[test]
fn what_began_long_after_a_server_makes_nobody_sure_unless_it_is_named() {
    let at = |began| runs("python3 -m server", &[process(150, FIRST, FIRST, began, "worker --id 7")]);
    at(60).finds("box", Status::Orphaned);
    let facts = at(61);
    facts.finds("box", Status::Unknown).because("worker runs in it and began more than a minute after");
    let named = with_at_rest(&["worker( .*)?"]);
    host(named, of("python3 -m server", &[process(150, FIRST, FIRST, 61, "worker --id 7")]))
        .finds("box", Status::Orphaned);
    let unclear = Process { began: None, ..process(150, FIRST, FIRST, 0, "worker") };
    runs("python3 -m server", &[unclear]).finds("box", Status::Unknown);
}

#[test]
fn a_script_that_sleeps_again_and_again_has_that_sleep_for_its_own() {
    for script in ["sh -c while true; do sleep 5; done", "bash -c while true; do poll; sleep 5; done"] {
        runs(script, &[process(900, FIRST, FIRST, 4000, "sleep 5")]).finds("box", Status::Orphaned);
        runs(script, &[process(900, FIRST, FIRST, 4000, script)]).finds("box", Status::Orphaned);
        let status = runs(script, &[left(4000, "sleep 5")]).verdict("box").status;
        assert!(matches!(status, Status::Active | Status::Unknown), "{script}: {status}");
    }
}

#[test]
fn what_a_profile_names_is_at_rest() {
    let profile = || with_at_rest(&["agentd", "sshd.*"]);
    host(profile(), of("agentd", &[left(500, "sshd: listener")])).finds("box", Status::Orphaned);
    host(profile(), of("agentd", &[left(1, "make")])).finds("box", Status::Active);
    host(profile(), of("sleep infinity", &[left(500, "sshd: listener")])).finds("box", Status::Orphaned);
    // A command is a command, whatever it is called.
    host(profile(), of("agentd", &[process(300, 0, 300, 9, "sshd -i")])).finds("box", Status::Active);
}

#[test]
fn a_shell_on_a_terminal_makes_nobody_sure_while_it_runs() {
    let typing = || of("bash -l", &[]).terminal();
    host(native(), typing())
        .finds("box", Status::Unknown)
        .because("its first process is bash on a terminal, so somebody may be typing in it");
    host(native(), of("tini -- bash", &[process(101, FIRST, 101, 0, "bash")]).terminal())
        .finds("box", Status::Unknown);
    host(native(), of("bash -l", &[])).finds("box", Status::Orphaned);
    host(native(), of("bash -c serve", &[]).terminal()).finds("box", Status::Orphaned);
    host(native(), typing().state("exited")).finds("box", Status::Orphaned);
    host(with_at_rest(&["bash -l"]), typing()).finds("box", Status::Orphaned);
}

#[test]
fn processes_that_cannot_be_listed_make_nobody_sure() {
    let failed = |state: &str| {
        let why = Processes::Failed("ps: command not found".to_owned());
        host(native(), sandbox("box").state(state).processes(why))
    };
    failed("running").finds("box", Status::Unknown).because("cannot be told: ps: command not found");
    failed("paused").finds("box", Status::Unknown);
    for state in ["restarting", "exited"] {
        failed(state).finds("box", Status::Orphaned);
    }
    let not_asked = |state: &str| host(native(), sandbox("box").state(state).processes(Processes::NotAsked));
    not_asked("running").finds("box", Status::Unknown).because("the engine was not asked");
    // Not every engine lists what is paused.
    not_asked("paused").finds("box", Status::Orphaned);
}

#[rstest]
#[case(Namespace::Network, "network")]
#[case(Namespace::Pid, "pid")]
#[case(Namespace::Ipc, "ipc")]
fn a_container_in_whose_namespace_another_runs_is_in_use(#[case] namespace: Namespace, #[case] word: &str) {
    let id = id_of("box");
    for of in [id.as_str(), id.short(), "box"] {
        let facts = |state: &str| {
            let sidecar = crate::facts::bare("sidecar").joins(namespace, of).state(state);
            host(native(), sandbox("box")).container(sidecar)
        };
        for state in ["running", "paused", "restarting"] {
            let because = format!("sidecar runs in its {word} namespace");
            facts(state).finds("box", Status::Active).because(&because);
        }
        facts("exited").finds("box", Status::Orphaned);
    }
    let elsewhere = crate::facts::bare("sidecar").joins(namespace, id_of("other").as_str());
    host(native(), sandbox("box")).container(elsewhere).finds("box", Status::Orphaned);
}

#[test]
fn a_neighbour_that_cannot_be_asked_may_share_a_namespace() {
    let facts = |state: &str| {
        host(native(), sandbox("box")).container(crate::facts::bare("other").joins_unread().state(state))
    };
    facts("running").finds("box", Status::Unknown).because("other runs and could not be inspected");
    facts("exited").finds("box", Status::Orphaned);
}

#[test]
fn tens_of_thousands_of_processes_are_judged_at_once() {
    // Each started the next, some of them say that they are inits, and at the root of half of them is a command.
    let chain = |from: u32, root: u32| {
        let commands = ["tini -- x", "make"].into_iter().cycle();
        let each = (from..from + 20_000).zip(commands);
        each.map(move |(pid, command)| {
            process(pid, if pid == from { root } else { pid - 1 }, from, 9, command)
        })
    };
    let beside: Vec<Process> = chain(1000, FIRST).chain(chain(50_000, 0)).collect();
    runs("tini -- x", &beside).finds("box", Status::Active).because("tini runs in it in the background");
}

fn any_process(pid: u32) -> impl Strategy<Value = Process> {
    let commands = ["sleep 5", "make", "sh -c make", "bash", "tini -- make", "tail -f x", "cat", "named"];
    let parent = option::of(select(vec![FIRST, 101, 102, 103, 104]));
    let leader = option::of(select(vec![FIRST, 101, 102, 103, 104, 999]));
    (parent, leader, option::of(0_u64..200), select(commands.to_vec())).prop_map(
        move |(parent, leader, began, command)| Process {
            pid,
            parent: parent.filter(|parent| *parent < pid),
            leader,
            began: began.map(std::time::Duration::from_secs),
            command: command.to_owned(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is added came last, as it does in life.
    #[test]
    fn one_more_process_never_makes_a_container_look_less_alive(
        first in select(vec!["sleep infinity", "tini -- sleep 5", "serve", "bash", "sh -c while :; do sleep 1; done"]),
        execs in 0_usize..2,
        beside in vec(any::<u8>(), 0..4).prop_flat_map(|some| {
            (101..).zip(some).map(|(pid, _)| any_process(pid)).collect::<Vec<_>>()
        }),
        more in any_process(105),
    ) {
        let unclear = beside.iter().any(|process| process.began.is_none());
        let last = beside.iter().filter_map(|process| process.began).max();
        let more = Process { began: more.began.max(last).filter(|_| !unclear), ..more };
        // An init has had its program from the beginning.
        let program = first.starts_with("tini").then(|| process(90, FIRST, FIRST, 0, "sleep 5"));
        let beside: Vec<Process> = program.into_iter().chain(beside).collect();
        let facts = |beside: &[Process]| host(with_at_rest(&["named"]), of(first, beside).execs(execs));
        let before = facts(&beside).verdict("box");
        let after = facts(&[beside.as_slice(), std::slice::from_ref(&more)].concat()).verdict("box");
        if before.status == Status::Active {
            prop_assert_eq!(after.status, Status::Active, "{:?} and {:?}", before.evidence, after.evidence);
        }
    }
}

#[test]
fn what_a_command_detaches_from_itself_beside_a_server_makes_nobody_sure() {
    for began in [0, 1, 10, 50, 3600] {
        let detached = process(205, FIRST, 205, began, "tmux new -d train");
        runs("python3 -m server", &[detached]).finds("box", Status::Unknown).because("tmux");
    }
    let helper = process(205, 203, 205, 10, "worker");
    runs("python3 -m server", &[process(203, FIRST, FIRST, 1, "manager"), helper])
        .finds("box", Status::Orphaned);
}

#[test]
fn what_runs_under_a_shell_that_somebody_types_in_makes_nobody_sure() {
    let typed = process(205, FIRST, FIRST, 5, "nc -l -p 99");
    runs("sh", std::slice::from_ref(&typed)).finds("box", Status::Unknown).because("nc");
    runs("sh -c serve", &[typed]).finds("box", Status::Orphaned);
}

#[test]
fn what_was_started_with_its_input_attached_may_have_somebody_at_it() {
    let attached = |program: &str| Facts::native().container(sandbox("box").runs(program).attached());
    attached("vi /x").finds("box", Status::Unknown).because("vi was started with its input attached");
    attached("sh").finds("box", Status::Unknown);
    attached("sleep infinity").finds("box", Status::Orphaned);
}
