//! Kills a process and everything that descends from it, whatever process groups the descendants chose.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process};

/// Ends the process and its descendants at once; those that are gone already are no error.
pub(super) fn kill(root: u32) {
    for id in descendants(root, &parent_links()) {
        if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            let _gone_already = kill_process(pid, Signal::KILL);
        }
    }
}

/// One process: its id and its parent's.
type Link = (u32, u32);

fn descendants(root: u32, links: &[Link]) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([root]);
    let mut grew = true;
    while grew {
        let before = found.len();
        found.extend(links.iter().filter(|(_, parent)| found.contains(parent)).map(|(id, _)| *id).collect::<Vec<_>>());
        grew = found.len() > before;
    }
    found
}

/// Linux shows its processes as files, which also works where no `ps` is installed; other systems always have one.
#[cfg(target_os = "linux")]
fn parent_links() -> Vec<Link> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|stat| parse_stat(&stat))
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn parent_links() -> Vec<Link> {
    let mut ps = super::program("ps");
    ps.args(["-A", "-o", "pid=,ppid="]);
    let listing = super::stdout_of(&mut ps, std::time::Duration::from_secs(10)).unwrap_or_default();
    listing
        .lines()
        .filter_map(|line| {
            let mut columns = line.split_whitespace();
            Some((columns.next()?.parse().ok()?, columns.next()?.parse().ok()?))
        })
        .collect()
}

/// `PID (NAME) STATE PPID …`, where the name may itself hold blanks and brackets.
#[cfg(target_os = "linux")]
fn parse_stat(stat: &str) -> Option<Link> {
    let (id, rest) = stat.split_once(' ')?;
    let (_, after_name) = rest.rsplit_once(") ")?;
    let parent = after_name.split(' ').nth(1)?;
    Some((id.parse().ok()?, parent.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn descendants_are_found_in_any_order_and_strangers_are_left_alone() {
        let links = [(40, 30), (30, 20), (20, 10), (11, 10), (10, 1), (99, 1)];
        assert_eq!(super::descendants(20, &links), BTreeSet::from([20, 30, 40]));
        assert_eq!(super::descendants(99, &links), BTreeSet::from([99]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_name_cannot_disguise_its_parent() {
        assert_eq!(super::parse_stat("42 (sh) S 7 42 42 0"), Some((42, 7)));
        assert_eq!(super::parse_stat("42 (a) S 1 (b) R 7 42"), Some((42, 7)));
        assert_eq!(super::parse_stat("nonsense"), None);
    }
}
