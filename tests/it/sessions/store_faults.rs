//! A session database that cannot be read makes its containers `unknown`, names itself and the cause, and stays as it was.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;
use rusqlite::Connection;

use crate::support::native::{Host, container, evidence, native_row, reasons};
use crate::support::program::{Finished, Home};
use crate::support::stores::{NativeStore, ParachuteStore, fingerprint};
use crate::support::{HASTE, HASTE_AND_MARGIN};

/// One sandbox, and a place for its database.
fn host() -> (Host, PathBuf) {
    let host = Host::with(&[native_row("sandbox", "alpha")]);
    let path = host.home.native_store();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    (host, path)
}

/// A database as the contract has it, with one idle session in the sandbox's workspace.
fn store_at(path: &Path) -> NativeStore {
    let store = NativeStore::create(path);
    store.session("s1", "alpha").insert();
    store
}

/// The bytes of the database at a path whose owner has closed it.
fn closed_store(home: &Home) -> Vec<u8> {
    let path = home.path().join("closed.db");
    let store = store_at(&path);
    store.execute("PRAGMA journal_mode = DELETE");
    drop(store);
    fs::read(path).unwrap()
}

/// Everything in a folder but what SQLite's readers share: names, kinds, modes, owners, sizes, times, sums.
fn traces(folder: &Path) -> String {
    let script = "find . -not -name '*-shm' -printf '%P %y %m %U %s %T@\\n' | sort; \
                  find . -type f -not -name '*-shm' -exec cksum {} + | sort";
    let output = Command::new("sh").arg("-c").arg(script).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The sandbox is unknown because the database at `path` has this fault, and that is all that happened.
#[track_caller]
fn expect_unknown(host: &Host, finished: Finished, path: &Path, cause: &str) {
    let finished = finished.expect_exit(4);
    let report = finished.json();
    let sandbox = container(&report, "sandbox");
    assert_eq!(sandbox["status"], "unknown", "{report:#}");
    let why = reasons(sandbox);
    assert!(why.contains(cause), "the reason lacks {cause:?}: {why}");
    assert!(why.contains(&path.display().to_string()), "the reason lacks {}: {why}", path.display());
    assert_eq!(evidence(&report, "engine")["ok"], true, "{report:#}");
    assert_eq!(report["host"]["reachable"], true);
    assert_eq!(finished.stderr, "");
    host.expect_only_looks();
}

/// The same, and the source itself is reported as unavailable with the same words.
#[track_caller]
fn expect_unreadable(host: &Host, finished: Finished, path: &Path, cause: &str) {
    let report = finished.json();
    expect_unknown(host, finished, path, cause);
    let source = evidence(&report, "sessions");
    assert_eq!(source["ok"], false, "{source}");
    assert_eq!(source["path"], path.display().to_string());
    let error = source["error"].as_str().unwrap();
    assert!(error.contains(cause) && error.contains("; "), "a cause and a hint: {error}");
}

#[test]
fn a_good_database_gives_a_verdict_and_stays_as_it_was() {
    let (host, path) = host();
    let _store = store_at(&path);
    let before = (fingerprint(&path), traces(path.parent().unwrap()));
    let finished = host.status([""; 0]).expect_exit(0);
    assert_eq!(container(&finished.json(), "sandbox")["status"], "idle", "{finished}");
    assert_eq!((fingerprint(&path), traces(path.parent().unwrap())), before);
}

#[test]
fn a_database_that_was_named_and_is_missing() {
    let (host, _) = host();
    let path = host.home.path().join("no/such.db");
    let finished = host.status(["--db".to_owned(), format!("native={}", path.display())]);
    expect_unreadable(&host, finished, &path, "no such file");
    let finished = host.status(["--db", path.to_str().unwrap()]);
    expect_unreadable(&host, finished, &path, "no such file");
    assert!(!path.parent().unwrap().exists());
}

#[test]
fn the_usual_place_holds_no_database_while_labelled_containers_exist() {
    let (host, path) = host();
    expect_unreadable(&host, host.status([""; 0]), &path, "no session database was found");
}

#[rstest]
#[case::zero_bytes(b"".as_slice(), "the file is empty")]
#[case::garbage(&[0xa5; 8192], "not a readable SQLite database")]
#[case::text(b"id,workspace\ns1,alpha\n", "not a readable SQLite database")]
#[case::a_truncated_header(b"SQLite format 3\0\x10\0\x01", "not a readable SQLite database")]
fn a_file_that_is_no_database(#[case] content: &[u8], #[case] cause: &str) {
    let (host, path) = host();
    fs::write(&path, content).unwrap();
    let before = traces(path.parent().unwrap());
    expect_unreadable(&host, host.status([""; 0]), &path, cause);
    assert_eq!(traces(path.parent().unwrap()), before);
}

#[rstest]
#[case::the_second_half(|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2))]
#[case::all_but_the_header(|bytes: &mut Vec<u8>| bytes.truncate(100))]
#[case::the_page_of_the_table(|bytes: &mut Vec<u8>| bytes[4096..8192].fill(0x5a))]
fn a_database_that_has_lost_pages(#[case] damage: fn(&mut Vec<u8>)) {
    let (host, path) = host();
    let mut bytes = closed_store(&host.home);
    damage(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let before = traces(path.parent().unwrap());
    expect_unreadable(&host, host.status([""; 0]), &path, "not a readable SQLite database");
    assert_eq!(traces(path.parent().unwrap()), before);
}

#[test]
fn a_database_that_another_process_holds_exclusively() {
    let (host, path) = host();
    let store = store_at(&path);
    store.execute("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; UPDATE sessions SET title = 'half'");
    let before = fingerprint(&path);
    let finished = host.status(["--timeout", HASTE]);
    assert!(finished.elapsed < HASTE_AND_MARGIN, "{finished}");
    expect_unreadable(&host, finished, &path, "locked by another program");
    assert_eq!(fingerprint(&path), before);
    store.execute("COMMIT");
    host.status([""; 0]).expect_exit(0);
}

#[test]
fn several_locked_databases_do_not_take_longer_than_one_and_are_all_named() {
    let (host, _) = host();
    let stores: Vec<_> = (0..20).map(|n| store_at(&host.home.path().join(format!("{n}.db")))).collect();
    let mut arguments = vec!["--timeout".to_owned(), HASTE.to_owned()];
    for store in &stores {
        store.execute("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE");
        arguments.extend(["--db".to_owned(), format!("native={}", store.path().display())]);
    }
    let finished = host.status(&arguments);
    // One after the other would be twenty times the time-out.
    assert!(finished.elapsed < HASTE_AND_MARGIN, "{finished}");
    let report = finished.expect_exit(4).json();
    for store in &stores {
        let path = store.path().display().to_string();
        let of_this = report["evidence"].as_array().unwrap().iter().find(|each| each["path"] == path);
        let of_this = of_this.unwrap_or_else(|| panic!("{path} is not named in {report:#}"));
        assert!(of_this["error"].as_str().unwrap().contains("locked by another program"), "{of_this}");
    }
}

#[test]
fn a_folder_a_pipe_a_device_and_a_dangling_link() {
    let (host, path) = host();
    let folder = path.parent().unwrap();
    let check = |cause: &str| {
        let before = traces(folder);
        let finished = host.status(["--timeout", HASTE]);
        assert!(finished.elapsed < HASTE_AND_MARGIN, "{finished}");
        expect_unreadable(&host, finished, &path, cause);
        assert_eq!(traces(folder), before);
    };
    fs::create_dir(&path).unwrap();
    check("it is a folder, not a database file");
    fs::remove_dir(&path).unwrap();

    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    check("it is a pipe, not a database file");
    fs::remove_file(&path).unwrap();

    symlink("/dev/zero", &path).unwrap();
    check("it is a device, not a database file");
    fs::remove_file(&path).unwrap();

    symlink("gone.db", &path).unwrap();
    check("no such file");
    fs::remove_file(&path).unwrap();

    symlink(&path, &path).unwrap();
    check("");
}

#[test]
fn a_link_to_a_good_database_is_followed() {
    let (host, path) = host();
    let store = store_at(&host.home.path().join("elsewhere.db"));
    symlink(store.path(), &path).unwrap();
    host.status([""; 0]).expect_exit(0);
}

/// Whether tests can run the program as another user; says so when they cannot.
fn can_change_user() -> bool {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !root {
        eprintln!("skipped: only root can run the program as another user");
    }
    root
}

const NOBODY: u32 = 65534;

#[test]
fn a_database_this_user_may_not_read() {
    if !can_change_user() {
        return;
    }
    let (host, _) = host();
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = place.path().join("sessions.db");
    let _store = store_at(&path);
    open_socket(&host);
    for (what, mode, folder_mode) in [("the file", 0o000, 0o755), ("its folder", 0o644, 0o700)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(folder_mode)).unwrap();
        let before = fingerprint(&path);
        let named = format!("native={}", path.display());
        let finished = host.sandkeeper(["status", "--json", "--db", &named]).user(NOBODY, NOBODY).run();
        assert!(finished.stdout.contains("permission denied"), "{what}: {finished}");
        expect_unreadable(&host, finished, &path, "permission denied");
        assert_eq!(fingerprint(&path), before);
    }
}

#[test]
fn a_wal_database_at_rest_that_only_its_owner_may_open() {
    if !can_change_user() {
        return;
    }
    let (host, _) = host();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("sessions.db");
    drop(store_at(&path));
    open_socket(&host);
    let named = format!("native={}", path.display());
    // In a folder others may write in, the files SQLite makes there would be theirs.
    for folder_mode in [0o755, 0o777] {
        fs::set_permissions(place.path(), fs::Permissions::from_mode(folder_mode)).unwrap();
        let before = traces(place.path());
        let finished = host.sandkeeper(["status", "--json", "--db", &named]).user(NOBODY, NOBODY).run();
        expect_unreadable(&host, finished, &path, "WAL mode");
        assert_eq!(traces(place.path()), before);
    }
}

#[test]
fn a_wal_database_at_rest_stays_its_owners_when_root_looks() {
    if !can_change_user() {
        return;
    }
    let (host, path) = host();
    drop(store_at(&path));
    let bytes = fs::read(&path).unwrap();
    chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    chown(path.parent().unwrap(), Some(NOBODY), Some(NOBODY)).unwrap();
    host.status([""; 0]).expect_exit(0);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let left = traces(path.parent().unwrap());
    for line in left.lines().filter(|line| line.contains("sessions.db-wal f")) {
        assert!(line.contains(" 65534 0 "), "an empty log that is its owner's: {left}");
    }
    let wal = path.with_file_name("sessions.db-shm");
    assert!(!wal.exists() || std::os::unix::fs::MetadataExt::uid(&wal.metadata().unwrap()) == NOBODY);
}

#[test]
fn a_database_without_a_log_is_read_by_anybody_and_nothing_is_made_beside_it() {
    if !can_change_user() {
        return;
    }
    let (host, _) = host();
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = place.path().join("sessions.db");
    fs::write(&path, closed_store(&host.home)).unwrap();
    open_socket(&host);
    let before = traces(place.path());
    let named = format!("native={}", path.display());
    let finished = host.sandkeeper(["status", "--json", "--db", &named]).user(NOBODY, NOBODY).run();
    assert_eq!(container(&finished.json(), "sandbox")["status"], "idle", "{finished}");
    assert_eq!(traces(place.path()), before);
}

#[test]
fn a_wal_database_with_a_second_name_is_in_doubt_for_its_log_may_lie_beside_the_other() {
    let (host, path) = host();
    let other = host.home.path().join("elsewhere/other.db");
    let store = store_at(&other);
    fs::hard_link(&other, &path).unwrap();
    expect_unreadable(&host, host.status([""; 0]), &path, "more than one name");
    // Without a log one name is as good as the other.
    store.execute("PRAGMA journal_mode = DELETE");
    host.status([""; 0]).expect_exit(0);
}

/// Runs `status --json --db native=PATH` after a shell command, with mounts of its own.
fn status_among_mounts(host: &Host, path: &Path, mounts: &str) -> Finished {
    let named = format!("native={}", path.display());
    let program = host.sandkeeper(["status", "--json", "--db", &named]);
    program.below(&["unshare", "--mount", "sh", "-ec", &format!("{mounts}; exec \"$@\""), "sh"]).run()
}

#[test]
fn a_wal_database_that_is_mounted_alone_is_in_doubt() {
    if !can_change_user() {
        return;
    }
    let (host, path) = host();
    let store = store_at(&host.home.path().join("elsewhere/sessions.db"));
    fs::write(&path, "").unwrap();
    let mounts = format!("mount --bind {} {}", store.path().display(), path.display());
    expect_unreadable(&host, status_among_mounts(&host, &path, &mounts), &path, "as a single file");
}

#[test]
fn a_database_is_in_doubt_where_the_open_files_cannot_be_told() {
    if !can_change_user() {
        return;
    }
    let (host, path) = host();
    let _store = store_at(&path);
    let finished = status_among_mounts(&host, &path, "mount -t tmpfs none /proc");
    expect_unreadable(&host, finished, &path, "what is open cannot be told");
}

/// Lets every user speak to the scripted engine.
fn open_socket(host: &Host) {
    let socket = host.engine.socket();
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(socket.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_crashed_writer_has_left_a_hot_journal() {
    let (host, path) = host();
    let source = host.home.path().join("writer.db");
    let store = store_at(&source);
    store.execute(
        "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 2; BEGIN; \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
         INSERT INTO sessions SELECT 'new' || i, 'alpha', NULL, hex(randomblob(200)), 'idle', 1, 1, NULL FROM n; \
         UPDATE sessions SET workspace = 'elsewhere'",
    );
    // What the disk shows while the writer is in mid-transaction is what a crash would leave.
    for (from, to) in [("writer.db", "sessions.db"), ("writer.db-journal", "sessions.db-journal")] {
        let copied =
            Command::new("cp").arg(source.with_file_name(from)).arg(path.with_file_name(to)).status();
        assert!(copied.unwrap().success());
    }
    let before = traces(path.parent().unwrap());
    expect_unreadable(&host, host.status([""; 0]), &path, "left a journal");
    assert_eq!(traces(path.parent().unwrap()), before);
}

#[rstest]
#[case::a_missing_column("ALTER TABLE sessions DROP COLUMN ended_at", "misses column sessions.ended_at")]
#[case::a_renamed_column("ALTER TABLE sessions RENAME status TO state", "misses column sessions.status")]
#[case::a_renamed_table("ALTER TABLE sessions RENAME TO sessions_v2", "misses table sessions")]
#[case::no_tables_at_all("DROP TABLE sessions", "misses table sessions")]
fn tables_that_are_not_of_a_known_form(#[case] drift: &str, #[case] cause: &str) {
    let (host, path) = host();
    let store = store_at(&path);
    store.execute(drift);
    let before = fingerprint(&path);
    expect_unreadable(&host, host.status([""; 0]), &path, cause);
    assert_eq!(fingerprint(&path), before);
}

#[rstest]
#[case::null_id(
    "INSERT INTO sessions VALUES (NULL, 'other', NULL, NULL, 'idle', 1771754400, NULL, NULL)",
    "no id"
)]
#[case::empty_id("UPDATE sessions SET id = ''", "no id")]
#[case::blob_id("UPDATE sessions SET id = x'00ff'", "id is a Blob")]
#[case::blob_workspace("UPDATE sessions SET workspace = x'00ff'", "workspace is a Blob")]
#[case::workspace_that_is_not_utf8(
    "UPDATE sessions SET workspace = CAST(x'ff' AS TEXT)",
    "workspace is not UTF-8"
)]
#[case::endless_workspace(
    "UPDATE sessions SET workspace = hex(zeroblob(5000))",
    "workspace is 10000 bytes long"
)]
fn a_row_that_could_claim_anything(#[case] damage: &str, #[case] cause: &str) {
    let (host, path) = host();
    let store = store_at(&path);
    store.execute(damage);
    expect_unreadable(&host, host.status([""; 0]), &path, cause);
}

#[rstest]
#[case::milliseconds(
    "UPDATE sessions SET last_activity_at = last_activity_at * 1000",
    "not a plausible time in seconds"
)]
#[case::text("UPDATE sessions SET last_activity_at = 'yesterday'", "`yesterday` is not a plausible time")]
#[case::iso(
    "UPDATE sessions SET last_activity_at = '2026-02-22T10:00:00Z'",
    "`2026-02-22T10:00:00Z` is not a plausible time"
)]
#[case::started_in_milliseconds(
    "UPDATE sessions SET last_activity_at = NULL, started_at = started_at * 1000",
    "not a plausible time in seconds"
)]
#[case::ended_in_milliseconds(
    "UPDATE sessions SET status = 'ended', started_at = started_at * 1000, last_activity_at = NULL, \
     ended_at = started_at * 1000",
    "not a plausible time in seconds"
)]
#[case::an_unknown_status(
    "UPDATE sessions SET status = 'hibernating'",
    "the store does not say whether it is live"
)]
fn a_session_whose_life_or_silence_cannot_be_read(#[case] damage: &str, #[case] cause: &str) {
    // Two days old: by the container's own age alone it would be stale.
    let sandbox = native_row("sandbox", "alpha").created(crate::support::rows::ago(2 * 86_400));
    let host = Host::with(&[sandbox]);
    let store = store_at(&host.home.native_store());
    store.execute(damage);
    let before = fingerprint(store.path());
    expect_unknown(&host, host.status([""; 0]), store.path(), cause);
    assert_eq!(fingerprint(store.path()), before);
}

#[test]
fn a_session_that_says_it_is_live_counts_whatever_its_times_say() {
    let (host, path) = host();
    let store = store_at(&path);
    store.execute("UPDATE sessions SET status = 'active', last_activity_at = 'yesterday', started_at = 'x'");
    let finished = host.status([""; 0]).expect_exit(0);
    assert_eq!(container(&finished.json(), "sandbox")["status"], "active", "{finished}");
}

#[test]
#[ignore = "takes long: run tests/run"]
fn two_hundred_thousand_sessions_are_read_in_time_or_reported() {
    let (host, path) = host();
    host.home.write(".config/sandkeeper/config.toml", "max_evidence_age = \"1h\"\n");
    let store = store_at(&path);
    store.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) \
         INSERT INTO sessions SELECT 'many' || i, 'alpha', NULL, NULL, 'idle', 1771754400, NULL, NULL FROM n",
    );
    let finished = host.status([""; 0]);
    let sandbox = container(&finished.json(), "sandbox").clone();
    match finished.status {
        Some(0) => assert_eq!(sandbox["session_count"], 200_001),
        _ => expect_unreadable(&host, finished, &path, "did not answer in time"),
    }

    let finished = host.status(["--timeout", "50ms"]);
    assert!(finished.elapsed < HASTE_AND_MARGIN, "{finished}");
    // On a busy machine not even the engine answers by then.
    let report = finished.json();
    let mut listed = report["containers"].as_array().into_iter().flatten();
    assert!(listed.all(|container| container["status"] == "unknown"), "{finished}");
    assert_ne!(finished.status, Some(0), "{finished}");
}

#[test]
fn a_database_named_without_its_system_goes_to_the_one_whose_tables_it_has() {
    let native = native_row("sandbox", "alpha");
    let parachute =
        crate::support::rows::row("parachute-ws-atlas").label("app", "parachute").label("workspace", "atlas");
    let host = Host::with(&[native, parachute]);
    let _native = store_at(&host.home.native_store());
    let store = ParachuteStore::create(host.home.path().join("vault/sessions.db"));
    store.session("p1").workspace("atlas").accessed_ago(30).insert();
    let finished = host.status(["--db", store.path().to_str().unwrap()]).expect_exit(0);
    let report = finished.json();
    assert_eq!(container(&report, "parachute-ws-atlas")["status"], "active", "{report:#}");
    assert_eq!(container(&report, "sandbox")["status"], "idle", "{report:#}");
    let sources: Vec<_> = report["evidence"].as_array().unwrap().iter().map(|each| &each["system"]).collect();
    assert_eq!(sources, [&serde_json::Value::Null, &"native".into(), &"parachute".into()], "{report:#}");
}

#[test]
fn a_database_that_fits_no_system_is_everybodys_doubt() {
    let (host, path) = host();
    let _native = store_at(&path);
    let stranger = host.home.path().join("stranger.db");
    Connection::open(&stranger).unwrap().execute_batch("CREATE TABLE photos(id)").unwrap();
    let finished = host.status(["--db", stranger.to_str().unwrap()]);
    expect_unreadable(&host, finished, &stranger, "misses table sessions");
}
