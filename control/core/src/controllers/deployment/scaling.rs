//! Scaling outside of a rollout step: when the Deployment's size changed, or while it is paused.

use super::history;
use super::plan::{Plan, size};
use super::recreates;

impl Plan<'_> {
    /// Whether a set that holds pods was sized for another number of replicas than the Deployment asks for now.
    pub(super) fn scaling_event(&self) -> bool {
        self.members()
            .filter(|member| member.replicas > 0)
            .any(|member| history::sizes(&member.set).is_some_and(|(desired, _)| desired != self.wanted()))
    }

    /// Brings the sets to the Deployment's size; in the middle of a rollout each gets its share of the difference.
    pub(super) fn scale_proportionally(&mut self) {
        let wanted = self.wanted();
        let ceiling = self.bounds.ceiling(wanted);
        let holding = self.members().filter(|member| member.replicas > 0).count();
        if holding <= 1 {
            // One set holds pods, or none: then the current one, or else the latest.
            let empty = holding == 0;
            let has_current = self.current.is_some();
            let latest = self.old.len().saturating_sub(1);
            let only = self
                .current
                .iter_mut()
                .filter(|member| empty || member.replicas > 0)
                .chain(self.old.iter_mut().enumerate().filter_map(|(place, member)| {
                    let chosen = if empty { !has_current && place == latest } else { member.replicas > 0 };
                    chosen.then_some(member)
                }))
                .next();
            if let Some(member) = only {
                member.replicas = wanted;
                member.note_sizes(wanted, ceiling);
            }
            return;
        }
        if self.saturated() {
            self.old.iter_mut().for_each(|member| member.replicas = 0);
            return;
        }
        if recreates(self.spec) {
            return;
        }
        self.share_difference(wanted, ceiling);
    }

    /// Whether the current set is sized for the Deployment and all of it is available.
    fn saturated(&self) -> bool {
        self.current.as_ref().is_some_and(|member| {
            let desired = history::sizes(&member.set).map(|(desired, _)| desired);
            member.replicas == self.wanted() && desired == Some(self.wanted()) && member.available() == self.wanted()
        })
    }

    fn share_difference(&mut self, wanted: i32, ceiling: i32) {
        let allowed = if wanted > 0 { ceiling } else { 0 };
        let difference = allowed - self.total();
        let fallback = self.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or_default();
        let mut members: Vec<_> =
            self.old.iter_mut().chain(self.current.iter_mut()).filter(|member| member.replicas > 0).collect();
        // Larger sets first; among equals the newer grows first and the older shrinks first.
        if difference > 0 {
            members.reverse();
        }
        members.sort_by_key(|member| std::cmp::Reverse(member.replicas));
        let mut given = 0;
        for member in &mut members {
            if difference != 0 && given != difference {
                let share = share(
                    size(&member.set),
                    history::sizes(&member.set).map(|(_, most)| most),
                    wanted,
                    ceiling,
                    fallback,
                );
                let left = difference - given;
                let share = if difference > 0 { share.min(left).max(0) } else { share.max(left).min(0) };
                member.replicas += share;
                given += share;
            }
            member.note_sizes(wanted, ceiling);
        }
        if let Some(largest) = members.first_mut() {
            largest.replicas = (largest.replicas + difference - given).max(0);
        }
    }
}

/// Change of a set's size that keeps its proportion of the Deployment.
fn share(size: i32, most: Option<i32>, wanted: i32, ceiling: i32, fallback: i32) -> i32 {
    if wanted == 0 {
        return -size;
    }
    let before = most.filter(|most| *most > 0).unwrap_or(fallback);
    if before <= 0 {
        return 0;
    }
    let scaled = (f64::from(size) * f64::from(ceiling) / f64::from(before)).round();
    // Bounded by i32 on both sides; a cast of a rounded float saturates.
    #[allow(clippy::cast_possible_truncation, reason = "saturates")]
    let scaled = scaled as i32;
    scaled.saturating_sub(size)
}
