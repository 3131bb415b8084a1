//! Resource quantities: `250m`, `1.5Gi`, `1e3`.

use std::cmp::Ordering;
use std::fmt;

/// Units of one in the stored number.
const NANO: i128 = 1_000_000_000;

/// A parsed quantity. Equality and order look at the number alone; printing keeps the notation and is canonical: the
/// largest suffix that needs no fraction.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// Billionths.
    nano: i128,
    notation: Notation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    Decimal,
    Binary,
    Exponent,
}

/// Text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub struct InvalidQuantity;

impl Quantity {
    /// Whole units, rounded up, within `i64`.
    pub fn value(self) -> i64 {
        clamp(div_ceil(self.nano, NANO))
    }

    /// Thousandths, rounded up, within `i64`.
    pub fn milli(self) -> i64 {
        clamp(div_ceil(self.nano, NANO / 1000))
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it has no fraction.
    pub fn is_integer(self) -> bool {
        self.nano % NANO == 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

fn div_ceil(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

fn clamp(n: i128) -> i64 {
    i64::try_from(n).unwrap_or(if n < 0 { i64::MIN } else { i64::MAX })
}

const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -3), ("u", -2), ("m", -1), ("", 0), ("k", 1), ("M", 2), ("G", 3), ("T", 4), ("P", 5), ("E", 6)];

/// Parses a quantity. Fractions below a billionth are rounded up (away from zero); numbers beyond `i64::MAX` whole
/// units are capped there.
pub fn parse(text: &str) -> Result<Quantity, InvalidQuantity> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return Err(InvalidQuantity);
    }
    let (notation, multiplier, exponent) = scale(suffix)?;
    let magnitude = magnitude(whole, fraction, multiplier, exponent);
    let nano = sign * magnitude.min(i128::from(i64::MAX) * NANO);
    Ok(Quantity { nano, notation })
}

/// Notation, binary multiplier and decimal exponent of a suffix.
fn scale(suffix: &str) -> Result<(Notation, i128, i32), InvalidQuantity> {
    if let Some((_, power)) = BINARY.iter().find(|(s, _)| *s == suffix) {
        return Ok((Notation::Binary, 1_i128 << (10 * power), 0));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Ok((Notation::Decimal, 1, 3 * power));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|e| e.parse::<i32>().ok()).ok_or(InvalidQuantity)?;
    Ok((Notation::Exponent, 1, exponent))
}

/// Billionths of `whole.fraction * multiplier * 10^exponent`, rounded up, saturating.
fn magnitude(whole: &str, fraction: &str, multiplier: i128, exponent: i32) -> i128 {
    let mut total: i128 = 0;
    let mut inexact = false;
    let first = i64::try_from(whole.len()).unwrap_or(i64::MAX) - 1 + i64::from(exponent) + 9;
    for (index, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let digit = i128::from(digit - b'0');
        if digit == 0 {
            continue;
        }
        let place = first - i64::try_from(index).unwrap_or(i64::MAX);
        // A binary multiplier can lift digits below a billionth into view, hence the division by place after it.
        let part = match u32::try_from(place) {
            Ok(place) => 10_i128.checked_pow(place).and_then(|p| p.checked_mul(digit * multiplier)),
            Err(_) => {
                let divisor = u32::try_from(-place).ok().and_then(|p| 10_i128.checked_pow(p));
                let product = digit * multiplier;
                inexact |= divisor.is_none_or(|d| product % d != 0);
                Some(divisor.map_or(0, |d| product / d))
            }
        };
        total = part.and_then(|p| total.checked_add(p)).unwrap_or(i128::MAX);
    }
    total.saturating_add(i128::from(inexact))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = self.notation == Notation::Binary && self.is_integer() && self.nano.abs() >= 1024 * NANO;
        if binary {
            let mut number = self.nano / NANO;
            let mut suffix = "";
            for (next, _) in BINARY {
                if number % 1024 != 0 {
                    break;
                }
                number /= 1024;
                suffix = next;
            }
            return write!(f, "{number}{suffix}");
        }
        let mut number = self.nano;
        let mut step = 0;
        while number != 0 && number % 1000 == 0 && step + 1 < DECIMAL.len() {
            number /= 1000;
            step += 1;
        }
        match DECIMAL[step] {
            _ if number == 0 => f.write_str("0"),
            (_, power) if self.notation == Notation::Exponent && power != 0 => write!(f, "{number}e{}", 3 * power),
            (suffix, _) => write!(f, "{number}{suffix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms() {
        for (text, want) in [
            ("0", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("100000", "100k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("-1.5", "-1500m"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("2M", "2M"),
            (".5", "500m"),
            ("5.", "5"),
            ("512", "512"),
            ("0Mi", "0"),
            ("1.0001Ki", "1024102400u"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), want, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_quantity() {
        for text in ["", "abc", "1x", "1 Gi", "1..2", "--1", "Gi", "1KI", "1e", "1.5.2", "0x1", "١"] {
            assert_eq!(parse(text), Err(InvalidQuantity), "{text:?}");
        }
    }

    #[test]
    fn numbers_round_up() {
        assert_eq!(parse("1m").unwrap().value(), 1);
        assert_eq!(parse("1500m").unwrap().milli(), 1500);
        assert_eq!(parse("64Mi").unwrap().value(), 64 << 20);
        assert_eq!(parse("99999999999999999999999").unwrap().value(), i64::MAX);
        assert_eq!(parse("1e99999").unwrap().value(), i64::MAX);
        assert!(parse("-1").unwrap().is_negative());
        assert!(parse("1Gi").unwrap() > parse("1G").unwrap());
        assert_eq!(parse("1000m").unwrap(), parse("1").unwrap());
    }
}
