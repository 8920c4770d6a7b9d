//! Whether the kernel has killed for lack of memory: a counter that is read when a child starts and again when it ends.

use std::fs;
use std::path::Path;

/// What the counter said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OomKills(Option<u64>);

impl OomKills {
    /// That of our memory cgroup, in which our children are too; where there is none, that of the machine.
    pub(crate) fn read() -> Self {
        let of_cgroup = || {
            let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
            let path = cgroups.lines().find_map(|line| line.strip_prefix("0::/"))?;
            count(&fs::read_to_string(Path::new("/sys/fs/cgroup").join(path).join("memory.events")).ok()?)
        };
        Self(of_cgroup().or_else(|| count(&fs::read_to_string("/proc/vmstat").ok()?)))
    }

    pub(crate) fn have_grown(self) -> bool {
        Self::read().0 > self.0
    }
}

fn count(counters: &str) -> Option<u64> {
    counters.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_among_the_others() {
        assert_eq!(count("low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\noom_group_kill 5\n"), Some(4));
        assert_eq!(count("pgfault 1\noom_kill_disable 0\n"), None);
    }
}
