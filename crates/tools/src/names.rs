//! The names under which tools and prompts are offered, pure: `server__tool`, in letters that every model API takes, at most 64
//! of them. The same servers always give the same names.

use std::collections::HashSet;

use ring::digest::{SHA256, digest};

/// What model APIs take.
const NAME_CHARS_MAX: usize = 64;
/// What tells two names apart that would be one.
const SUFFIX_CHARS: usize = 8;

/// Gives names; those that are right as they are come first, so that no other takes them.
#[derive(Default)]
pub(crate) struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// One name for each pair of a server's name with its prefix and what the server calls the thing, in the same order.
    pub(crate) fn give(&mut self, wanted: &[(&str, &str, &str)]) -> Vec<String> {
        let plain: Vec<(String, bool)> = wanted.iter().map(|(_, prefix, own)| plain(prefix, own)).collect();
        let mut names: Vec<Option<String>> = vec![None; wanted.len()];
        for (place, (name, is_exact)) in plain.iter().enumerate() {
            if *is_exact && self.taken.insert(name.clone()) {
                names[place] = Some(name.clone());
            }
        }
        let left = wanted.iter().zip(&plain).zip(&mut names).filter(|(_, name)| name.is_none());
        for (((server, _, own), (plain, _)), name) in left {
            let is_free = plain.len() <= NAME_CHARS_MAX && self.taken.insert(plain.clone());
            *name = Some(if is_free { plain.clone() } else { self.marked(plain, server, own) });
        }
        names.into_iter().flatten().collect()
    }

    /// The name with a mark of where it is from. That two marks are one needs two servers made for it; then it counts on.
    fn marked(&mut self, plain: &str, server: &str, own: &str) -> String {
        let mut round = 0_u32;
        loop {
            let sum = digest(&SHA256, format!("{server}\0{own}\0{round}").as_bytes());
            let mark: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            let kept: String = plain.chars().take(NAME_CHARS_MAX - SUFFIX_CHARS - 1).collect();
            let name = format!("{kept}_{}", &mark[..SUFFIX_CHARS]);
            if self.taken.insert(name.clone()) {
                return name;
            }
            round += 1;
        }
    }
}

/// The name in letters that may stand in it, and whether nothing had to be changed for that.
fn plain(prefix: &str, own: &str) -> (String, bool) {
    let whole = if prefix.is_empty() { own.to_owned() } else { format!("{prefix}__{own}") };
    let name: String = whole.chars().map(|one| if may_stand(one) { one } else { '_' }).collect();
    let is_exact = name == whole && name.len() <= NAME_CHARS_MAX;
    (name, is_exact)
}

fn may_stand(one: char) -> bool {
    one.is_ascii_alphanumeric() || one == '_' || one == '-'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(wanted: &[(&str, &str, &str)]) -> Vec<String> {
        Names::default().give(wanted)
    }

    #[test]
    fn a_tool_has_its_server_before_its_name() {
        assert_eq!(names(&[("time", "time", "now"), ("fs", "", "read")]), ["time__now", "read"]);
    }

    #[test]
    fn what_no_model_takes_is_replaced_and_what_clashes_then_is_marked() {
        let given = names(&[("fs", "fs", "a.b"), ("fs", "fs", "a_b"), ("fs", "fs", "a/b")]);
        assert_eq!(given[1], "fs__a_b");
        assert!(given[0].starts_with("fs__a_b_") && given[2].starts_with("fs__a_b_") && given[0] != given[2]);
    }

    #[test]
    fn a_long_name_is_cut_and_marked() {
        let long = "x".repeat(100);
        let given = names(&[("fs", "fs", &long), ("fs", "fs", &format!("{long}y"))]);
        assert!(given.iter().all(|name| name.len() == NAME_CHARS_MAX));
        assert_ne!(given[0], given[1]);
    }

    proptest! {
        #[test]
        fn names_are_one_for_each_and_fit_every_model(own in prop::collection::vec(("[a-c]{1,2}", "\\PC{0,80}"), 0..20)) {
            let wanted: Vec<_> = own.iter().map(|(server, own)| (server.as_str(), server.as_str(), own.as_str())).collect();
            let given = names(&wanted);
            prop_assert_eq!(given.len(), wanted.len());
            prop_assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len());
            prop_assert!(given.iter().all(|name| name.len() <= NAME_CHARS_MAX && name.chars().all(may_stand)));
            prop_assert_eq!(given, names(&wanted));
        }
    }
}
