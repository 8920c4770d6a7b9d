//! The first differences of two texts, line by line: enough to see what changed, short enough to read.

const HUNKS_MAX: usize = 3;
const HUNK_LINES_MAX: usize = 8;

/// How far ahead a common place is looked for after a difference, and how many equal lines make one.
const LOOKAHEAD_LINES_MAX: usize = 400;
const COMMON_LINES_MIN: usize = 3;

/// `None` if the texts are equal; else their first differences, `-` committed and `+` fresh.
pub(super) fn between(committed: &str, fresh: &str) -> Option<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (committed.split('\n').collect(), fresh.split('\n').collect());
    let mut text = String::new();
    let (mut i, mut j) = (0, 0);
    let mut hunks = 0;
    loop {
        let same = old[i..].iter().zip(&new[j..]).take_while(|(a, b)| a == b).count();
        (i, j) = (i + same, j + same);
        if i == old.len() && j == new.len() {
            return (hunks > 0).then_some(text);
        }
        if hunks == HUNKS_MAX {
            return Some(text + "…\n");
        }
        let (removed, added) = next_common(&old[i..], &new[j..]);
        text += &format!("line {}\n", i + 1);
        show(&mut text, '-', &old[i..i + removed]);
        show(&mut text, '+', &new[j..j + added]);
        (i, j) = (i + removed, j + added);
        hunks += 1;
    }
}

/// How many lines of each to pass over until both go on alike; all of them if they never do.
fn next_common(old: &[&str], new: &[&str]) -> (usize, usize) {
    for distance in 1..=LOOKAHEAD_LINES_MAX {
        for i in distance.saturating_sub(new.len())..=distance.min(old.len()) {
            if go_on_alike(&old[i..], &new[distance - i..]) {
                return (i, distance - i);
            }
        }
    }
    (old.len(), new.len())
}

fn go_on_alike(old: &[&str], new: &[&str]) -> bool {
    match (old.get(..COMMON_LINES_MIN), new.get(..COMMON_LINES_MIN)) {
        (Some(old), Some(new)) => old == new,
        _ => old == new,
    }
}

fn show(text: &mut String, sign: char, lines: &[&str]) {
    for line in lines.iter().take(HUNK_LINES_MAX) {
        *text += &format!("{sign} {line}\n");
    }
    if lines.len() > HUNK_LINES_MAX {
        *text += &format!("{sign} … {} more lines\n", lines.len() - HUNK_LINES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    fn check(committed: &str, fresh: &str, expected: &Expect) {
        expected.assert_eq(&super::between(committed, fresh).unwrap_or_else(|| "equal".to_owned()));
    }

    #[test]
    fn equal_texts_have_no_difference() {
        check("a\nb\n", "a\nb\n", &expect!["equal"]);
    }

    #[test]
    fn changed_added_and_removed_lines_are_shown_where_they_stand() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
        check(
            old,
            "a\nB\nc\nd\ne\nnew\nf\ng\nh\n",
            &expect![[r#"
                line 2
                - b
                + B
                line 6
                + new
                line 9
                - i
            "#]],
        );
    }

    #[test]
    fn a_missing_file_is_one_long_addition() {
        let fresh = (1..=20).map(|n| format!("line {n}\n")).collect::<String>();
        check(
            "",
            &fresh,
            &expect![[r#"
                line 1
                + line 1
                + line 2
                + line 3
                + line 4
                + line 5
                + line 6
                + line 7
                + line 8
                + … 12 more lines
            "#]],
        );
    }

    #[test]
    fn texts_with_nothing_in_common_end() {
        let old = "x\n".repeat(1000);
        let new = "y\n".repeat(1000);
        check(
            &old,
            &new,
            &expect![[r#"
                line 1
                - x
                - x
                - x
                - x
                - x
                - x
                - x
                - x
                - … 993 more lines
                + y
                + y
                + y
                + y
                + y
                + y
                + y
                + y
                + … 993 more lines
            "#]],
        );
    }

    #[test]
    fn only_the_first_differences_are_shown() {
        let old = (0..100).map(|n| format!("{n}\n")).collect::<String>();
        let new =
            (0..100).map(|n| if n % 10 == 0 { "changed\n".to_owned() } else { format!("{n}\n") }).collect::<String>();
        check(
            &old,
            &new,
            &expect![[r#"
                line 1
                - 0
                + changed
                line 11
                - 10
                + changed
                line 21
                - 20
                + changed
                …
            "#]],
        );
    }
}
