//! `[tools.NAME]`: what a tool server becomes of what was typed, and what is refused.

use expect_test::expect;
use tools::{Confirm, Dialect, Reach, Restart, Server};

use super::{check_problems, resolve, resolved, typed};

fn servers(file: &str, variables: &[(&str, &str)]) -> Vec<Server> {
    resolve(&typed(file, variables, &[])).map_err(|problems| problems.to_string()).unwrap().config.tools
}

#[test]
fn a_command_alone_makes_a_server_with_every_default() {
    let [server]: [Server; 1] = servers("[tools.files]\ncommand = [\"files\", \"--all\"]\n", &[]).try_into().unwrap();
    let reach = Reach::Process {
        command: vec!["files".into(), "--all".into()],
        env: Vec::new(),
        cwd: "/home/dev/project".into(),
        rlimits: supervise::Rlimits::default(),
    };
    assert_eq!(server, Server::new("files", reach));
}

#[test]
fn every_key_of_a_process_reaches_its_server() {
    let file = "\
[tools.files]
command = [\"files\"]
env = [\"TOKEN\", \"ABSENT\"]
variables = { LANG = \"C\", \"A.B\" = \"\" }
cwd = \"~/files\"
open_files_max = 17
processes_max = 18
memory_bytes_max = \"1GiB\"
enabled_tools = [\"read\"]
prefix = \"\"
restart = \"never\"
confirm = \"always\"
confirm_tools = [\"write\"]
result_bytes_max = \"2KiB\"
dialect = \"localcowork\"
spawn_timeout = \"1s\"
first_byte_timeout = \"2s\"
discover_timeout = \"3s\"
initialize_timeout = \"4s\"
list_timeout = \"5s\"
call_timeout = \"6s\"
";
    let resolved = resolve(&typed(file, &[("TOKEN", "t")], &[])).map_err(|problems| problems.to_string()).unwrap();
    expect!["switchboard.toml:3: ABSENT: there is no such variable to pass on"]
        .assert_eq(&resolved.warnings.join("\n"));
    let [server]: [Server; 1] = resolved.config.tools.try_into().unwrap();
    let Reach::Process { env, cwd, rlimits, .. } = &server.reach else { panic!("{server:?}") };
    let pairs = [("TOKEN", "t"), ("A.B", ""), ("LANG", "C")];
    assert_eq!(*env, pairs.map(|(name, value)| (name.into(), value.into())));
    assert_eq!(cwd.to_str(), Some("/home/dev/files"));
    let limits = (rlimits.open_files, rlimits.processes, rlimits.address_space_bytes);
    assert_eq!(limits, (Some(17), Some(18), Some(1 << 30)));
    assert_eq!((server.enabled, server.confirm_tools), (vec!["read".to_owned()], vec!["write".to_owned()]));
    assert_eq!((&*server.prefix, server.result_bytes_max), ("", 2048));
    let words = (server.restart, server.confirm, server.dialect);
    assert_eq!(words, (Restart::Never, Confirm::Always, Dialect::LocalCowork));
    let times = server.timeouts;
    let times = [times.spawn, times.first_byte, times.discover, times.initialize, times.list, times.call];
    assert_eq!(times.map(|time| time.as_secs()), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn servers_come_by_name_and_variables_reach_their_scalars() {
    let file = "[tools.web]\nurl = \"https://a.example/mcp?x=1\"\nheaders = { Authorization = \"Bearer x\" }\n\
                [tools.local-one]\nurl = \"http://[::1]:9/mcp\"\n";
    let servers = servers(file, &[("SWITCHBOARD_TOOLS_LOCAL_ONE_CALL_TIMEOUT", "17s")]);
    let [local, web]: [Server; 2] = servers.try_into().unwrap();
    assert_eq!((&*local.name, &*web.name, local.timeouts.call.as_secs()), ("local-one", "web", 17));
    let headers = vec![("Authorization".to_owned(), "Bearer x".to_owned())];
    assert_eq!(web.reach, Reach::Http { url: "https://a.example/mcp?x=1".into(), headers });
}

#[test]
fn what_is_printed_of_either_kind_can_be_read_again() {
    let file = "[tools.files]\ncommand = [\"a\"]\nprefix = \"\"\n[tools.web]\nurl = \"http://localhost/mcp\"\n";
    let first = resolved(file);
    let printed = first.print();
    assert_eq!(resolved(&printed).config.tools, first.config.tools);
    let web = printed.split_once("[tools.web]").unwrap().1.split_once("\n\n").unwrap().0;
    expect![[r##"
        # command                                # not set
        # env                                    # not set
        # variables                              # not set
        # cwd                                    # not set
        # open_files_max                         # not set
        # processes_max                          # not set
        # memory_bytes_max                       # not set
        url = "http://localhost/mcp"             # switchboard.toml:5
        # headers                                # not set
        enabled_tools = []                       # default
        prefix = "web"                           # default
        confirm = "marked"                       # default
        confirm_tools = []                       # default
        result_bytes_max = "1MiB"                # default
        restart = "always"                       # default
        dialect = "mcp"                          # default
        spawn_timeout = "10s"                    # default
        first_byte_timeout = "30s"               # default
        discover_timeout = "5s"                  # default
        initialize_timeout = "10s"               # default
        list_timeout = "15s"                     # default
        call_timeout = "2m"                      # default"##]]
    .assert_eq(web.trim());
}

#[test]
fn each_way_to_be_wrong_is_told() {
    check_problems(
        "\
[tools.neither]
prefix = \"x\"
[tools.both]
command = [\"a\"]
url = \"https://sample\"
[tools.empty]
command = []
[tools.Upper]
command = [\"a\"]
[tools.a-name-that-is-longer-than-any-tool]
command = [\"a\"]
[tools.strange]
command = [\"a\"]
headers = { A = \"b\" }
[tools.stranger]
url = \"https://sample\"
cwd = \".\"
env = []
[tools.twice]
command = [\"a\"]
env = [\"HOME\"]
variables = { HOME = \"/\" }
[tools.clear]
url = \"http://localhost.example.com/mcp\"
[tools.file]
url = \"file:///mcp\"
[tools.wrong]
comand = [\"a\"]
command = \"a\"
prefix = \"a b\"
restart = \"alway\"
confirm = true
dialect = \"mpc\"
result_bytes_max = 1
variables = [\"A\"]
",
        &expect![[r#"
            switchboard.toml:2: the tool server "neither" has neither `command` nor `url`: give it one
            switchboard.toml:5: `command` and `url`: a tool server has one of the two, remove the other
            switchboard.toml:7: `command` names no program
            switchboard.toml:9: no tool server can be called "Upper": expected small letters, digits and "-", at most 32
            switchboard.toml:11: no tool server can be called "a-name-that-is-longer-than-any-tool": expected small letters, digits and "-", at most 32
            switchboard.toml:14: `headers` goes with `url`: remove it
            switchboard.toml:17: `cwd` goes with `command`: remove it
            switchboard.toml:18: `env` goes with `command`: remove it
            switchboard.toml:21: HOME is in `env` and in `variables`: remove one
            switchboard.toml:24: `url` must be "https://", or "http://" to an address of this machine
            switchboard.toml:26: `url`: expected an address such as "https://example.com/mcp", found "file:///mcp"
            switchboard.toml:28: unknown key `comand` in [tools.NAME]: did you mean `command`?
            switchboard.toml:29: `command`: expected a list of texts such as ["npx", "-y", "@modelcontextprotocol/server-memory"], found "a"
            switchboard.toml:30: `prefix`: expected at most 32 letters, digits, "_" and "-", found "a b"
            switchboard.toml:31: `restart`: expected "always" or "never", found "alway"; did you mean "always"?
            switchboard.toml:32: `confirm`: expected "marked", "always" or "never", found true
            switchboard.toml:33: `dialect`: expected "mcp" or "localcowork", found "mpc"; did you mean "mcp"?
            switchboard.toml:34: `result_bytes_max`: expected a size such as 4096, "64KiB" or "4MiB", from 1KiB to 1GiB, found 1
            switchboard.toml:35: `variables`: expected a table of texts such as { LANG = "C.UTF-8" }, found something else
        "#]],
    );
    check_problems(
        "tools = 3\n",
        &expect![[r#"
        switchboard.toml:1: `tools` is a table: write [tools], not 3
    "#]],
    );
    check_problems(
        "[tools]\ncommand = [\"a\"]\n",
        &expect![[r#"
        switchboard.toml:2: `command` is no key of [tools]: it holds tables, [tools.NAME]
    "#]],
    );
}
