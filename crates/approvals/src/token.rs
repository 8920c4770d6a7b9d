//! The signed tokens in decision links: each gives one verdict on one approval as it was shown, until it expires. Its
//! number is written down with the decision that it makes, so it works once.

use std::io;
use std::path::Path;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use store::SECRET_BYTES;

use crate::shown::hex;
use crate::stamp::Stamp;
use crate::verdict::Verdict;

/// The secret that signs decision links. Links outlive a restart only if it does.
#[derive(Clone)]
pub struct LinkKey(hmac::Key);

impl LinkKey {
    /// A new one, for this process alone.
    ///
    /// # Panics
    /// If the system has no random numbers to give.
    #[must_use]
    pub fn generate() -> Self {
        Self::of(&random::<SECRET_BYTES>())
    }

    /// The one in a file, which is made for its owner alone if it is not there.
    pub fn load_or_create(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&store::load_or_create_secret(path, "key of decision links")?))
    }

    fn of(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The text of a token.
    pub(crate) fn sign(&self, grant: &Token) -> String {
        let body = grant.body();
        format!("{body}.{}", hex(hmac::sign(&self.0, body.as_bytes()).as_ref()))
    }

    /// What the text of a token grants, if it is one of ours and still holds.
    pub(crate) fn verify(&self, text: &str, now: Stamp) -> Result<Token, TokenError> {
        let (body, signature) = text.rsplit_once('.').ok_or(TokenError::Invalid)?;
        let signature = unhex(signature).ok_or(TokenError::Invalid)?;
        hmac::verify(&self.0, body.as_bytes(), &signature).map_err(|_| TokenError::Invalid)?;
        let token = Token::parse(body).ok_or(TokenError::Invalid)?;
        if token.expires <= now { Err(TokenError::Expired) } else { Ok(token) }
    }
}

/// What one decision link grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) approval: String,
    pub(crate) shown_hash: String,
    pub(crate) verdict: LinkVerdict,
    pub(crate) expires: Stamp,
    /// Its number, unlike any other's.
    pub(crate) nonce: String,
}

/// What a link may say: nothing that outlives the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkVerdict {
    Allow,
    Deny,
    Cancel,
}

impl LinkVerdict {
    pub(crate) const ALL: [Self; 3] = [Self::Allow, Self::Deny, Self::Cancel];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Cancel => "cancel",
        }
    }

    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::Allow => Verdict::Allow,
            Self::Deny => Verdict::deny("denied by a decision link"),
            Self::Cancel => Verdict::Cancel,
        }
    }
}

/// Why a token grants nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is none of ours, or was changed.
    #[error("the decision link is not valid: take it whole from the message it came in")]
    Invalid,
    /// Its time is over.
    #[error("the decision link has expired")]
    Expired,
    /// It was used before.
    #[error("the decision link was used before: it works once")]
    Used,
}

impl Token {
    pub(crate) fn new(approval: &str, shown_hash: &str, verdict: LinkVerdict, expires: Stamp) -> Self {
        let nonce = hex(&random::<16>());
        Self { approval: approval.into(), shown_hash: shown_hash.into(), verdict, expires, nonce }
    }

    fn body(&self) -> String {
        let Self { approval, shown_hash, verdict, expires, nonce } = self;
        format!("1.{approval}.{shown_hash}.{}.{}.{nonce}", verdict.name(), expires.0)
    }

    fn parse(body: &str) -> Option<Self> {
        let ["1", approval, shown_hash, verdict, expires, nonce] = body.split('.').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(Self {
            approval: approval.into(),
            shown_hash: shown_hash.into(),
            verdict: LinkVerdict::ALL.into_iter().find(|known| known.name() == verdict)?,
            expires: Stamp(expires.parse().ok()?),
            nonce: nonce.into(),
        })
    }
}

fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    bytes
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_grants_what_was_signed_until_it_expires() {
        let key = LinkKey::generate();
        let token = Token::new("id-1", "abcd", LinkVerdict::Deny, Stamp(1000));
        let text = key.sign(&token);
        assert_eq!(key.verify(&text, Stamp(999)), Ok(token.clone()));
        assert_eq!(key.verify(&text, Stamp(1000)), Err(TokenError::Expired));
        assert_ne!(Token::new("id-1", "abcd", LinkVerdict::Deny, Stamp(1000)).nonce, token.nonce);
    }

    #[test]
    fn nothing_of_a_token_can_be_changed() {
        let key = LinkKey::generate();
        let text = key.sign(&Token::new("id-1", "abcd", LinkVerdict::Deny, Stamp(1000)));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(key.verify(&changed, Stamp(0)), Err(TokenError::Invalid), "{changed}");
        }
        for other in ["", ".", "1.2.3", &text[1..], &text[..text.len() - 1], &text.replace("deny", "allow")] {
            assert_eq!(key.verify(other, Stamp(0)), Err(TokenError::Invalid), "{other}");
        }
        assert_eq!(LinkKey::generate().verify(&text, Stamp(0)), Err(TokenError::Invalid));
    }

    #[test]
    fn a_kept_key_is_the_same_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.key");
        let text = LinkKey::load_or_create(&path).unwrap().sign(&Token::new("a", "b", LinkVerdict::Allow, Stamp(9)));
        assert!(LinkKey::load_or_create(&path).unwrap().verify(&text, Stamp(0)).is_ok());
        std::fs::write(&path, "short").unwrap();
        let why = LinkKey::load_or_create(&path).err().unwrap().to_string();
        assert!(why.contains("is no key of decision links: remove it"), "{why}");
    }
}
