//! Names that the controllers choose.

/// Five characters for a generated name, drawn from a seed; the alphabet leaves out vowels and look-alikes.
pub(crate) fn suffix(seed: u64, ordinal: u64) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut state = mix(seed ^ mix(ordinal.wrapping_add(0x9e37_79b9_7f4a_7c15)));
    (0..5)
        .map(|_| {
            let letter = char::from(ALPHABET[usize::try_from(state % 27).unwrap_or_default()]);
            state /= 27;
            letter
        })
        .collect()
}

/// SplitMix64's finalizer: spreads a counter over all 64 bits.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `prefix` shortened so that a five-character suffix still makes a valid name, as for `generateName`.
pub(crate) fn generated(prefix: &str, seed: u64, ordinal: u64) -> String {
    let mut end = prefix.len().min(58);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &prefix[..end], suffix(seed, ordinal))
}
