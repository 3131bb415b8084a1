use serde::Serialize;
use skep_abi::Direction;
use skep_dataplane::DropTotal;

use crate::table::Row;

/// Drops of one reason and direction.
#[derive(Debug, Serialize)]
pub(crate) struct DropRow {
    reason: &'static str,
    direction: &'static str,
    packets: u64,
    bytes: u64,
}

/// The counters; those that are zero only with `all`.
pub(crate) fn rows(totals: &[DropTotal], all: bool) -> Vec<DropRow> {
    let shown = totals.iter().filter(|total| all || total.packets > 0);
    shown
        .map(|total| DropRow {
            reason: total.reason.name(),
            direction: match total.direction {
                Direction::Ingress => "ingress",
                Direction::Egress => "egress",
            },
            packets: total.packets,
            bytes: total.bytes,
        })
        .collect()
}

impl Row for DropRow {
    const HEADER: &'static [&'static str] = &["REASON", "DIRECTION", "PACKETS", "BYTES"];

    fn cells(&self) -> Vec<String> {
        vec![self.reason.to_owned(), self.direction.to_owned(), self.packets.to_string(), self.bytes.to_string()]
    }
}

#[cfg(test)]
mod tests {
    use skep_abi::Reason;

    use super::*;
    use crate::table::columns;

    #[test]
    fn only_what_occurred_unless_all_is_asked() {
        let total = |reason, packets| DropTotal { reason, direction: Direction::Egress, packets, bytes: packets * 60 };
        let totals = [total(Reason::PolicyDenied, 2), total(Reason::Malformed, 0)];
        assert_eq!(
            columns(&rows(&totals, false)),
            "REASON          DIRECTION   PACKETS   BYTES\npolicy_denied   egress      2         120\n"
        );
        assert_eq!(rows(&totals, true).len(), 2);
    }
}
