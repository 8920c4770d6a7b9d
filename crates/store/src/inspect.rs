//! Looks at a file before anything is written to it: whether it is ours, of a version that we know, and whole.
//! Whatever the answer, the file and its write-ahead log are as they were.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::create::beside;
use crate::error::{OpenError, ReadError};
use crate::migrations::{self, APPLICATION_ID};
use crate::reader::Reader;
use crate::rows::{Approval, ParkedCall};

const HEADER_BYTES: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";

/// Refuses what must not be opened.
pub(crate) fn inspect(path: &Path) -> Result<(), OpenError> {
    let has_log = beside(path, "-wal").exists();
    inspect_header(path, has_log)?;
    let index = beside(path, "-shm");
    let had_index = index.exists();
    let found = inspect_content(path, has_log);
    if found.is_err() && !had_index {
        // SQLite makes it to read the log. It is an index and holds nothing of its own.
        let _ = fs::remove_file(index);
    }
    found
}

/// The first bytes tell whose it is without SQLite, which might roll back a journal that is not ours.
fn inspect_header(path: &Path, has_log: bool) -> Result<(), OpenError> {
    let (header, length) = read_header(path).map_err(|error| OpenError::of_io(path, &error))?;
    let damaged = |finding: String| Err(OpenError::Damaged { path: path.into(), finding: finding.into() });
    if length == 0 {
        return damaged("it is empty".into());
    }
    if !header.starts_with(&MAGIC[..header.len().min(MAGIC.len())]) {
        return Err(OpenError::Foreign { path: path.into(), finding: "it is no SQLite database".into() });
    }
    if header.len() < HEADER_BYTES {
        return damaged(format!("it ends after {length} bytes"));
    }
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if word(68) != APPLICATION_ID.cast_unsigned() {
        return Err(OpenError::Foreign { path: path.into(), finding: "another program's database".into() });
    }
    let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    let whole = page_bytes * u64::from(word(28));
    // With a log beside it, the file may be shorter: its last pages are still in the log.
    if !has_log && length < whole {
        return damaged(format!("it ends after {length} of {whole} bytes"));
    }
    Ok(())
}

fn read_header(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut header = Vec::with_capacity(HEADER_BYTES);
    file.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    Ok((header, metadata.len()))
}

fn inspect_content(path: &Path, has_log: bool) -> Result<(), OpenError> {
    let of_sqlite = |error: rusqlite::Error| OpenError::of_sqlite(path, &error);
    let connection = look_at(path, has_log).map_err(of_sqlite)?;
    let (found, known) = (migrations::version(&connection).map_err(of_sqlite)?, migrations::latest());
    if found > known {
        return Err(OpenError::Newer { path: path.into(), found, known });
    }
    let finding: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(of_sqlite)?;
    if finding != "ok" {
        return Err(OpenError::Damaged { path: path.into(), finding: finding.into() });
    }
    let reader = Reader::new(connection);
    let checked = reader.check::<Approval>().and_then(|()| reader.check::<ParkedCall>());
    checked.map_err(|error| OpenError::Damaged {
        path: path.into(),
        finding: match error {
            ReadError::Damaged { table } => format!("a row of {table} is not as it was written").into(),
            error => error.to_string().into(),
        },
    })
}

/// Without a log the file is read as one that cannot change, which leaves no trace; with one, SQLite must read the log
/// too, and is kept from moving it into the file.
fn look_at(path: &Path, has_log: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if !has_log {
        return Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI);
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri + "?immutable=1"
}
