//! Rolling update and recreation: how many pods each revision may have now.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::plan::Plan;
use super::recreates;

/// `maxSurge` and `maxUnavailable` as numbers of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) max_surge: i32,
    pub(super) max_unavailable: i32,
}

impl Bounds {
    /// Resolves a Deployment's bounds: percentages of its replicas, surge rounded up, unavailable rounded down; both 25 % when
    /// absent. Were both zero nothing could move, so that one may then be unavailable.
    pub(super) fn of(spec: &DeploymentSpec) -> Self {
        if recreates(spec) {
            return Self { max_surge: 0, max_unavailable: 0 };
        }
        let replicas = spec.replicas.unwrap_or(1).max(0);
        let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let max_surge = resolve(rolling.and_then(|rolling| rolling.max_surge.as_ref()), replicas, true);
        let mut max_unavailable =
            resolve(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), replicas, false);
        if max_surge == 0 && max_unavailable == 0 {
            max_unavailable = 1;
        }
        Self { max_surge, max_unavailable: max_unavailable.min(replicas) }
    }

    /// Most pods over all revisions.
    pub(super) fn ceiling(self, replicas: i32) -> i32 {
        replicas.saturating_add(self.max_surge)
    }

    /// Fewest available pods.
    pub(super) fn floor(self, replicas: i32) -> i32 {
        replicas - self.max_unavailable
    }
}

fn resolve(value: Option<&IntOrString>, replicas: i32, up: bool) -> i32 {
    let percent = match value {
        Some(IntOrString::Int(number)) => return (*number).max(0),
        Some(IntOrString::String(text)) => {
            text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok()).unwrap_or(0)
        }
        None => 25,
    };
    let product = i64::from(replicas) * percent.max(0);
    i32::try_from(if up { (product + 99) / 100 } else { product / 100 }).unwrap_or(i32::MAX)
}

impl Plan<'_> {
    /// Size with which the set of a new template starts.
    pub(super) fn initial_size(&self) -> i32 {
        self.grown(0)
    }

    /// Size that the current set, now of this size, may grow to.
    fn grown(&self, size: i32) -> i32 {
        if recreates(self.spec) {
            return self.wanted();
        }
        // Pods that a shrunken set has not let go of yet still count, so that the ceiling holds for pods and not only for sizes.
        let Some(pods) = self.members().map(super::plan::Member::most_pods).sum::<Option<i32>>() else { return size };
        let room = self.bounds.ceiling(self.wanted()) - pods;
        if room <= 0 {
            return size;
        }
        size + room.min(self.wanted() - size)
    }

    /// One step of a rolling update.
    pub(super) fn roll(&mut self) {
        if self.ensure_current() && !self.resize_current() && !self.shrink_old() && self.complete() {
            self.clean_history();
        }
        self.write_status();
    }

    fn resize_current(&mut self) -> bool {
        let wanted = self.wanted();
        let Some(size) = self.current.as_ref().map(|member| member.replicas) else { return false };
        let target = if size > wanted { wanted } else { self.grown(size) };
        if let Some(member) = &mut self.current {
            member.replicas = target;
        }
        target != size
    }

    /// Takes pods from the old revisions: first those that are not available anyway, then as many as can be missed.
    fn shrink_old(&mut self) -> bool {
        let before: i32 = self.old.iter().map(|member| member.replicas).sum();
        if before == 0 {
            return false;
        }
        let floor = self.bounds.floor(self.wanted());
        let current_unavailable =
            self.current.as_ref().map_or(0, |member| (member.replicas - member.available()).max(0));
        let mut removable = self.total() - floor - current_unavailable;
        if removable <= 0 {
            return false;
        }
        for member in &mut self.old {
            let take = (member.replicas - member.available()).max(0).min(removable);
            member.replicas -= take;
            removable -= take;
        }
        let available: i32 = self.members().map(super::plan::Member::available).sum();
        let mut spare = available - floor;
        for member in &mut self.old {
            let take = member.replicas.min(spare.max(0));
            member.replicas -= take;
            spare -= take;
        }
        let after: i32 = self.old.iter().map(|member| member.replicas).sum();
        after != before
    }

    /// One step of a recreation; `old_pods` tells whether pods of other revisions are still there.
    pub(super) fn recreate(&mut self, old_pods: bool) {
        let shrunk = self.old.iter().any(|member| member.replicas > 0);
        for member in &mut self.old {
            member.replicas = 0;
        }
        if !shrunk && !old_pods && self.ensure_current() && !self.resize_current() && self.complete() {
            self.clean_history();
        }
        self.write_status();
    }
}
