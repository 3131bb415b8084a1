//! Rows of the database: one a key and revision. Pure.
//!
//! A row's key is the revision (8 bytes, big endian) and then the key, so that rows lie in the order in which they were
//! written and new ones go to the end of the tree. Its value is a fixed head, the value, and a checksum over both the
//! row's key and what precedes the checksum:
//!
//! ```text
//!   kind u8 | ordinal u32 | create revision u64 | version u64 | lease i64 | value ... | crc32 u32     (little endian)
//! ```
//!
//! The ordinal is the place in the transaction. A deletion has the same head, zeroes but for the ordinal.

use std::sync::Arc;

use bytes::Bytes;

use crate::model::{KeyValue, Revision};

const HEAD: usize = 1 + 4 + 8 + 8 + 8;
const CHECKSUM: usize = 4;

const DELETED: u8 = 0;
const PUT: u8 = 1;

/// A row that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) ordinal: u32,
    pub(crate) revision: Revision,
    pub(crate) key: Bytes,
    /// `None` for a deletion.
    pub(crate) kv: Option<Arc<KeyValue>>,
}

/// Why bytes are not a row.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidRow {
    #[error("row of {0} bytes is too short")]
    Short(usize),
    #[error("row of revision {0} has a wrong checksum")]
    Checksum(Revision),
    #[error("row of revision {0} is of unknown kind {1}")]
    Kind(Revision, u8),
}

/// Writes a row's key into `buffer`.
pub(crate) fn key(buffer: &mut Vec<u8>, revision: Revision, key: &[u8]) {
    buffer.clear();
    buffer.extend_from_slice(&revision.to_be_bytes());
    buffer.extend_from_slice(key);
}

/// Length of the row of `kv` (`None`: a deletion).
pub(crate) fn length(kv: Option<&KeyValue>) -> usize {
    HEAD + kv.map_or(0, |kv| kv.value.len()) + CHECKSUM
}

/// Writes the row of `kv` into `out`, whose length is [`length`].
pub(crate) fn encode(out: &mut [u8], row_key: &[u8], ordinal: u32, kv: Option<&KeyValue>) {
    let end = out.len() - CHECKSUM;
    let (create, version, lease) = kv.map_or((0, 0, 0), |kv| (kv.create_revision, kv.version, kv.lease));
    out[0] = if kv.is_some() { PUT } else { DELETED };
    out[1..5].copy_from_slice(&ordinal.to_le_bytes());
    out[5..13].copy_from_slice(&create.to_le_bytes());
    out[13..21].copy_from_slice(&version.to_le_bytes());
    out[21..HEAD].copy_from_slice(&lease.to_le_bytes());
    if let Some(kv) = kv {
        out[HEAD..end].copy_from_slice(&kv.value);
    }
    let checksum = checksum(row_key, &out[..end]);
    out[end..].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads a row.
pub(crate) fn decode(row_key: &[u8], row: &[u8]) -> Result<Row, InvalidRow> {
    let (revision, key) = row_key.split_first_chunk::<8>().ok_or(InvalidRow::Short(row_key.len()))?;
    let revision = Revision::from_be_bytes(*revision);
    let (body, stored) = row.split_last_chunk::<CHECKSUM>().ok_or(InvalidRow::Short(row.len()))?;
    if checksum(row_key, body) != u32::from_le_bytes(*stored) {
        return Err(InvalidRow::Checksum(revision));
    }
    let short = || InvalidRow::Short(row.len());
    let (kind, rest) = body.split_first().ok_or_else(short)?;
    let (ordinal, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let (create, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let (version, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let (lease, value) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let key = Bytes::copy_from_slice(key);
    let kv = match *kind {
        DELETED => None,
        PUT => Some(Arc::new(KeyValue {
            key: key.clone(),
            value: Bytes::copy_from_slice(value),
            create_revision: Revision::from_le_bytes(*create),
            mod_revision: revision,
            version: u64::from_le_bytes(*version),
            lease: i64::from_le_bytes(*lease),
        })),
        kind => return Err(InvalidRow::Kind(revision, kind)),
    };
    Ok(Row { ordinal: u32::from_le_bytes(*ordinal), revision, key, kv })
}

fn checksum(row_key: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(row_key);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> KeyValue {
        KeyValue {
            key: Bytes::from_static(b"/registry/pods/a/b"),
            value: Bytes::from_static(b"{}"),
            create_revision: 3,
            mod_revision: 9,
            version: 2,
            lease: -7,
        }
    }

    fn encoded(kv: Option<&KeyValue>) -> (Vec<u8>, Vec<u8>) {
        let mut row_key = Vec::new();
        key(&mut row_key, 9, b"/registry/pods/a/b");
        let mut row = vec![0; length(kv)];
        encode(&mut row, &row_key, 4, kv);
        (row_key, row)
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let kv = sample();
        let (row_key, row) = encoded(Some(&kv));
        let read = decode(&row_key, &row).unwrap();
        assert_eq!((read.ordinal, read.revision, read.kv.as_deref()), (4, 9, Some(&kv)));
        let (row_key, row) = encoded(None);
        let read = decode(&row_key, &row).unwrap();
        assert_eq!((read.key, read.kv), (kv.key, None));
    }

    #[test]
    fn no_flipped_bit_goes_unnoticed() {
        let (row_key, row) = encoded(Some(&sample()));
        for bit in 0..row.len() * 8 {
            let mut damaged = row.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&row_key, &damaged).is_err(), "bit {bit}");
        }
        for bit in 0..row_key.len() * 8 {
            let mut damaged = row_key.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged, &row).is_err(), "bit {bit} of the key");
        }
        assert!(decode(&row_key, &row[..row.len() - 1]).is_err());
        assert_eq!(decode(&row_key[..7], &row), Err(InvalidRow::Short(7)));
    }
}
