use std::collections::BTreeMap;

use serde::Serialize;
use skep_abi::map;

use super::Capacities;

/// A map is nearly full from here on, percent of its capacity.
const ALARM: u64 = 90;
/// And is so no more below this: a map at the edge does not come and go.
const CALM: u64 = 80;

/// How full a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MapFill {
    /// Its name.
    pub map: &'static str,
    /// Entries in it.
    pub entries: u64,
    /// Entries that it has room for.
    pub capacity: u64,
}

impl MapFill {
    /// Whole percent of the capacity that are used.
    #[must_use]
    pub fn percent(&self) -> u64 {
        (self.entries.saturating_mul(100)).checked_div(self.capacity).unwrap_or(0)
    }

    /// As people read it, with the flag that makes the map larger.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { map, entries, capacity } = self;
        let percent = self.percent();
        match Capacities::flag(map) {
            Some(flag) => format!("map {map}: {entries} of {capacity} entries, {percent}% ({flag} makes it larger)"),
            None => format!("map {map}: {entries} of {capacity} entries, {percent}%"),
        }
    }
}

/// Whether an entry can fail to be written because the map is full, or push out one that is in use. The others hold what is
/// of use for a while only and give the oldest up, or statistics.
#[must_use]
pub fn can_run_full(name: &str) -> bool {
    !matches!(name, map::ORIGINS | map::AFFINITY | map::FRAGMENTS | map::SERVICE_HITS)
}

/// A map that came to be nearly full, or is not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is nearly full.
    NearlyFull(MapFill),
    /// It has room again.
    Relieved(MapFill),
}

/// Which maps are nearly full.
///
/// ```text
///            >= 90 %
///   has room ───────► nearly full
///            ◄───────
///             < 80 %
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pressure {
    /// As they were when their percentage changed last.
    nearly_full: BTreeMap<&'static str, MapFill>,
}

impl Pressure {
    /// Takes how full the maps are now. A map that is not among them stays as it was. Returns what has changed.
    pub fn observe(&mut self, fills: &[MapFill]) -> Vec<Turn> {
        let mut turns = Vec::new();
        for fill in fills.iter().filter(|fill| fill.capacity > 0) {
            match self.nearly_full.get_mut(fill.map) {
                None if fill.percent() >= ALARM => {
                    self.nearly_full.insert(fill.map, *fill);
                    turns.push(Turn::NearlyFull(*fill));
                }
                None => {}
                Some(_) if fill.percent() < CALM => {
                    self.nearly_full.remove(fill.map);
                    turns.push(Turn::Relieved(*fill));
                }
                // What is reported does not change with every entry.
                Some(known) if known.percent() != fill.percent() => *known = *fill,
                Some(_) => {}
            }
        }
        turns
    }

    /// The maps that are nearly full, by name.
    #[must_use]
    pub fn nearly_full(&self) -> Vec<MapFill> {
        self.nearly_full.values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(entries: u64) -> MapFill {
        MapFill { map: map::SLOTS, entries, capacity: 1000 }
    }

    #[test]
    fn an_alarm_is_raised_at_ninety_percent_and_lasts_until_below_eighty() {
        let mut pressure = Pressure::default();
        assert_eq!(pressure.observe(&[fill(899)]), []);
        assert_eq!(pressure.nearly_full(), []);
        assert_eq!(pressure.observe(&[fill(900)]), [Turn::NearlyFull(fill(900))]);
        for entries in [1000, 899, 800] {
            assert_eq!(pressure.observe(&[fill(entries)]), [], "{entries}");
            assert_eq!(pressure.nearly_full(), [fill(entries)]);
        }
        assert_eq!(pressure.observe(&[fill(799)]), [Turn::Relieved(fill(799))]);
        assert_eq!(pressure.nearly_full(), []);
        assert_eq!(pressure.observe(&[fill(899)]), [], "the way up begins anew");
    }

    #[test]
    fn maps_are_told_apart_and_one_that_is_not_seen_stays() {
        let other = MapFill { map: map::NAT, entries: 95, capacity: 100 };
        let mut pressure = Pressure::default();
        assert_eq!(pressure.observe(&[other, fill(950)]).len(), 2);
        assert_eq!(pressure.observe(&[fill(0)]), [Turn::Relieved(fill(0))]);
        assert_eq!(pressure.nearly_full(), [other]);
    }

    #[test]
    fn what_is_reported_changes_by_the_percent() {
        let mut pressure = Pressure::default();
        pressure.observe(&[fill(910)]);
        pressure.observe(&[fill(919)]);
        assert_eq!(pressure.nearly_full(), [fill(910)]);
        pressure.observe(&[fill(920)]);
        assert_eq!(pressure.nearly_full(), [fill(920)]);
    }

    #[test]
    fn the_largest_and_the_emptiest_maps_are_no_trouble() {
        let mut pressure = Pressure::default();
        let none = MapFill { map: map::SLOTS, entries: 0, capacity: 0 };
        assert_eq!((pressure.observe(&[none]), none.percent()), (Vec::new(), 0));
        let most = MapFill { map: map::SLOTS, entries: u64::MAX, capacity: u64::MAX };
        assert!(most.percent() <= 100);
    }

    #[test]
    fn the_text_names_the_map_its_numbers_and_what_to_do() {
        assert_eq!(fill(900).text(), "map slots: 900 of 1000 entries, 90% (--service-entries makes it larger)");
        let fixed = MapFill { map: map::ROUTES, entries: 19, capacity: 20 };
        assert_eq!(fixed.text(), "map routes: 19 of 20 entries, 95%");
    }
}
