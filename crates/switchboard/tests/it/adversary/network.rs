//! What travels over the network, and who may listen: HTTPS with a certificate of the configuration, and no keys in clear
//! text.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::HANG_TIMEOUT;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::command::{Ended, Run, State};
use crate::tools_served::{KEY, table};

/// A server that speaks TLS.
struct Secured<'a> {
    state: &'a State,
    run: Run,
    address: SocketAddr,
    certificate: PathBuf,
    client: Arc<ClientConfig>,
}

impl<'a> Secured<'a> {
    /// With this besides in its configuration.
    fn start(state: &'a State, arguments: &[&str], configuration: &str) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()]).unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| state.path().join(name));
        fs::write(&certificate, cert.pem()).unwrap();
        fs::write(&key, signing_key.serialize_pem()).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        state.configure(&format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n{configuration}"));
        let all = [&["serve", "--json", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut run = state.run_with(&all, &[("SWITCHBOARD_KEY", KEY)]);
        let welcome = run.line();
        let welcome: Value = serde_json::from_str(&welcome).unwrap_or_else(|_| panic!("{welcome}{}", run.stderr_now()));
        let address = welcome["url"].as_str().unwrap().strip_prefix("https://").expect("it serves HTTPS");
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let mut client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".into(), b"http/1.1".into()];
        let address = address.parse().unwrap();
        let secured = Self { state, run, address, certificate, client: Arc::new(client) };
        let deadline = Instant::now() + HANG_TIMEOUT;
        while !secured.get("/readyz").starts_with("HTTP/1.1 200") {
            assert!(Instant::now() < deadline, "the workers become ready");
        }
        secured
    }

    fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// What is answered over TLS.
    fn get(&self, path: &str) -> String {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        let mut stream = StreamOwned::new(connection, self.connect());
        let answer = exchange(&mut stream, &format!("GET {path} HTTP/1.1\r\nx-api-key: {KEY}\r\n"), "");
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        answer
    }

    fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        self.state.run_with(arguments, variables).end_beside_others()
    }

    fn stop(self) {
        self.run.signal(Signal::TERM);
        assert_eq!(self.run.end().code(), Some(0));
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    stream
}

fn exchange(stream: &mut (impl Read + Write), head: &str, body: &str) -> String {
    let length = body.len();
    let text = format!("{head}host: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn callers_connect_over_https_and_the_command_line_proves_the_server() {
    let state = State::new();
    let server = Secured::start(&state, &["--worker", "demo"], "");
    assert!(server.get("/v1/models").starts_with("HTTP/1.1 200"));
    let url = format!("https://localhost:{}", server.address.port());
    let certificate = server.certificate.to_str().unwrap();
    let trusting = [("SWITCHBOARD_KEY", KEY), ("SSL_CERT_FILE", certificate)];
    let listed = server.command(&["workers", "--server", &url], &trusting);
    assert_eq!(listed.code(), Some(0), "{}", listed.stderr);
    let wrong_name = format!("https://127.0.0.2:{}", server.address.port());
    for (url, variables) in [(&url, &trusting[..1]), (&wrong_name, &trusting[..])] {
        let refused = server.command(&["workers", "--server", url], variables);
        assert_eq!(refused.code(), Some(1), "{}{}", refused.stdout, refused.stderr);
    }
    let here = server.command(&["workers"], &[]);
    assert_eq!(here.code(), Some(0), "the control socket needs no certificate: {}", here.stderr);
    server.stop();
}

#[test]
fn clear_text_to_a_server_elsewhere_is_refused() {
    let state = State::new();
    let variables = [("SWITCHBOARD_KEY", KEY)];
    let refused = state.run_with(&["workers", "--server", "http://192.0.2.1:4180"], &variables).end();
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("would send the key in clear text: use https://"), "{}", refused.stderr);
}

#[test]
fn clear_text_to_the_port_of_tls_is_closed_and_harms_nobody() {
    let state = State::new();
    let server = Secured::start(&state, &["--worker", "demo"], "");
    for _ in 0..3 {
        let mut stream = server.connect();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        // The server may reset the connection, because it has not read all of it.
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.windows(5).any(|part| part == b"HTTP/"), "{answer:?}");
    }
    assert!(server.get("/healthz").starts_with("HTTP/1.1 200"));
    server.stop();
}

#[test]
fn a_slow_handshake_delays_nobody_and_ends() {
    let state = State::new();
    let server = Secured::start(&state, &["--worker", "demo"], "[limits]\nheader_timeout = \"3s\"\n");
    let mut silent: Vec<TcpStream> = (0..100).map(|_| server.connect()).collect();
    // The beginning of a handshake, and no more.
    for stream in silent.iter_mut().take(50) {
        // On a slow machine the deadline of the first ones may be over.
        let _ = stream.write_all(&[22, 3, 1, 2, 0, 1]);
    }
    assert!(server.get("/healthz").starts_with("HTTP/1.1 200"));
    let mut byte = [0];
    let ended = silent[0].read(&mut byte);
    let is_closed = ended.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |bytes| *bytes == 0);
    assert!(is_closed, "it is closed after its deadline: {ended:?}");
    server.stop();
}

#[test]
fn a_server_that_would_take_keys_in_clear_text_does_not_start() {
    let state = State::new();
    let refused = state.run_with(&["serve", "--listen", "0.0.0.0:0", "--worker", "demo"], &[]).end();
    assert_eq!(refused.code(), Some(1));
    for remedy in ["--listen: ", "[tls]", "allow_clear_text = true"] {
        assert!(refused.stderr.contains(remedy), "{remedy}: {}", refused.stderr);
    }
    state.configure("listen = \"0.0.0.0:0\"\n");
    let doctor = state.run_with(&["doctor"], &[]).end();
    assert_eq!(doctor.code(), Some(1));
    assert!(doctor.stdout.contains("allow_clear_text = true"), "{}", doctor.stdout);
}

#[test]
fn a_key_that_can_be_guessed_keeps_a_server_from_starting() {
    let state = State::new();
    let refused = state.run_with(&["serve", "--listen", "127.0.0.1:0"], &[("SWITCHBOARD_KEY", "1234")]).end();
    assert_eq!(refused.code(), Some(1));
    for part in ["SWITCHBOARD_KEY: ", "openssl rand -hex 32"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert!(!refused.stderr.contains("1234"));
}

#[test]
fn a_certificate_that_cannot_be_used_keeps_a_server_from_starting() {
    let state = State::new();
    state.configure("[tls]\ncertificate = \"/nonexistent/cert.pem\"\nkey = \"/nonexistent/key.pem\"\n");
    let refused = state.run_with(&["serve", "--listen", "127.0.0.1:0", "--worker", "demo"], &[]).end();
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("/nonexistent/key.pem cannot be read"), "{}", refused.stderr);
}

#[test]
fn workers_call_tools_at_a_listener_of_their_own_beside_tls() {
    let state = State::new();
    let seen = state.path().join("seen");
    // A codex whose settings and token are written down.
    let worker = state.worker(
        &format!(
            "printf '%s\\n' \"$SWITCHBOARD_TOOLS_TOKEN\" \"$@\" > '{0}.new' && mv '{0}.new' '{0}'",
            seen.display()
        ),
        "",
    );
    let tools = table(&state, "shop", "dual", "");
    let server = Secured::start(&state, &["--worker", &worker], &tools);
    let seen = fs::read_to_string(&seen).unwrap();
    let token = seen.lines().next().unwrap();
    let url = seen.lines().find_map(|line| line.strip_prefix("mcp_servers.switchboard.url=\"")).expect("it has tools");
    let address: SocketAddr = url.strip_prefix("http://").unwrap().strip_suffix("/mcp\"").unwrap().parse().unwrap();
    assert!(address.ip().is_loopback() && address != server.address, "{address}");

    let greeting = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } },
    });
    let ask = |line: &str, key: &str, body: &str| {
        let head = format!(
            "{line} HTTP/1.1\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        );
        exchange(&mut connect(address), &head, body)
    };
    let greeted = ask("POST /mcp", token, &greeting.to_string());
    assert!(greeted.starts_with("HTTP/1.1 200"), "{greeted}");
    for (line, key, status) in [
        ("POST /mcp", KEY, "HTTP/1.1 403"),
        ("POST /mcp", "none", "HTTP/1.1 401"),
        ("GET /v1/models", KEY, "HTTP/1.1 404"),
        ("GET /api/workers", KEY, "HTTP/1.1 404"),
        ("GET /readyz", KEY, "HTTP/1.1 404"),
    ] {
        let answer = ask(line, key, if line.starts_with("POST") { "{}" } else { "" });
        assert!(answer.starts_with(status), "{line} with {key}: {answer}");
    }
    server.stop();
}
