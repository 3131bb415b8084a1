//! The database file.
//!
//! Three tables: `rows` (see [`row`]) holds every value once, under the revision that wrote it; `leases` holds their
//! seconds; `meta` holds the format and the newest and oldest revision. A batch is one transaction and one sync. Values
//! that a later revision has superseded, and deletions, stay until that later revision is compacted, so that the
//! history survives a restart.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition, TableError,
    WriteTransaction,
};

use crate::acknowledged::Acknowledged;
use crate::disk::{Batch, Disk};
use crate::error::Error;
use crate::load::{Loaded, Loader};
use crate::model::{LeaseId, Revision};
use crate::row;

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const LEASES: TableDefinition<'_, LeaseId, u32> = TableDefinition::new("leases");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const FORMAT_KEY: &str = "format";
const NEWEST_KEY: &str = "newest";
const OLDEST_KEY: &str = "oldest";

/// Layout of the tables; another number is refused.
const FORMAT: u64 = 1;

/// The open file.
#[derive(Debug)]
pub(crate) struct RedbDisk {
    database: Database,
    acknowledged: Acknowledged,
}

impl RedbDisk {
    /// Opens or makes the file and reads it.
    pub(crate) fn open(path: &Path, cache: usize) -> Result<(Self, Loaded), Error> {
        let mut builder = Builder::new();
        builder.set_cache_size(cache).set_check_integrity_on_open(true);
        let database = builder.create(path).map_err(|error| opening(path, error))?;
        Self::adopt(database, path)
    }

    /// Takes an open database whose mark is beside `path`.
    fn adopt(database: Database, path: &Path) -> Result<(Self, Loaded), Error> {
        let acknowledged = Acknowledged::open(path)?;
        if read(&database, newest)?.is_none() {
            create(&database).map_err(|error| unreadable(&error))?;
            sync_directory(path)?;
        }
        let loaded = read(&database, load)?;
        acknowledged.check(loaded.state.revision)?;
        Ok((Self { database, acknowledged }, loaded))
    }

    fn write(&self, batch: &Batch) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        write_rows(&transaction, batch)?;
        write_leases(&transaction, batch)?;
        write_meta(&transaction, batch)?;
        transaction.commit()?;
        Ok(())
    }
}

impl Disk for RedbDisk {
    fn commit(&mut self, batch: &Batch) -> Result<(), String> {
        self.write(batch).map_err(|error| format!("its database does not take a write: {error}"))?;
        if let Some(record) = batch.records.last() {
            self.acknowledged
                .set(record.revision)
                .map_err(|error| format!("its mark does not take a write: {error}"))?;
        }
        Ok(())
    }
}

fn write_rows(transaction: &WriteTransaction, batch: &Batch) -> Result<(), redb::Error> {
    if batch.records.is_empty() && batch.compact.is_none() {
        return Ok(());
    }
    let mut rows = transaction.open_table(ROWS)?;
    let mut row_key = Vec::new();
    for record in &batch.records {
        for (ordinal, change) in (0_u32..).zip(&record.changes) {
            let kv = change.next.as_deref();
            row::key(&mut row_key, record.revision, change.key());
            let mut row = rows.insert_reserve(&row_key[..], row::length(kv))?;
            row::encode(row.as_mut(), &row_key, ordinal, kv);
        }
    }
    for record in batch.compact.iter().flat_map(|(_, dropped)| dropped) {
        for change in &record.changes {
            if let Some(prev) = &change.prev {
                row::key(&mut row_key, prev.mod_revision, &prev.key);
                rows.remove(&row_key[..])?;
            }
            if change.next.is_none() {
                row::key(&mut row_key, record.revision, change.key());
                rows.remove(&row_key[..])?;
            }
        }
    }
    Ok(())
}

fn write_leases(transaction: &WriteTransaction, batch: &Batch) -> Result<(), redb::Error> {
    if batch.leases.is_empty() {
        return Ok(());
    }
    let mut leases = transaction.open_table(LEASES)?;
    for (id, ttl) in &batch.leases {
        match ttl {
            Some(ttl) => leases.insert(id, ttl)?,
            None => leases.remove(id)?,
        };
    }
    Ok(())
}

fn write_meta(transaction: &WriteTransaction, batch: &Batch) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    if let Some(record) = batch.records.last() {
        meta.insert(NEWEST_KEY, record.revision)?;
    }
    if let Some((oldest, _)) = &batch.compact {
        meta.insert(OLDEST_KEY, oldest)?;
    }
    Ok(())
}

fn create(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(ROWS)?;
    transaction.open_table(LEASES)?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT_KEY, FORMAT)?;
        meta.insert(NEWEST_KEY, 1)?;
        meta.insert(OLDEST_KEY, 1)?;
    }
    transaction.commit()?;
    Ok(())
}

/// A file is new until its first transaction, which writes every table, is there.
fn newest(transaction: &redb::ReadTransaction) -> Result<Option<Revision>, Error> {
    match transaction.open_table(META) {
        Ok(meta) => Ok(meta.get(NEWEST_KEY).map_err(|error| unreadable(&error.into()))?.map(|value| value.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(unreadable(&error.into())),
    }
}

fn load(transaction: &redb::ReadTransaction) -> Result<Loaded, Error> {
    let table = |error: TableError| unreadable(&error.into());
    let storage = |error: StorageError| unreadable(&error.into());
    let meta = transaction.open_table(META).map_err(table)?;
    let number = |name: &str| {
        let value = meta.get(name).map_err(storage)?;
        value.map(|value| value.value()).ok_or_else(|| Error::Corrupt(format!("{name:?} is missing in its meta table")))
    };
    let format = number(FORMAT_KEY)?;
    if format != FORMAT {
        return Err(Error::Unavailable(format!("its file has format {format}, this program reads format {FORMAT}")));
    }
    let mut leases = Vec::new();
    for entry in transaction.open_table(LEASES).map_err(table)?.iter().map_err(storage)? {
        let (id, ttl) = entry.map_err(storage)?;
        leases.push((id.value(), ttl.value()));
    }
    let mut loader = Loader::new(number(OLDEST_KEY)?, leases, Instant::now());
    for entry in transaction.open_table(ROWS).map_err(table)?.iter().map_err(storage)? {
        let (row_key, value) = entry.map_err(storage)?;
        let row = row::decode(row_key.value(), value.value()).map_err(|error| Error::Corrupt(error.to_string()))?;
        loader.row(row)?;
    }
    loader.finish(number(NEWEST_KEY)?)
}

fn read<T>(database: &Database, read: impl FnOnce(&redb::ReadTransaction) -> Result<T, Error>) -> Result<T, Error> {
    read(&database.begin_read().map_err(|error| unreadable(&error.into()))?)
}

/// A file's name is durable once its directory is.
fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| Error::Unavailable(format!("directory {} does not sync: {error}", directory.display())))
}

fn opening(path: &Path, error: DatabaseError) -> Error {
    let path = path.display();
    match error {
        DatabaseError::DatabaseAlreadyOpen => Error::Unavailable(format!("another process has {path} open")),
        DatabaseError::Storage(error) => match unreadable(&error.into()) {
            Error::Corrupt(reason) => Error::Corrupt(format!("{path}: {reason}")),
            Error::Unavailable(reason) => Error::Unavailable(format!("{path}: {reason}")),
            other => other,
        },
        other => Error::Unavailable(format!("{path}: {other}")),
    }
}

/// What a failure to read means. A file that ends too early is damage, any other refusal of the system is not.
fn unreadable(error: &redb::Error) -> Error {
    match error {
        redb::Error::Corrupted(reason) => Error::Corrupt(reason.clone()),
        redb::Error::Io(cause) if cause.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::Corrupt(format!("the file ends too early: {cause}"))
        }
        redb::Error::Io(cause) if cause.kind() == std::io::ErrorKind::InvalidData => Error::Corrupt(cause.to_string()),
        other => Error::Unavailable(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
