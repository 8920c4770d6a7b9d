//! What two looks at a file come to.

use std::time::Duration;

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::*;

const FILES: &str = "[tools.files]\ncommand = [\"files\"]\n";

/// A file that is watched.
struct Bench {
    directory: TempDir,
    watch: Watch,
}

impl Bench {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("switchboard.toml");
        fs::write(&path, text).unwrap();
        let flags = vec![Flag { name: "--listen", key: "listen", value: "127.0.0.1:0".into() }];
        let resolved = load(Some(&path), flags.clone()).unwrap();
        let watch = Watch::new(Some(&path), flags, &resolved);
        Self { directory, watch }
    }

    /// Puts another file in its place, as editors do.
    fn write(&self, text: &str) {
        let draft = self.directory.path().join("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(&draft, self.watch.path.as_ref().unwrap()).unwrap();
    }

    /// What two looks have found.
    async fn look(&mut self) -> News {
        assert_eq!(self.watch.look().await, News::default(), "a change is not taken at first sight");
        self.watch.look().await
    }

    /// Accepts what waits, as an operator does who has just seen it.
    fn accept(&mut self) -> Vec<String> {
        let hash = self.watch.view().hash.unwrap();
        self.watch.accept(&hash).unwrap().accepted
    }

    fn names(&self) -> Vec<&str> {
        self.watch.servers.iter().map(|server| &*server.name).collect()
    }

    /// The same as text, without the place of the file.
    async fn check(&mut self, expected: &Expect) {
        let News { servers, said, waiting } = self.look().await;
        let servers = servers.map(|servers| {
            let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
            format!("now there are: {}", names.join(" "))
        });
        let waiting = waiting.map(|names| format!("waiting: {names}"));
        let lines: Vec<String> = said.into_iter().chain(servers).chain(waiting).collect();
        let directory = self.directory.path().to_str().unwrap();
        expected.assert_eq(&lines.join("\n").replace(directory, "DIR"));
    }
}

#[tokio::test]
async fn a_file_that_stays_as_it_is_is_read_once_more_and_changes_nothing() {
    let mut bench = Bench::new(FILES);
    assert_eq!(bench.look().await, News::default());
    assert!(bench.watch.read.is_some());
    assert_eq!(bench.look().await, News::default());
}

#[tokio::test]
async fn servers_come_and_change_when_they_are_accepted_and_go_with_the_file() {
    let mut bench = Bench::new(FILES);
    bench.write(&format!("{FILES}[tools.web]\nurl = \"https://sample\"\n"));
    bench.check(&expect!["waiting: web"]).await;
    bench.check(&expect![""]).await;
    assert_eq!(bench.names(), ["files"]);
    assert_eq!(bench.accept(), ["web"]);
    assert_eq!(bench.names(), ["files", "web"]);
    bench.check(&expect![""]).await;
    bench.write(&format!("{FILES}prefix = \"\"\n[tools.web]\nurl = \"https://sample\"\n"));
    bench.check(&expect!["waiting: files"]).await;
    assert_eq!(bench.accept(), ["files"]);
    bench.write("# none\n");
    bench.check(&expect!["now there are: "]).await;
}

#[tokio::test]
async fn what_was_changed_before_the_first_look_is_seen() {
    let mut bench = Bench::new("");
    bench.write(FILES);
    bench.check(&expect!["waiting: files"]).await;
}

mod adversary {
    use super::*;

    const EVIL: &str = "[tools.evil]\ncommand = [\"sh\", \"-c\", \"id\"]\n";

    #[tokio::test]
    async fn only_the_content_that_was_shown_is_accepted() {
        let mut bench = Bench::new("");
        bench.write(FILES);
        bench.look().await;
        let shown = bench.watch.view().hash.unwrap();
        bench.write(&format!("{FILES}{EVIL}"));
        bench.check(&expect!["waiting: evil files"]).await;
        assert_eq!(bench.watch.accept(&shown), Err(ConfigConflict::OtherContent));
        assert_eq!(bench.watch.accept(""), Err(ConfigConflict::OtherContent));
        assert!(bench.names().is_empty());
        // Nor is what was written after the last look, whatever it is.
        bench.write(FILES);
        bench.look().await;
        bench.write(&format!("{FILES}{EVIL}"));
        assert_eq!(bench.accept(), ["files"]);
        assert_eq!(bench.names(), ["files"]);
        bench.check(&expect!["waiting: evil"]).await;
        bench.write(FILES);
        bench.check(&expect![""]).await;
        assert_eq!(bench.watch.accept(&shown), Err(ConfigConflict::NothingPending), "once is enough");
    }

    #[tokio::test]
    async fn what_waits_is_forgotten_with_a_file_that_cannot_be_used() {
        let mut bench = Bench::new("");
        bench.write(EVIL);
        bench.look().await;
        let shown = bench.watch.view().hash.unwrap();
        bench.write("[[[");
        bench.look().await;
        assert_eq!(bench.watch.accept(&shown), Err(ConfigConflict::NothingPending));
        assert!(!bench.watch.view().problems.is_empty());
    }

    #[tokio::test]
    async fn a_server_that_was_taken_away_waits_when_it_is_back() {
        let mut bench = Bench::new(EVIL);
        bench.write("");
        bench.check(&expect!["now there are: "]).await;
        bench.write(EVIL);
        bench.check(&expect!["waiting: evil"]).await;
        assert!(bench.names().is_empty());
    }

    #[tokio::test]
    async fn a_reload_whose_agents_can_change_the_file_is_refused() {
        let mut bench = Bench::new(FILES);
        let cwd = bench.directory.path().to_str().unwrap().to_owned();
        bench.write(&format!("[profiles.codex]\ncwd = {cwd:?}\nsandbox = \"workspace-write\"\n"));
        let said = bench.look().await.said.join("\n");
        assert!(said.contains("the configuration file"), "{said}");
        assert_eq!(bench.names(), ["files"], "tool servers stay as they are");
    }

    #[tokio::test]
    async fn a_file_that_a_link_leads_into_the_workspace_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        for name in ["work", "config"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        let work = place.path().join("work");
        let boundaries = |path: &Path| {
            let text = format!("[profiles.codex]\ncwd = {work:?}\nsandbox = \"workspace-write\"\n");
            let config = crate::config::tests::resolved(&text).config;
            Boundaries::with_temporary(&config, Some(path), &[])
        };
        let path = place.path().join("config/switchboard.toml");
        fs::write(&path, "").unwrap();
        let resolved = load(Some(&path), Vec::new()).unwrap();
        let mut watch =
            Watch { boundaries: Arc::new(boundaries(&path)), ..Watch::new(Some(&path), Vec::new(), &resolved) };
        fs::write(work.join("theirs.toml"), FILES).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(work.join("theirs.toml"), &path).unwrap();
        watch.look().await;
        let said = watch.look().await.said.join("\n");
        assert!(said.contains("the configuration file"), "{said}");
        assert!(watch.pending.is_none() && watch.servers.is_empty());
    }
}

#[tokio::test]
async fn a_file_with_problems_changes_nothing_and_each_is_said_once() {
    let mut bench = Bench::new(FILES);
    bench.write("[tools.files]\ncomand = [\"files\"]\n");
    bench
        .check(&expect![[r#"
        DIR/switchboard.toml cannot be used as it is now: tool servers stay as they are
        DIR/switchboard.toml:2: the tool server "files" has neither `command` nor `url`: give it one
        DIR/switchboard.toml:2: unknown key `comand` in [tools.NAME]: did you mean `command`?"#]])
        .await;
    bench.check(&expect![""]).await;
    bench.write("[tools.files]\ncomand = [\"files\"]\nprefix = \"!\"\n");
    bench
        .check(&expect![[
            r#"DIR/switchboard.toml:3: `prefix`: expected at most 32 letters, digits, "_" and "-", found "!""#
        ]])
        .await;
    bench.write("[tools.files\n");
    bench.check(&expect!["DIR/switchboard.toml:1: unclosed table, expected `]`"]).await;
    bench.write(&format!("\n{FILES}"));
    bench.check(&expect![""]).await;
}

#[tokio::test]
async fn a_file_that_is_gone_changes_nothing_until_it_is_back() {
    let mut bench = Bench::new(FILES);
    fs::remove_file(bench.watch.path.as_ref().unwrap()).unwrap();
    bench
        .check(&expect![[r#"
        DIR/switchboard.toml cannot be used as it is now: tool servers stay as they are
        it cannot be read: entity not found"#]])
        .await;
    bench.check(&expect![""]).await;
    bench.write(FILES);
    bench.check(&expect![""]).await;
    bench.write("");
    bench.check(&expect!["now there are: "]).await;
}

#[tokio::test]
async fn a_file_system_that_hangs_is_given_up_and_tried_again() {
    let mut bench = Bench::new(FILES);
    let path = bench.watch.path.clone().unwrap();
    fs::remove_file(&path).unwrap();
    // It can be looked at, but whoever opens it waits for a writer.
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    bench.watch.files.timeout = Duration::from_millis(100);
    let said = async |bench: &mut Bench| bench.watch.look().await.said.join("\n");
    let mut found = String::new();
    while found.is_empty() {
        found = said(&mut bench).await;
    }
    assert!(found.ends_with("it cannot be read: timed out"), "{found}");
    assert_eq!(said(&mut bench).await, "", "it is said once");
    assert_eq!(bench.names(), ["files"], "tool servers stay as they are");
    // The one thread that waits ends with its writer.
    // For both, which never waits for the other end.
    fs::File::options().read(true).write(true).open(&path).unwrap();
    bench.watch.files.timeout = READ_TIMEOUT;
    bench.write("");
    let mut news = News::default();
    while news.servers.is_none() {
        news = bench.watch.look().await;
    }
    assert!(bench.names().is_empty());
}

#[tokio::test]
async fn other_keys_are_said_to_count_after_a_restart() {
    let mut bench = Bench::new("key = \"sb_1\"\n[[workers]]\nname = \"a\"\n[[workers]]\nname = \"b\"\n");
    let rest = "[limits]\nqueue_max = 7\n[[workers]]\nname = \"a\"\n";
    bench.write(&format!("key = \"sb_2\"\nlisten = \"127.0.0.1:1\"\n{rest}[[workers]]\nname = \"b\"\ncount = 2\n"));
    bench
        .check(&expect![
            "changed in the configuration file, but only for the next start: key, [[workers]] count, [limits] queue_max"
        ])
        .await;
    bench.write(&format!("key = \"sb_2\"\n{rest}[[workers]]\nname = \"b\"\ncount = 2\n{FILES}"));
    bench.check(&expect!["waiting: files"]).await;
    bench.write(&format!("key = \"sb_1\"\n{rest}[[workers]]\nname = \"b\"\n{FILES}"));
    bench
        .check(&expect![[r#"
        changed in the configuration file, but only for the next start: [limits] queue_max
        waiting: files"#]])
        .await;
}

#[tokio::test]
async fn a_change_in_what_is_not_shown_is_noticed() {
    let webhook = |query: &str| format!("[approvals]\nwebhook = \"https://sample/?{query}\"\n");
    let mut bench = Bench::new(&webhook("a"));
    bench.write(&webhook("b"));
    bench.check(&expect!["changed in the configuration file, but only for the next start: [approvals] webhook"]).await;
}

#[tokio::test]
async fn what_looks_like_a_mistake_is_said() {
    let mut bench = Bench::new(FILES);
    bench.write(&format!("{FILES}env = [\"NO_SUCH_VARIABLE_OF_OURS\"]\n"));
    // The variable that is not there changes nothing.
    bench
        .check(&expect!["DIR/switchboard.toml:3: NO_SUCH_VARIABLE_OF_OURS: there is no such variable to pass on"])
        .await;
}

#[tokio::test]
async fn whoever_waits_is_told() {
    let mut bench = Bench::new(FILES);
    bench.watch.interval = Duration::from_millis(1);
    bench.write("");
    let servers = tokio::time::timeout(Duration::from_secs(60), bench.watch.changed()).await.unwrap();
    assert_eq!(servers, []);
}
