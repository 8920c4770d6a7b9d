//! Text in, text out: what was typed, and what it means or what is wrong with it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use expect_test::{Expect, expect, expect_file};
use workers::Profile;

use super::{File, Flag, Resolved, Typed, resolve};

mod tools;

const HOME: &str = "/home/dev";
/// Every section once, so that every key is read.
const EVERY_SECTION: &str = "[[approvals.rules]]\nthen = \"ask\"\n\
                             [[approvals.hooks]]\nname = \"a\"\ncommand = [\"a\"]\n\
                             [tools.files]\ncommand = [\"a\"]\n";

fn typed(file: &str, variables: &[(&str, &str)], flags: &[(&'static str, &'static str, &str)]) -> Typed {
    let variables = [("HOME", HOME)].iter().chain(variables);
    Typed {
        file: Some(File { path: "switchboard.toml".into(), text: file.into() }),
        variables: variables.map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        flags: flags.iter().map(|&(name, key, value)| Flag { name, key, value: value.into() }).collect(),
        cwd: PathBuf::from(HOME).join("project"),
    }
}

pub(super) fn resolved(file: &str) -> Resolved {
    resolve(&typed(file, &[], &[])).map_err(|problems| problems.to_string()).unwrap()
}

fn check_problems(file: &str, expected: &Expect) {
    let problems = resolve(&typed(file, &[], &[])).err().map(|problems| problems.to_string());
    expected.assert_eq(&(problems.unwrap_or_else(|| "no problem".into()) + "\n"));
}

#[test]
fn without_a_file_there_are_defaults() {
    expect![[r##"
        # What is configured; the comment after each value says where it comes from.
        listen = "127.0.0.1:4180"                # default
        allow_clear_text = false                 # default
        hosts = []                               # default
        cors_origins = []                        # default
        state_dir = "/home/dev/.local/state/switchboard" # default
        # key                                    # not set
        drain_grace = "30s"                      # default

        [tls]
        # certificate                            # not set
        # key                                    # not set

        [[workers]]
        name = "main"                            # default
        command = "codex"                        # default
        transport = "stdio"                      # default
        count = 1                                # default
        codex_home = "/home/dev/.codex"          # default
        cwd = "/home/dev/project"                # default
        # user                                   # not set
        env = []                                 # default
        tools = true                             # default
        turns_max = 64                           # default
        threads_loaded_max = 256                 # default
        # open_files_max                         # not set
        # processes_max                          # not set
        # memory_bytes_max                       # not set

        [profiles.codex]
        # workers                                # not set
        cwd = "/home/dev/project"                # default
        sandbox = "read-only"                    # default
        approval_policy = "on-request"           # default
        # model                                  # not set
        # effort                                 # not set
        # decision_timeout                       # not set
        plain = false                            # default
        show_work = true                         # default
        readable = []                            # default
        trusted_projects = []                    # default
        network = false                          # default
        allow_unconfined = false                 # default

        [profiles.codex-plain]
        # workers                                # not set
        cwd = "/home/dev/project"                # default
        sandbox = "read-only"                    # default
        approval_policy = "on-request"           # default
        # model                                  # not set
        # effort                                 # not set
        # decision_timeout                       # not set
        plain = true                             # default
        show_work = true                         # default
        readable = []                            # default
        trusted_projects = []                    # default
        network = false                          # default
        allow_unconfined = false                 # default

        [approvals]
        deadline = "10m"                         # default
        # webhook                                # not set
        # webhook_authorization                  # not set
        public_url = "http://127.0.0.1:4180"     # default

        [limits]
        connections_max = 16384                  # default
        header_timeout = "10s"                   # default
        write_timeout = "30s"                    # default
        response_grace = "10s"                   # default
        body_bytes_max = "16MiB"                 # default
        body_timeout = "30s"                     # default
        memory_bytes_max = "1GiB"                # default
        turns_finished_max = 1024                # default
        turns_finished_bytes_max = "64MiB"       # default
        turn_bytes_max = "1MiB"                  # default
        websocket_age_max = "1h"                 # default
        websocket_idle_timeout = "15m"           # default
        response_events_bytes_max = "8MiB"       # default
        responses_finished_max = 256             # default
        responses_finished_bytes_max = "64MiB"   # default
        conversation_responses_max = 1000        # default
        conversation_bytes_max = "64MiB"         # default
        references_max = 1000                    # default
        references_bytes_max = "32MiB"           # default
        queue_max = 256                          # default
        queue_timeout = "1m"                     # default
        stall_timeout = "10m"                    # default
        interrupt_timeout = "10s"                # default
        ping_timeout = "5s"                      # default
        retire_timeout = "1m"                    # default
        tool_call_timeout = "1h"                 # default
        parked_max = 256                         # default
        thread_idle_max = "30d"                  # default
        listen_timeout = "20s"                   # default
        settle_timeout = "2s"                    # default
        frames_bytes_max = "256KiB"              # default
        approvals_pending_max = 10000            # default
        approval_bytes_max = "4MiB"              # default
        hooks_running_max = 16                   # default
        hook_output_bytes_max = "1MiB"           # default
        webhook_timeout = "10s"                  # default
        tools_starting_max = 4                   # default
        tools_line_bytes_max = "16MiB"           # default
        tools_calls_max = 64                     # default
        tools_call_max = "1h"                    # default
        tools_listed_max = 1024                  # default
        tools_listed_bytes_max = "16MiB"         # default
        tools_page_max = 1000                    # default
        tools_parked_max = 256                   # default
        tools_input_timeout = "10m"              # default
        tools_input_rounds_max = 10              # default
        tools_listeners_max = 4096               # default
        tools_caller_idle_max = "10m"            # default
        tools_frames_bytes_max = "256KiB"        # default
        store_waiting_bytes_max = "64MiB"        # default
        store_delay = "200ms"                    # default
        store_readers_max = 4                    # default

        [retention]
        approvals = "90d"                        # default
        audit = "365d"                           # default
        responses = "30d"                        # default
        responses_bytes_max = "4GiB"             # default
        tool_calls = "30d"                       # default
        usage = "366d"                           # default
        tool_audit = "90d"                       # default
        threads = "90d"                          # default

        [log]
        level = "info"                           # default
        format = "auto"                          # default
    "##]]
    .assert_eq(&resolved("").print());
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let file = "listen = \"127.0.0.1:1\"\n[[workers]]\nname = \"big-one\"\ncount = 2\nturns_max = 3\n[log]\nlevel = \"warn\"\n";
    let variables = [
        ("SWITCHBOARD_LISTEN", "127.0.0.1:2"),
        ("SWITCHBOARD_WORKERS_BIG_ONE_COUNT", "4"),
        ("SWITCHBOARD_WORKERS_BIG_ONE_COMMAND", "codex"),
        ("SWITCHBOARD_PROFILES_CODEX_MODEL", "gpt-x"),
        ("SWITCHBOARD_LOG", "debug"),
        ("SWITCHBOARD_STATE_DIR", "state"),
        ("SWITCHBOARD_DRAIN_GRACE", ""),
        ("CODEX_HOME", "/srv/codex"),
    ];
    let flags = [("--listen", "listen", "127.0.0.1:3"), ("--worker", "workers.first.command", "./codex")];
    let printed = resolve(&typed(file, &variables, &flags)).map_err(|problems| problems.to_string()).unwrap().print();
    let told: Vec<&str> =
        printed.lines().filter(|line| !line.ends_with("default") && !line.ends_with("not set")).collect();
    expect![[r##"
        # What is configured; the comment after each value says where it comes from.
        listen = "127.0.0.1:3"                   # --listen
        state_dir = "/home/dev/project/state"    # SWITCHBOARD_STATE_DIR

        [tls]

        [[workers]]
        name = "big-one"                         # switchboard.toml:3
        command = "/home/dev/project/codex"      # --worker
        count = 4                                # SWITCHBOARD_WORKERS_BIG_ONE_COUNT
        codex_home = "/srv/codex"                # CODEX_HOME
        turns_max = 3                            # switchboard.toml:5

        [profiles.codex]
        model = "gpt-x"                          # SWITCHBOARD_PROFILES_CODEX_MODEL

        [profiles.codex-plain]

        [approvals]

        [limits]

        [retention]

        [log]
        level = "debug"                          # SWITCHBOARD_LOG
    "##]]
    .assert_eq(&(told.join("\n") + "\n"));
}

#[test]
fn paths_begin_where_they_are_written() {
    let file = File {
        path: "/etc/switchboard.toml".into(),
        text: "state_dir = \"state/./x\"\n[[workers]]\ncodex_home = \"~\"\ncommand = \"bin/codex\"\ncwd = \"~/x\"\n\
               [profiles.codex]\nreadable = [\"~/books\", \"sub\"]\n"
            .into(),
    };
    let typed = Typed { file: Some(file), ..typed("", &[("SWITCHBOARD_PROFILES_CODEX_CWD", "sub")], &[]) };
    let config = resolve(&typed).map_err(|problems| problems.to_string()).unwrap().config;
    let group = &config.groups[0];
    let seen = [&config.state_dir, group.codex_home.as_ref().unwrap(), &group.cwd].map(|path| path.to_str().unwrap());
    assert_eq!(config.profiles[0].cwd.as_deref(), Some("/home/dev/project/sub"));
    assert_eq!(seen, ["/etc/state/x", "/home/dev", "/home/dev/x"]);
    assert_eq!(config.profiles[0].readable, ["/home/dev/books", "/etc/sub"].map(PathBuf::from));
    assert_eq!(group.command.to_string(), "/etc/bin/codex");
}

#[test]
fn the_built_in_profiles_come_first_whatever_others_are_called() {
    let others = "[profiles.another]\nmodel = \"x\"\n";
    for file in [others.to_owned(), format!("{others}[profiles.codex]\neffort = \"high\"\n")] {
        let profiles: [Profile; 3] = resolved(&file).config.profiles.try_into().unwrap();
        let names = profiles.each_ref().map(|profile| &*profile.name);
        assert_eq!(names, ["codex", "codex-plain", "another"]);
        assert_eq!(profiles.map(|profile| profile.is_plain), [false, true, false]);
    }
}

#[test]
fn every_problem_is_told_with_its_line_and_the_nearest_key() {
    check_problems(
        "\
listn = \"127.0.0.1:1\"
count = 3
drain_grace = 30
frobnicate = true

[[workers]]
name = \"main\"
cuont = 2
turns_max = \"many\"
codex_homee = \"~/.codex\"
transport = \"sdtio\"

[[workers]]
name = \"main\"
count = 0

[profiles.codex]
workers = \"mian\"
sandbox = \"readonly\"
approval_policy = \"sometimes\"

[approvals]
deadline = \"soon\"

[[approvals.rules]]
kind = \"comand\"
comand = [\"git\"]

[limit]
queue_max = -1

[log]
level = \"inof\"

[tools.files]
command = [\"files\"]
",
        &expect![[r#"
            switchboard.toml:1: unknown key `listn` at the top: did you mean `listen`?
            switchboard.toml:2: unknown key `count` at the top: it belongs in [[workers]]
            switchboard.toml:3: `drain_grace`: expected a duration such as "500ms", "30s" or "10m", from 0s to 1d, found 30
            switchboard.toml:4: unknown key `frobnicate` at the top: there are listen, allow_clear_text, hosts, cors_origins, state_dir, key, drain_grace, tls, workers, profiles, approvals, tools, limits, retention, log
            switchboard.toml:8: unknown key `cuont` in [[workers]]: did you mean `count`?
            switchboard.toml:9: `turns_max`: expected a whole number from 1 to 100000, found "many"
            switchboard.toml:10: unknown key `codex_homee` in [[workers]]: did you mean `codex_home`?
            switchboard.toml:11: `transport`: expected "stdio", "unix", "ws://" with a host of this machine and its port, or "wss://HOST", found "sdtio"; did you mean "stdio"?
            switchboard.toml:14: two groups are called "main": give each a `name` of its own
            switchboard.toml:15: `count`: expected a whole number from 1 to 64, found 0
            switchboard.toml:18: `workers`: no group is called "mian": did you mean "main"?
            switchboard.toml:19: `sandbox`: expected "read-only", "workspace-write" or "danger-full-access", found "readonly"; did you mean "read-only"?
            switchboard.toml:20: `approval_policy`: expected "untrusted", "on-request" or "never", found "sometimes"
            switchboard.toml:23: `deadline`: expected a duration such as "500ms", "30s" or "10m", from 1s to 7d, found "soon"
            switchboard.toml:26: `kind`: expected "command", "file_change", "permissions" or "tool_confirmation", found "comand"; did you mean "command"?
            switchboard.toml:27: `then` is missing in [[approvals.rules]]: expected "allow", "deny" or "ask"
            switchboard.toml:27: unknown key `comand` in [[approvals.rules]]: did you mean `command`?
            switchboard.toml:29: unknown key `limit` at the top: did you mean `limits`?
            switchboard.toml:33: `level`: expected a level (error, warn, info, debug, trace), or levels such as "info,workers=debug", found "inof"; did you mean "info"?
        "#]],
    );
}

#[test]
fn tables_of_the_wrong_shape_are_told_how_to_be_written() {
    for (file, expected) in [
        (
            "workers = 3\n",
            expect![[r#"
            switchboard.toml:1: there may be several: write [[workers]] above each
        "#]],
        ),
        (
            "[workers]\ncount = 1\n",
            expect![[r#"
            switchboard.toml:1: there may be several: write [[workers]] above each
        "#]],
        ),
        (
            "workers = [1]\n",
            expect![[r#"
            switchboard.toml:1: there may be several: write [[workers]] above each
        "#]],
        ),
        (
            "limits = true\n",
            expect![[r#"
            switchboard.toml:1: `limits` is a table: write [limits], not true
        "#]],
        ),
        (
            "[profiles]\ncwd = \".\"\n",
            expect![[r#"
            switchboard.toml:2: `cwd` is no key of [profiles]: it holds tables, [profiles.NAME]
        "#]],
        ),
        (
            "[approvals.rules]\nthen = \"ask\"\n",
            expect![[r#"
            switchboard.toml:1: there may be several: write [[approvals.rules]] above each
        "#]],
        ),
        (
            "[[approvals.rules]]\nkind = \"command\"\n",
            expect![[r#"
                switchboard.toml:2: `then` is missing in [[approvals.rules]]: expected "allow", "deny" or "ask"
            "#]],
        ),
    ] {
        check_problems(file, &expected);
    }
}

#[test]
fn values_of_the_wrong_kind_are_told_what_was_expected() {
    for (file, expected) in [
        (
            "listen = \"4180\"\n",
            expect![[r#"
            switchboard.toml:1: `listen`: expected an address such as "127.0.0.1:4180", found "4180"
        "#]],
        ),
        (
            "listen = 4180\n",
            expect![[r#"
            switchboard.toml:1: `listen`: expected an address such as "127.0.0.1:4180", found 4180
        "#]],
        ),
        (
            "state_dir = \"\"\n",
            expect![[r#"
            switchboard.toml:1: `state_dir`: expected a path, found ""
        "#]],
        ),
        (
            "key = \"\"\n",
            expect![[r#"
                switchboard.toml:1: `key`: expected a text, found something else
            "#]],
        ),
        (
            "cors_origins = [\"https://app.example.com/\"]\n",
            expect![[r#"
            switchboard.toml:1: `cors_origins`: expected a list of origins such as ["https://app.example.com"], without a path or the usual port, found a list of something else
        "#]],
        ),
        (
            "hosts = [\"a\", 1]\n",
            expect![[r#"
                switchboard.toml:1: `hosts`: expected a list of texts such as ["gateway.example.com"], found a list of something else
            "#]],
        ),
        (
            "[[workers]]\nname = \"Main Group\"\n",
            expect![[r#"
            switchboard.toml:2: `name`: expected a name of small letters, digits and "-", found "Main Group"
        "#]],
        ),
        (
            "[[workers]]\ncount = 1.5\n",
            expect![[r#"
            switchboard.toml:2: `count`: expected a whole number from 1 to 64, found 1.5
        "#]],
        ),
        (
            "[[workers]]\ntransport = \"ws://example.com:1\"\n",
            expect![[r#"
            switchboard.toml:2: `transport`: expected "stdio", "unix", "ws://" with a host of this machine and its port, or "wss://HOST", found "ws://example.com:1"
        "#]],
        ),
        (
            "[[workers]]\nmemory_bytes_max = \"4 potatoes\"\n",
            expect![[r#"
                switchboard.toml:2: `memory_bytes_max`: expected a size such as 4096, "64KiB" or "4MiB", from 1MiB to 1024TiB, found "4 potatoes"
            "#]],
        ),
        (
            "[approvals]\nwebhook = \"ftp://example.com\"\n",
            expect![[r#"
            switchboard.toml:2: `webhook`: expected an address such as "https://example.com/approvals", found "ftp://example.com"
        "#]],
        ),
        (
            "[approvals]\ndeadline = 1979-05-27\n",
            expect![[r#"
                switchboard.toml:2: `deadline`: expected a duration such as "500ms", "30s" or "10m", from 1s to 7d, found 1979-05-27
            "#]],
        ),
        (
            "[limits]\nheader_timeout = \"1ms\"\n",
            expect![[r#"
                no problem
            "#]],
        ),
    ] {
        check_problems(file, &expected);
    }
}

#[test]
fn a_text_that_is_no_toml_is_refused_with_every_line() {
    check_problems(
        "listen = \nstate_dir = \"x\n[log\n",
        &expect![[r#"
            switchboard.toml:1: string values must be quoted, expected literal string
            switchboard.toml:2: invalid basic string, expected `"`
            switchboard.toml:3: unclosed table, expected `]`
        "#]],
    );
    check_problems(
        "listen = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n",
        &expect![[r#"
        switchboard.toml:2: duplicate key
    "#]],
    );
}

#[test]
fn wrong_variables_and_flags_are_named() {
    let variables = [("SWITCHBOARD_LISTEN", "here"), ("SWITCHBOARD_LIMITS_QUEUE_MAX", "many")];
    let flags = [("--log", "log.level", "loud")];
    let problems = resolve(&typed("", &variables, &flags)).err().unwrap().to_string();
    expect![[r#"
        SWITCHBOARD_LIMITS_QUEUE_MAX: expected a whole number from 0 to 100000, found "many"
        SWITCHBOARD_LISTEN: expected an address such as "127.0.0.1:4180", found "here"
        --log: expected a level (error, warn, info, debug, trace), or levels such as "info,workers=debug", found "loud"
    "#]]
    .assert_eq(&(problems + "\n"));
}

mod adversary {
    use super::*;

    const TLS: &str = "[tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n";

    fn refusal(text: &str) -> String {
        resolved(text).may_serve().map_or_else(|problems| problems.to_string(), |()| String::new())
    }

    #[test]
    fn other_machines_connect_with_tls_or_where_clear_text_is_allowed() {
        expect![[r#"switchboard.toml:1: `listen` = "0.0.0.0:4180" lets other machines connect, and keys would travel in clear text: name a certificate and its key in [tls], or set allow_clear_text = true if a proxy or a tunnel before it encrypts"#]].assert_eq(&refusal("listen = \"0.0.0.0:4180\""));
        for address in ["0.0.0.0:4180", "192.0.2.1:4180", "[::]:4180", "[::ffff:192.0.2.1]:4180"] {
            let listen = format!("listen = \"{address}\"\n");
            assert!(refusal(&listen).contains("in clear text"), "{address}");
            assert_eq!(refusal(&format!("{listen}{TLS}")), "");
            assert_eq!(refusal(&format!("{listen}allow_clear_text = true")), "");
        }
        for address in ["127.0.0.1:4180", "127.9.9.9:0", "[::1]:4180", "[::ffff:127.0.0.1]:4180"] {
            assert_eq!(refusal(&format!("listen = \"{address}\"")), "", "{address}");
        }
        let allowed = resolved("listen = \"0.0.0.0:4180\"\nallow_clear_text = true").config;
        expect!["keys and prompts travel to 0.0.0.0:4180 in clear text"].assert_eq(&allowed.clear_text().unwrap());
        assert_eq!(resolved(&format!("listen = \"0.0.0.0:4180\"\n{TLS}")).config.clear_text(), None);
    }

    #[test]
    fn a_key_that_can_be_guessed_keeps_a_server_from_starting_and_no_command() {
        let short = [("SWITCHBOARD_KEY", "a")];
        let mut resolved = resolve(&typed("", &short, &[])).map_err(|problems| problems.to_string()).unwrap();
        expect!["SWITCHBOARD_KEY: `key` has fewer than 32 characters and could be guessed: choose a random one, such as `openssl rand -hex 32` prints"].assert_eq(&resolved.may_serve().unwrap_err().to_string());
        assert!(refusal(&format!("key = \"{}\"", "x".repeat(31))).contains("fewer than 32"));
        assert_eq!(refusal(&format!("key = \"{}\"", "x".repeat(32))), "");
    }

    #[test]
    fn half_of_tls_is_a_mistake() {
        check_problems(
            "[tls]\ncertificate = \"cert.pem\"\n",
            &expect![[r#"
            switchboard.toml:2: [tls] needs both `certificate` and `key`
        "#]],
        );
    }
}

#[test]
fn a_variable_that_sets_nothing_is_warned_of() {
    let variables = [("SWITCHBOARD_LISTN", "x"), ("SWITCHBOARD_OWNER", "x"), ("SWITCHBOARD_WORKERS_MIAN_COUNT", "2")];
    let warnings = resolve(&typed("", &variables, &[])).map_err(|problems| problems.to_string()).unwrap().warnings;
    expect![[r#"
        SWITCHBOARD_LISTN sets nothing: did you mean SWITCHBOARD_LISTEN?
        SWITCHBOARD_WORKERS_MIAN_COUNT sets nothing: did you mean SWITCHBOARD_WORKERS_MAIN_COUNT?
    "#]]
    .assert_eq(&(warnings.join("\n") + "\n"));
}

#[test]
fn not_even_a_complaint_repeats_a_secret() {
    check_problems(
        "key = 123456\n\
         [tools.files]\ncommand = [\"a\"]\nvariables = { A = 123456 }\n\
         [tools.web]\nurl = \"https://canary@sample\"\nheaders = { A = \"canary\\n\" }\n\
         [tools.typo]\nurl = \"htps://canary:canary@sample/mcp?token=canary\"\n",
        &expect![[r#"
            switchboard.toml:1: `key`: expected a text, found something else
            switchboard.toml:4: `variables`: expected a table of texts such as { LANG = "C.UTF-8" }, found something else
            switchboard.toml:6: `url` carries credentials: give them in `headers`
            switchboard.toml:7: `headers`: expected a table of texts such as { Authorization = "Bearer …" }, found something else
            switchboard.toml:9: `url`: expected an address such as "https://example.com/mcp", found "htps://…@sample/mcp?…"
        "#]],
    );
}

#[test]
fn without_a_home_a_state_directory_is_wanted() {
    let mut homeless = typed("", &[], &[]);
    homeless.variables.clear();
    expect![[r#"
        `state_dir` is ~/.local/state/switchboard by default, but HOME is not set: set one of the two
    "#]]
    .assert_eq(&(resolve(&homeless).err().unwrap().to_string() + "\n"));
    homeless.variables = BTreeMap::from([("SWITCHBOARD_STATE_DIR".into(), "state".into())]);
    assert!(resolve(&homeless).is_ok());
}

#[test]
fn what_is_printed_can_be_read_again_and_means_the_same() {
    let example = include_str!("../../../../switchboard.example.toml");
    for file in ["", EVERY_SECTION, example] {
        let first = resolved(file);
        let second = resolved(&first.print());
        assert_eq!(format!("{:?}", first.config), format!("{:?}", second.config));
    }
}

#[test]
fn secrets_are_neither_printed_nor_shown() {
    let variables = [("SWITCHBOARD_KEY", "canary-1"), ("TOKEN", "canary-3")];
    let file = "[approvals]\nwebhook_authorization = \"canary-2\"\n\
                [tools.files]\ncommand = [\"a\"]\nenv = [\"TOKEN\"]\nvariables = { A = \"canary-4\" }\n\
                [tools.web]\nurl = \"https://sample\"\nheaders = { A = \"canary-5\" }\n";
    let resolved = resolve(&typed(file, &variables, &[])).map_err(|problems| problems.to_string()).unwrap();
    assert_eq!(resolved.config.key.as_ref().unwrap().reveal(), "canary-1");
    let shown = format!("{}{:?}", resolved.print(), resolved.config);
    assert!(!shown.contains("canary"), "{shown}");
    for name in ["key", "webhook_authorization", "variables", "headers"] {
        assert!(shown.contains(&format!("# {name} is hidden")), "{shown}");
    }
}

#[test]
fn of_an_address_with_a_query_only_the_rest_is_printed() {
    let file = "[approvals]\nwebhook = \"https://sample/hook?canary\"\n\
                [tools.web]\nurl = \"https://sample/mcp?token=canary&a=canary\"\n";
    let printed = resolved(file).print();
    assert!(!printed.contains("canary"), "{printed}");
    for line in [
        r#"# webhook is hidden in part: "https://sample/hook?…""#,
        r#"# url is hidden in part: "https://sample/mcp?…""#,
    ] {
        assert!(printed.contains(line), "{printed}");
    }
}

/// A key that can be set without any effect would be a lie.
#[test]
fn every_key_changes_what_is_meant() {
    let samples = [
        "\"127.0.0.1:9\"",
        "\"sample\"",
        "17",
        "\"17s\"",
        "\"17KiB\"",
        "[\"sample\"]",
        "\"wss://sample\"",
        "\"unix\"",
        "\"never\"",
        "\"https://sample\"",
        "\"workspace-write\"",
        "\"debug\"",
        "\"json\"",
        "\"deny\"",
        "\"command\"",
        "\"main\"",
        "\"2MiB\"",
        "\"32MiB\"",
        "[\"permissions\"]",
        "[\"https://sample\"]",
        "[\"HOME\"]",
        "{ A = \"sample\" }",
        "\"localcowork\"",
        "true",
        "false",
    ];
    for section in resolved(EVERY_SECTION).sections {
        for key in section.keys {
            let header = section.header.as_str();
            let others = match (header, key.name) {
                ("[[approvals.rules]]", name) if name != "then" => {
                    "then = \"ask\"
"
                }
                ("[[approvals.hooks]]", "name") => {
                    "command = [\"a\"]
"
                }
                ("[[approvals.hooks]]", "command") => {
                    "name = \"a\"
"
                }
                ("[[approvals.hooks]]", _) => {
                    "name = \"a\"
command = [\"a\"]
"
                }
                ("[approvals]", "webhook_authorization" | "public_url") => "webhook = \"https://sample\"\n",
                ("[tls]", "certificate") => "key = \"key.pem\"\n",
                ("[tls]", "key") => "certificate = \"cert.pem\"\n",
                ("[tools.files]", "command" | "url") => "",
                ("[tools.files]", "headers") => "url = \"https://sample\"\n",
                ("[tools.files]", _) => "command = [\"a\"]\n",
                _ => "",
            };
            let is_there_already = EVERY_SECTION.contains(header) && !header.is_empty();
            let more = if is_there_already { "" } else { EVERY_SECTION };
            let means = |text: String| {
                let config = resolve(&typed(&text, &[], &[])).ok()?.config;
                // What is shown of a tool server leaves out what can be a secret.
                Some((format!("{config:?}"), config.tools))
            };
            let before = means(format!("{header}\n{others}{more}"));
            let after = |sample: &&str| means(format!("{header}\n{others}{} = {sample}\n{more}", key.name));
            let has_effect = samples.iter().filter_map(after).any(|after| Some(after) != before);
            assert!(has_effect, "{header} {}", key.name);
        }
    }
}

#[test]
fn the_documentation_lists_every_key() {
    expect_file!["../../../../docs/configuration.md"].assert_eq(&documentation());
}

#[test]
fn the_example_changes_nothing() {
    let example = include_str!("../../../../switchboard.example.toml");
    assert_eq!(format!("{:?}", resolved(example).config), format!("{:?}", resolved("").config));
}

#[test]
fn the_example_shows_every_section_and_is_right() {
    let example = include_str!("../../../../switchboard.example.toml");
    let is_of_toml =
        |line: &str| line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    let whole: String = example
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|line| is_of_toml(line)).unwrap_or(line).to_owned() + "\n")
        .collect();
    let sections = resolved(&whole).sections;
    let patterns = [
        "[tls]",
        "[[workers]]",
        "[profiles.NAME]",
        "[approvals]",
        "[[approvals.rules]]",
        "[[approvals.hooks]]",
        "[tools.NAME]",
        "[limits]",
        "[retention]",
        "[log]",
    ];
    for pattern in patterns {
        assert!(sections.iter().any(|section| section.pattern == pattern), "{pattern}");
    }
    for key in sections.iter().flat_map(|section| &section.keys) {
        assert!(example.contains(key.name), "{} is missing", key.name);
    }
}

fn documentation() -> String {
    let mut text = include_str!("introduction.md").to_owned();
    let mut sections = resolved(EVERY_SECTION).sections;
    // One of those that are alike stands for all.
    sections.dedup_by_key(|section| section.pattern);
    for section in sections {
        let heading = if section.pattern.is_empty() { "At the top" } else { &format!("`{}`", section.pattern) };
        text.push_str(&format!("\n## {heading}\n\n| key | value | default | variable |\n|---|---|---|---|\n"));
        for key in section.keys {
            let default = key.default.map_or("–".into(), |default| of_any(&shortened(&default), section.pattern));
            let variable = key.variable.map_or("–".into(), |name| format!("`{}`", of_any(&name, section.pattern)));
            let expected = key.expected.replace('|', "\\|");
            text.push_str(&format!("| `{}` | {}<br>{expected} | {default} | {variable} |\n", key.name, key.help));
        }
    }
    text
}

fn shortened(default: &str) -> String {
    format!("`{default}`").replace(&format!("{HOME}/project"), ".").replace(HOME, "~")
}

/// The same for any group, profile or tool server.
fn of_any(text: &str, pattern: &str) -> String {
    match pattern {
        "[[workers]]" => text.replace("_WORKERS_MAIN_", "_WORKERS_NAME_"),
        "[profiles.NAME]" => text.replace("_PROFILES_CODEX_", "_PROFILES_NAME_"),
        "[tools.NAME]" => text.replace("_TOOLS_FILES_", "_TOOLS_NAME_").replace("\"files\"", "NAME"),
        _ => text.into(),
    }
}
