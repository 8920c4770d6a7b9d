//! Decision links: each carries a random token that gives one verdict on one approval as it was shown, until it expires.
//! Only the hash of a token is stored, so nobody who can read the store can use or make a link.

use store::{DecisionLink, NoRandomness, SecretHash, random_hex};

use crate::stamp::Stamp;
use crate::verdict::{Powers, Verdict};

/// How many random bytes a token has.
const TOKEN_BYTES: usize = 32;

/// What the holder of a link may do. The webhook is the operator's own, so its links may allow an escalation.
pub(crate) const LINK_POWERS: Powers = Powers { for_session: false, own_turns: true, operator: true };

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

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.name() == name)
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
    /// It is none of ours, or was replaced or removed.
    #[error("the decision link is not valid: take it whole from the latest message about this approval")]
    Invalid,
    /// Its time is over.
    #[error("the decision link has expired")]
    Expired,
    /// It was used before.
    #[error("the decision link was used before: it works once")]
    Used,
}

/// A new token, and the row that lets it decide.
///
/// # Errors
/// [`NoRandomness`].
pub(crate) fn create(
    approval: &str,
    shown_hash: &str,
    verdict: LinkVerdict,
    expires: Stamp,
) -> Result<(String, DecisionLink), NoRandomness> {
    let token = random_hex::<TOKEN_BYTES>()?;
    let row = DecisionLink {
        approval: approval.into(),
        verdict: verdict.name().into(),
        hash: SecretHash::of(&token).to_hex(),
        shown_hash: shown_hash.into(),
        expires_at: expires.0,
    };
    Ok((token, row))
}

/// The hash by which the store finds a token; `None` if the text cannot be a token.
pub(crate) fn lookup_hash(token: &str) -> Option<String> {
    let is_hex = token.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    (token.len() == 2 * TOKEN_BYTES && is_hex).then(|| SecretHash::of(token).to_hex())
}

/// What the link of a row gives, as long as it holds.
pub(crate) fn verdict_of(row: &DecisionLink, now: Stamp) -> Result<LinkVerdict, TokenError> {
    if row.expires_at <= now.0 {
        return Err(TokenError::Expired);
    }
    LinkVerdict::named(&row.verdict).ok_or(TokenError::Invalid)
}

#[cfg(test)]
mod adversary {
    use super::*;

    #[test]
    fn a_stored_link_does_not_contain_its_token() {
        let (token, row) = create("id-1", "abcd", LinkVerdict::Deny, Stamp(1000)).unwrap();
        assert_eq!(lookup_hash(&token), Some(row.hash.clone()));
        assert!(!format!("{row:?}").contains(&token));
        assert_ne!(lookup_hash(&row.hash), Some(row.hash.clone()), "the hash of a link is not a token");
        assert_ne!(create("id-1", "abcd", LinkVerdict::Deny, Stamp(1000)).unwrap().0, token);
    }

    #[test]
    fn a_changed_token_finds_nothing() {
        let (token, row) = create("id-1", "abcd", LinkVerdict::Allow, Stamp(1000)).unwrap();
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_ne!(lookup_hash(&changed), Some(row.hash.clone()), "{changed}");
        }
        for other in ["", ".", &token[1..], &token.to_uppercase(), &format!("{token}0"), &"é".repeat(32)] {
            let is_found = lookup_hash(other).is_some_and(|hash| hash == row.hash) && other != token;
            assert!(!is_found, "{other}");
        }
    }

    #[test]
    fn a_link_expires_at_the_deadline() {
        let (_, row) = create("id-1", "abcd", LinkVerdict::Deny, Stamp(1000)).unwrap();
        assert_eq!(verdict_of(&row, Stamp(999)), Ok(LinkVerdict::Deny));
        assert_eq!(verdict_of(&row, Stamp(1000)), Err(TokenError::Expired));
    }
}
