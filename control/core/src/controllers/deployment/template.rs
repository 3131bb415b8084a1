//! Pod templates: their hash, and whether two are the same revision.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::PodTemplateSpec;

/// Label that tells the pods and sets of one revision from those of another.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// A template without the hash label.
fn bare(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(metadata) = &mut template.metadata {
        if let Some(labels) = &mut metadata.labels {
            labels.remove(HASH_LABEL);
            if labels.is_empty() {
                metadata.labels = None;
            }
        }
        // Meaningless in a template; some clients send it as null.
        metadata.creation_timestamp = None;
    }
    template
}

/// Whether a set was made from this template.
pub(super) fn same(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let of_set = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    of_set.is_some_and(|of_set| bare(of_set) == bare(template))
}

/// Hash of a template for names and labels: FNV-1a over its JSON, whose fields and maps have a fixed order, in an alphabet
/// that is safe in names. `collisions` is the Deployment's count of hashes that met another template's.
pub(super) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            hash ^= u64::from(*byte);
            hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    // Serializing these types cannot fail; were it to, equal templates would still hash equally.
    feed(&serde_json::to_vec(&bare(template)).unwrap_or_default());
    if let Some(collisions) = collisions {
        feed(&collisions.to_le_bytes());
    }
    let mut rest = (hash >> 32) ^ (hash & 0xffff_ffff);
    let mut text = String::new();
    while rest > 0 {
        text.push(char::from(ALPHABET[usize::try_from(rest % 27).unwrap_or_default()]));
        rest /= 27;
    }
    text
}
