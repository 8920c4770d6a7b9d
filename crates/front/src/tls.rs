//! TLS for callers: the certificate and the key of the configuration, which are read again when their files change.
//! Files that cannot be used any more change nothing: the last good pair stays.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// What every connection speaks once it is encrypted.
const ALPN: &[u8] = b"http/1.1";

/// The permissions of others than the owner and the group of a file.
const OTHERS: u32 = 0o007;

/// Where certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that it is signed by, in PEM form.
    pub certificate: PathBuf,
    /// Its private key, in PEM form.
    pub key: PathBuf,
}

/// What tells one state of a file from another: when it changed, and its inode.
type FileStamp = (i64, i64, u64);

/// Certificate and key, ready to be used.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    /// The state of the files when they were read.
    loaded: [Option<FileStamp>; 2],
    current: Arc<CurrentCertificate>,
    acceptor: TlsAcceptor,
}

/// Why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, or may not be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Everybody may read the key.
    #[error("{} holds a private key that every user of this machine can use: `chmod 600` it", .0.display())]
    Exposed(PathBuf),
    /// There is no certificate in the file.
    #[error("{} holds no certificate in PEM form (BEGIN CERTIFICATE)", .0.display())]
    NoCertificate(PathBuf),
    /// There is no key in the file.
    #[error("{} holds no private key in PEM form (BEGIN PRIVATE KEY)", .0.display())]
    NoKey(PathBuf),
    /// They are of different pairs.
    #[error("the key in {} does not belong to the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// They are of a kind that is not supported, or damaged.
    #[error("the certificate in {} or its key cannot be used: {reason}", certificate.display())]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Tls {
    /// Reads certificate and key.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        // Before the files are read: what changes meanwhile is read again.
        let loaded = files.stamps();
        let current = Arc::new(CurrentCertificate(RwLock::new(files.read(&provider)?)));
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config
            .map_err(|error| files.unusable(&error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<CurrentCertificate>::clone(&current));
        config.alpn_protocols = vec![ALPN.into()];
        Ok(Self { files, loaded, current, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Reloads certificate and key when their files change. Never returns.
    pub(crate) async fn follow(&self) {
        let mut seen = self.loaded;
        loop {
            sleep(LOOK_INTERVAL).await;
            let stamps = self.files.stamps();
            if stamps != seen {
                seen = stamps;
                self.reload().await;
            }
        }
    }

    async fn reload(&self) {
        let files = self.files.clone();
        let read = spawn_blocking(move || files.read(&ring::default_provider())).await;
        match read {
            Ok(Ok(certificate)) => {
                self.current.replace(certificate);
                tracing::info!("certificate reloaded");
            }
            Ok(Err(error)) => tracing::warn!(%error, "certificate not reloaded; the one before stays in use"),
            Err(_) => tracing::warn!("certificate not reloaded; the one before stays in use"),
        }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }
}

impl TlsFiles {
    fn read(&self, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
        let Self { certificate, key } = self;
        let mode = fs::metadata(key).map_err(|error| unreadable(key, error))?.permissions().mode();
        if mode & OTHERS != 0 {
            return Err(TlsError::Exposed(key.clone()));
        }
        let text = fs::read(certificate).map_err(|error| unreadable(certificate, error))?;
        let chain: Result<Vec<CertificateDer<'static>>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| TlsError::NoCertificate(certificate.clone()))?;
        let text = fs::read(key).map_err(|error| unreadable(key, error))?;
        let private = PrivateKeyDer::from_pem_slice(&text).map_err(|_| TlsError::NoKey(key.clone()))?;
        let pair = CertifiedKey::from_der(chain, private, provider);
        pair.map(Arc::new).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: certificate.clone(), key: key.clone() }
            }
            error => self.unusable(&error),
        })
    }

    fn unusable(&self, error: &rustls::Error) -> TlsError {
        TlsError::Unusable { certificate: self.certificate.clone(), reason: error.to_string() }
    }

    fn stamps(&self) -> [Option<FileStamp>; 2] {
        // The time of the last change of any kind: also of the mode, which may have been what was wrong.
        let stamp = |metadata: fs::Metadata| (metadata.ctime(), metadata.ctime_nsec(), metadata.ino());
        [&self.certificate, &self.key].map(|path| fs::metadata(path).ok().map(stamp))
    }
}

fn unreadable(path: &Path, error: io::Error) -> TlsError {
    TlsError::Unreadable { path: path.into(), error }
}

/// The certificate that new connections are shown.
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl CurrentCertificate {
    fn replace(&self, certificate: Arc<CertifiedKey>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = certificate;
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl fmt::Debug for CurrentCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CurrentCertificate(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use expect_test::{Expect, expect};
    use rcgen::CertifiedKey;

    use super::{Tls, TlsFiles};

    /// Writes a new pair for this host.
    fn write(directory: &Path, host: &str) -> TlsFiles {
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
        let files =
            TlsFiles { certificate: directory.join(format!("{host}.pem")), key: directory.join(format!("{host}.key")) };
        fs::write(&files.certificate, cert.pem()).unwrap();
        fs::write(&files.key, signing_key.serialize_pem()).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
        files
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let check = |files: TlsFiles, expected: &Expect| {
            let why = Tls::load(files).err().expect("it cannot be used").to_string();
            expected.assert_eq(&why.replace(path.to_str().unwrap(), "DIR"));
        };
        let (one, other) = (write(path, "one"), write(path, "other"));
        assert!(Tls::load(one.clone()).is_ok());
        let missing = || path.join("missing");
        check(
            TlsFiles { certificate: missing(), ..one.clone() },
            &expect!["DIR/missing cannot be read: No such file or directory (os error 2)"],
        );
        check(
            TlsFiles { key: missing(), ..one.clone() },
            &expect!["DIR/missing cannot be read: No such file or directory (os error 2)"],
        );
        check(
            TlsFiles { certificate: one.key.clone(), ..one.clone() },
            &expect!["DIR/one.key holds no certificate in PEM form (BEGIN CERTIFICATE)"],
        );
        let not_a_key = path.join("not-a.key");
        fs::write(&not_a_key, "hello").unwrap();
        fs::set_permissions(&not_a_key, fs::Permissions::from_mode(0o600)).unwrap();
        check(
            TlsFiles { key: not_a_key, ..one.clone() },
            &expect!["DIR/not-a.key holds no private key in PEM form (BEGIN PRIVATE KEY)"],
        );
        check(
            TlsFiles { key: other.key.clone(), ..one.clone() },
            &expect!["the key in DIR/other.key does not belong to the certificate in DIR/one.pem"],
        );
        fs::set_permissions(&one.key, fs::Permissions::from_mode(0o644)).unwrap();
        check(one, &expect!["DIR/one.key holds a private key that every user of this machine can use: `chmod 600` it"]);
    }

    #[tokio::test]
    async fn other_files_are_taken_up_and_unusable_ones_change_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let files = write(directory.path(), "one");
        let tls = Tls::load(files.clone()).unwrap();
        let shown = || tls.current.0.read().unwrap().cert[0].clone();
        let (first, before) = (shown(), files.stamps());
        let other = write(directory.path(), "other");
        fs::rename(&other.certificate, &files.certificate).unwrap();
        assert_ne!(files.stamps(), before);
        tls.reload().await;
        assert_eq!(shown(), first, "the key of the other is not there yet");
        fs::rename(&other.key, &files.key).unwrap();
        tls.reload().await;
        assert_ne!(shown(), first);
    }
}
