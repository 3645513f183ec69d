//! Everything that can be wrong with a session store, each with its own sentence and what to try.

use thiserror::Error;

/// Why a session store gives no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreFault {
    /// There is nothing at the path.
    #[error("no such file")]
    NotFound,
    /// Nothing matches the places a profile names.
    #[error("no session database was found there")]
    NoneFound,
    /// There is something, but not a file.
    #[error("it is a {0}, not a database file")]
    NotAFile(&'static str),
    /// The file or its folder may not be read.
    #[error("permission denied")]
    PermissionDenied,
    /// Zero bytes.
    #[error("the file is empty, which no database is")]
    Empty,
    /// Not SQLite, or damaged.
    #[error("it is not a readable SQLite database ({0})")]
    NotADatabase(String),
    /// Somebody holds an exclusive lock.
    #[error("it is locked by another program")]
    Locked,
    /// A WAL database needs a file beside it that cannot be made.
    #[error("it is in WAL mode, and its -shm file can neither be opened nor be made in its folder")]
    WalUnreadable,
    /// A crashed writer left a journal that must be rolled back first.
    #[error("a writer crashed and left a journal that only it can roll back")]
    HotJournal,
    /// What was read is not what lies at the path: the database, or a file that belongs to it.
    #[error("its {0} was deleted or replaced by another file while it was read")]
    Replaced(&'static str),
    /// Somebody wrote to it in spite of our lock.
    #[error("it was written over while it was read")]
    Overwritten,
    /// Its log may lie beside a name that is not known here.
    #[error("it is in WAL mode and {0}, so that its -wal may lie beside another name")]
    TwoNames(&'static str),
    /// Which files are open cannot be told.
    #[error("what is open cannot be told, for /proc/self/fd cannot be read ({0})")]
    Untold(String),
    /// No query variant fits.
    #[error("its tables are not of a known form: {0}")]
    SchemaUnknown(String),
    /// A row cannot be understood; it could claim anything.
    #[error("a row cannot be understood: {0}")]
    BadRow(String),
    /// More sessions than are read.
    #[error("it holds more than {0} sessions")]
    TooManyRows(usize),
    /// The configuration beside it cannot be understood.
    #[error("the configuration {0} does not say how long its containers may be quiet: {1}")]
    Setting(String, String),
    /// The answer took too long.
    #[error("it did not answer in time")]
    TimedOut,
    /// The read before this one has not come back.
    #[error("an earlier read of it still hangs")]
    Stuck,
    /// Nobody answers there, or the connection broke.
    #[error("nobody answers there: {0}")]
    Unreachable(String),
    /// The application answered with an error.
    #[error("it answered {path} with status {status}")]
    Status {
        /// The question.
        path: String,
        /// The status.
        status: u16,
    },
    /// The answer is not what was promised.
    #[error("its answer cannot be understood: {0}")]
    Unintelligible(String),
    /// A live session is in no list.
    #[error("session {0} is live, but stands in none of its lists")]
    Unlisted(String),
    /// Another machine, which only the operator may name.
    #[error("{0} is not on this machine")]
    NotHere(String),
    /// Another protocol.
    #[error("{0} is not plain HTTP, and nothing else is spoken here")]
    NotSpoken(String),
    /// Anything else SQLite or the system said.
    #[error("{0}")]
    Failed(String),
}

impl StoreFault {
    /// Whether it may well be over: an owner closed, or a file took the place of another, at just that moment.
    pub(super) fn is_fleeting(&self) -> bool {
        matches!(self, Self::Replaced(_) | Self::Overwritten)
    }

    /// What to try.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotFound | Self::NoneFound => "name the database with `--db SYSTEM=PATH`",
            Self::NotAFile(_) => "name the database file itself with `--db SYSTEM=PATH`",
            Self::PermissionDenied => {
                "give this user read access to the file, its -wal and -shm, and its folder"
            }
            Self::Empty => "check that this is the application's database and that it has been started once",
            Self::NotADatabase(_) => "check the path: if it is right, the database is damaged or encrypted",
            Self::Locked => "it clears by itself when the other program lets go",
            Self::WalUnreadable => {
                "run as a user who may write in that folder, or while the application is running"
            }
            Self::HotJournal => "start the application once, so that it repairs its database",
            Self::Replaced(_) | Self::Overwritten => {
                "the next look reads what is there then; if it stays so, its disk does not keep locks"
            }
            Self::TwoNames(_) => {
                "name the database where its application opens it, in a folder that is seen here as a whole"
            }
            Self::Untold(_) => "let this program see /proc",
            Self::SchemaUnknown(_) => {
                "the application is newer or older than the profile: add a query variant to it"
            }
            Self::BadRow(_) => "look at that row, or correct the profile's query",
            Self::TooManyRows(_) => "let the profile's query leave out sessions that ended long ago",
            Self::Setting(..) => "write the value plainly, or let this user read the file",
            Self::TimedOut | Self::Stuck => {
                "try a longer `--timeout`, or check the disk or network the file is on"
            }
            Self::Unreachable(_) => "start the application, or name its address with `--db SYSTEM=URL`",
            Self::Status { status: 401 | 403, .. } => {
                "give its key, in the variable that its profile names or under `[secrets]` of the config file"
            }
            Self::Status { .. } => "look into the application's own log",
            Self::Unintelligible(_) => "check that this is the application the profile speaks of",
            Self::Unlisted(_) => "the next look may find it; if not, the profile asks for too little",
            Self::NotHere(_) => "name it with `--db SYSTEM=URL` if you trust the way there",
            Self::NotSpoken(_) => "name an `http://` address of this machine",
            Self::Failed(_) => "`sandkeeper doctor` shows what was tried",
        }
    }
}
