//! Hash tables whose order nobody sees, with a fixed hash: two runs do the same.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};

pub(super) type Table<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
pub(super) type Set<K> = HashSet<K, BuildHasherDefault<DefaultHasher>>;
