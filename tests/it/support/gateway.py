"""A gateway: the owner of a session database, which does what it is told on standard input, one command per line.

Every answer is one line of JSON. Python brings a SQLite of its own, older than the program's.
"""
import json
import os
import shutil
import sqlite3
import sys
import time

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sessions(id TEXT PRIMARY KEY, workspace TEXT NOT NULL, container TEXT, title TEXT, "
    "status TEXT NOT NULL, started_at REAL NOT NULL, last_activity_at REAL, ended_at REAL)"
)

path = sys.argv[1]
connection = None


def open_it(mode="wal"):
    global connection
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    set_mode(mode)
    connection.execute(SCHEMA)


def set_mode(mode):
    # A reader may hold the database for a moment.
    for _ in range(6000):
        try:
            if connection.execute("PRAGMA journal_mode = " + mode).fetchone()[0] == mode:
                return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
        time.sleep(0.01)
    raise RuntimeError("its journal mode cannot be set to " + mode)


def close():
    """Says how many bytes the log has that the close left behind."""
    global connection
    connection.close()
    connection = None
    try:
        return os.stat(path + "-wal").st_size
    except FileNotFoundError:
        return 0


def begin(session, workspace):
    now = time.time()
    connection.execute(
        "INSERT OR REPLACE INTO sessions VALUES (?, ?, NULL, NULL, 'active', ?, ?, NULL)", (session, workspace, now, now)
    )


def end(session):
    now = time.time()
    connection.execute("UPDATE sessions SET status = 'ended', ended_at = ? WHERE id = ?", (now, session))


def live():
    return [row[0] for row in connection.execute("SELECT id FROM sessions WHERE status = 'active' ORDER BY id")]


def sql(statement):
    return connection.execute(statement).fetchall()


def try_to(statement):
    """Whether the lock for it is to be had at once."""
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        other.execute(statement)
        return True
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
        return False
    finally:
        other.close()


def move_another_here():
    """Another database with the same rows takes its place."""
    other = path + ".new"
    connection.execute("VACUUM INTO ?", (other,))
    close()
    for beside in ("-wal", "-shm"):
        if os.path.exists(path + beside):
            os.unlink(path + beside)
    os.rename(other, path)
    open_it()


def copy(to):
    copied = sqlite3.connect(to)
    connection.backup(copied)
    copied.close()


def restore(backup):
    """In place, as `cp` does it."""
    shutil.copyfile(backup, path)


def crash():
    os._exit(0)


COMMANDS = {
    name: call
    for name, call in {
        "open": open_it, "close": close, "begin": begin, "end": end, "live": live, "sql": sql, "try": try_to,
        "checkpoint": lambda: sql("PRAGMA wal_checkpoint(TRUNCATE)"), "vacuum": lambda: sql("VACUUM"),
        "mode": set_mode, "move": move_another_here, "copy": copy, "restore": restore, "crash": crash,
    }.items()
}

for line in sys.stdin:
    command, *arguments = json.loads(line)
    try:
        answer = {"said": COMMANDS[command](*arguments)}
    except Exception as error:
        answer = {"error": "%s: %s" % (command, error)}
    print(json.dumps(answer), flush=True)
