//! Kubernetes quantities: `100m`, `1.5`, `128Mi`, `1e3`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// A quantity that cannot be read, or does not fit.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("quantity {0:?} is not a number with an optional suffix (m, k, M, G, Ki, Mi, Gi, ...)")]
pub struct InvalidQuantity(pub String);

/// Thousandths, rounded up: the unit in which CPU is counted.
///
/// # Errors
/// The text is not a quantity, or beyond `i64`.
pub fn milli(quantity: &Quantity) -> Result<i64, InvalidQuantity> {
    scaled(&quantity.0, 1000).ok_or_else(|| InvalidQuantity(quantity.0.clone()))
}

/// Whole units, rounded up: bytes of memory, for example.
///
/// # Errors
/// The text is not a quantity, or beyond `i64`.
pub fn units(quantity: &Quantity) -> Result<i64, InvalidQuantity> {
    scaled(&quantity.0, 1).ok_or_else(|| InvalidQuantity(quantity.0.clone()))
}

fn scaled(text: &str, scale: i128) -> Option<i64> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let fraction_digits = u32::try_from(fraction.len()).ok()?;
    let (multiplier, divisor) = suffix_factor(suffix)?;
    let numerator = digits.checked_mul(multiplier)?.checked_mul(scale)?;
    let denominator = 10_i128.checked_pow(fraction_digits)?.checked_mul(divisor)?;
    let rounded =
        if negative { -(numerator / denominator) } else { numerator.checked_add(denominator - 1)? / denominator };
    i64::try_from(rounded).ok()
}

/// Numerator and denominator of a suffix.
fn suffix_factor(suffix: &str) -> Option<(i128, i128)> {
    let decimal = |exponent: u32| Some((10_i128.checked_pow(exponent)?, 1));
    match suffix {
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "" => Some((1, 1)),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => Some((1 << 10, 1)),
        "Mi" => Some((1 << 20, 1)),
        "Gi" => Some((1 << 30, 1)),
        "Ti" => Some((1 << 40, 1)),
        "Pi" => Some((1 << 50, 1)),
        "Ei" => Some((1 << 60, 1)),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let factor = 10_i128.checked_pow(exponent.unsigned_abs())?;
            Some(if exponent < 0 { (1, factor) } else { (factor, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_users_write() {
        let table = [
            ("100m", Some(100), Some(1)),
            ("1", Some(1000), Some(1)),
            ("1.5", Some(1500), Some(2)),
            (".5", Some(500), Some(1)),
            ("0.0001", Some(1), Some(1)),
            ("128Mi", Some(134_217_728_000), Some(134_217_728)),
            ("1G", Some(1_000_000_000_000), Some(1_000_000_000)),
            ("1e3", Some(1_000_000), Some(1000)),
            ("2E", None, Some(2_000_000_000_000_000_000)),
            ("-1", Some(-1000), Some(-1)),
            ("", None, None),
            ("1.2.3", None, None),
            ("Mi", None, None),
            ("1 Mi", None, None),
            ("1e999", None, None),
            ("99999999999999999999999999999999999999999", None, None),
        ];
        for (text, expected_milli, expected_units) in table {
            let quantity = Quantity(text.to_owned());
            assert_eq!(milli(&quantity).ok(), expected_milli, "{text} in thousandths");
            assert_eq!(units(&quantity).ok(), expected_units, "{text} in units");
        }
    }
}
