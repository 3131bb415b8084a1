use sha2::{Digest, Sha256};

use super::Labels;

/// The identity of a pod: a hash of its Namespace's name and labels and its own labels, never 0.
///
/// The same on every node and after every restart: the first 8 bytes of the SHA-256 of the parts, each with its length
/// in front, so that no two different inputs are the same byte string.
#[must_use]
pub fn identity_hash(namespace: &str, namespace_labels: &Labels, labels: &Labels) -> u64 {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    part(namespace);
    for set in [namespace_labels, labels] {
        part(&set.len().to_string());
        for (key, value) in set {
            part(key);
            part(value);
        }
    }
    let digest = hash.finalize();
    let first = digest.iter().take(8).fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    first.max(1)
}
