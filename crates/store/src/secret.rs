//! Secrets that grant a right: random texts, of which only the SHA-256 is ever written down. Keys, the tokens of workers and
//! decision links are all made and recognised here.

use std::fmt;

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq as _;

/// The SHA-256 of a secret. The time that a comparison takes does not depend on where two of them differ.
#[derive(Clone, Copy, Eq)]
pub struct SecretHash([u8; SHA256_OUTPUT_LEN]);

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system provides no random numbers, so that no secret can be created")]
pub struct NoRandomness;

/// So many random bytes, in hexadecimal digits.
///
/// # Errors
/// [`NoRandomness`].
pub fn random_hex<const BYTES: usize>() -> Result<String, NoRandomness> {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(HEXLOWER.encode(&bytes))
}

impl SecretHash {
    /// The hash of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
        Self(hash)
    }

    /// As it is written down.
    #[must_use]
    pub fn to_hex(self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// The hash that [`to_hex`](Self::to_hex) wrote.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok().map(Self)
    }
}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::{SecretHash, random_hex};

    #[test]
    fn a_hash_is_read_back_and_nothing_else_is() {
        let hash = SecretHash::of("secret");
        assert_eq!(SecretHash::from_hex(&hash.to_hex()), Some(hash));
        assert_ne!(SecretHash::of("other"), hash);
        let upper = hash.to_hex().to_uppercase();
        for text in ["", "00", &upper, &"zz".repeat(32), &"é".repeat(32), &"0".repeat(66)] {
            assert!(SecretHash::from_hex(text).is_none(), "{text}");
        }
    }

    #[test]
    fn random_texts_differ() {
        let [one, other] = [(); 2].map(|()| random_hex::<32>().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 64);
    }
}
