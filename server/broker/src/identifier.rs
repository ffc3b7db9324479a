//! The identifier that the printed examples use: made at the first start, kept in the data directory.
//!
//! It is a credential wherever tenants are told apart by it, so it is drawn from the system's randomness without
//! bias, and only its owner can read the file.

use crate::data_dir::DataDir;
use crate::failure::Failure;

const FILE: &str = "identifier";
const LENGTH: usize = 24;
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const LETTERS: usize = 26;

/// The kept identifier, or a new one.
///
/// # Errors
/// If the directory cannot be written, the file holds something else, or the system has no randomness.
pub fn load_or_make(data: &DataDir) -> anyhow::Result<String> {
    if let Some(text) = data.read(FILE)? {
        return Ok(checked(data, text.trim())?);
    }
    let identifier = generate()?;
    data.write(FILE, &format!("{identifier}\n"))?;
    Ok(identifier)
}

fn checked(data: &DataDir, text: &str) -> Result<String, Failure> {
    if is_identifier(text) {
        Ok(text.to_owned())
    } else {
        Err(data.damaged(
            FILE,
            "an identifier: a lowercase letter and 23 lowercase letters or digits",
        ))
    }
}

/// A lowercase letter, then 23 lowercase letters or digits.
pub fn is_identifier(text: &str) -> bool {
    text.len() == LENGTH
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// A new one, at random.
///
/// # Errors
/// If the system has no randomness.
pub fn generate() -> anyhow::Result<String> {
    let mut identifier = String::with_capacity(LENGTH);
    let mut random = [0; 64];
    while identifier.len() < LENGTH {
        getrandom::fill(&mut random)
            .map_err(|error| anyhow::anyhow!("the system has no randomness: {error}"))?;
        for byte in random {
            let choices = if identifier.is_empty() {
                LETTERS
            } else {
                ALPHABET.len()
            };
            // Bytes past the last whole multiple would make the first characters likelier than the others.
            let usable = 256 - 256 % choices;
            if usize::from(byte) < usable && identifier.len() < LENGTH {
                identifier.push(char::from(ALPHABET[usize::from(byte) % choices]));
            }
        }
    }
    Ok(identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_identifiers_are_valid_and_use_every_character() {
        let mut first = std::collections::BTreeSet::new();
        let mut rest = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let identifier = generate().unwrap();
            assert!(is_identifier(&identifier), "{identifier}");
            first.insert(identifier.as_bytes()[0]);
            rest.extend(identifier.bytes().skip(1));
        }
        assert_eq!(first.len(), LETTERS);
        assert_eq!(rest.len(), ALPHABET.len());
    }

    #[test]
    fn an_identifier_is_kept_and_a_damaged_one_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        let made = load_or_make(&data).unwrap();
        assert_eq!(load_or_make(&data).unwrap(), made);
        for damaged in ["", "guest", &"a".repeat(25), &made.to_uppercase()] {
            data.write(FILE, damaged).unwrap();
            assert!(load_or_make(&data).is_err(), "{damaged}");
        }
    }
}
