//! Packages of OpenDocument with a password (OpenDocument 1.2, part 3, 4.8): each entry is packed and then encrypted with a
//! key of its own. What is read is AES-256 in a chain, as LibreOffice and OpenOffice have written it since 2010.

use std::collections::HashMap;

use mail_parser::decoders::base64::base64_decode;
use pbkdf2::pbkdf2_hmac;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::MANIFEST;
use crate::Problem;
use crate::office::encrypted::{BLOCK, MAX_SPINS, aes};
use crate::package::xml::{self, Element, Piece};

const CIPHER: &str = "http://www.w3.org/2001/04/xmlenc#aes256-cbc";
const DERIVATION: &str = "PBKDF2";
const KEY_BYTES: usize = 32;
/// The checksum is that of so many bytes.
const CHECKED: usize = 1024;
/// Entries that are encrypted.
const MAX_ENTRIES: usize = 100_000;
/// How often the password may be hashed for all entries. LibreOffice hashes it 100,000 times for each.
const MAX_ALL_SPINS: u32 = 4 * MAX_SPINS;

/// How an entry is encrypted.
#[derive(Debug, Default)]
struct Method {
    vector: Vec<u8>,
    salt: Vec<u8>,
    spins: u32,
    checksum: Vec<u8>,
    known: Known,
}

/// What of a method is done in the way that is known.
#[derive(Debug, Default)]
struct Known {
    checksum: bool,
    cipher: bool,
    key: bool,
    password: bool,
}

/// The entries of a package that are encrypted.
#[derive(Debug, Default)]
pub(super) struct Encrypted {
    entries: HashMap<String, Method>,
    /// The hash of the password.
    password: Option<[u8; KEY_BYTES]>,
    keys: Keys,
}

/// The keys that were made from the password, by salts and how often it was hashed.
#[derive(Debug, Default)]
struct Keys {
    known: HashMap<(Vec<u8>, u32), [u8; KEY_BYTES]>,
    spins: u32,
}

impl Keys {
    /// The key of an entry; `None` if too many keys take too long.
    fn get(&mut self, password: &[u8], method: &Method) -> Option<[u8; KEY_BYTES]> {
        let of = (method.salt.clone(), method.spins);
        if let Some(key) = self.known.get(&of) {
            return Some(*key);
        }
        let spins = self.spins.checked_add(method.spins).filter(|spins| *spins <= MAX_ALL_SPINS)?;
        self.spins = spins;
        let mut key = [0; KEY_BYTES];
        pbkdf2_hmac::<Sha1>(password, &method.salt, method.spins, &mut key);
        self.known.insert(of, key);
        Some(key)
    }
}

impl Encrypted {
    /// Those that a manifest names.
    ///
    /// # Errors
    /// The manifest is damaged, or there are such entries and no password, or they are encrypted in another way.
    pub(super) fn of(manifest: &str, password: Option<&str>) -> Result<Encrypted, Problem> {
        let (mut entries, mut name, mut method) = (HashMap::new(), String::new(), None::<Method>);
        xml::read(MANIFEST, manifest, |piece| {
            match piece {
                Piece::Start(element) => match (element.name.as_str(), &mut method) {
                    ("file-entry", _) => {
                        (name, method) = (element.attribute("full-path").unwrap_or_default(), None);
                    }
                    ("encryption-data", _) => {
                        method = Some(Method::default());
                        method.iter_mut().for_each(|method| method.set(&element));
                    }
                    (_, Some(method)) => method.set(&element),
                    _ => {}
                },
                Piece::End(end) if end == "file-entry" => {
                    let method = method.take().filter(|_| entries.len() < MAX_ENTRIES);
                    entries.extend(method.map(|method| (std::mem::take(&mut name), method)));
                }
                _ => {}
            }
            Ok(())
        })?;
        if !entries.values().all(Method::is_known) {
            return Err(Problem::UnknownEncryption);
        }
        if !entries.is_empty() && password.is_none() {
            return Err(Problem::Encrypted);
        }
        let password = password.map(|password| Sha256::digest(password.as_bytes()).into());
        Ok(Encrypted { entries, password, keys: Keys::default() })
    }

    /// The packed bytes of an entry that is encrypted; `None` for others.
    ///
    /// # Errors
    /// The password is wrong, or it would be hashed too often.
    pub(super) fn packed(&mut self, name: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, Problem> {
        let Some((method, password)) = self.entries.get(name).zip(self.password.as_ref()) else {
            return Ok(None);
        };
        let key = self.keys.get(password, method).ok_or(Problem::UnknownEncryption)?;
        let mut packed = aes(&key, Some(&method.vector), bytes)?;
        // The last byte says how many fill the last block.
        let filling = packed.last().copied().map_or(0, usize::from);
        packed.truncate(packed.len().saturating_sub(filling));
        match Sha256::digest(&packed[..packed.len().min(CHECKED)])[..] == method.checksum {
            true => Ok(Some(packed)),
            false => Err(Problem::WrongPassword),
        }
    }
}

impl Method {
    fn is_known(&self) -> bool {
        let Known { checksum, cipher, key, password } = self.known;
        checksum
            && cipher
            && key
            && password
            && self.vector.len() == BLOCK
            && (1..=MAX_SPINS).contains(&self.spins)
    }

    /// Takes a part of the description.
    fn set(&mut self, element: &Element) {
        let text = |name: &str| element.attribute(name).unwrap_or_default();
        let bytes = |name: &str| base64_decode(text(name).as_bytes()).unwrap_or_default();
        match element.name.as_str() {
            "encryption-data" => {
                self.checksum = bytes("checksum");
                self.known.checksum = text("checksum-type").to_ascii_lowercase().ends_with("#sha256-1k");
            }
            "algorithm" => {
                self.vector = bytes("initialisation-vector");
                self.known.cipher = text("algorithm-name") == CIPHER;
            }
            "key-derivation" => {
                self.salt = bytes("salt");
                self.spins = text("iteration-count").parse().unwrap_or(0);
                self.known.key = text("key-derivation-name") == DERIVATION
                    && element.attribute("key-size").is_some_and(|size| size == KEY_BYTES.to_string());
            }
            "start-key-generation" => {
                self.known.password =
                    text("start-key-generation-name").to_ascii_lowercase().ends_with("#sha256");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_many_end() {
        let of = |salt: &[u8], spins: u32| Method { salt: salt.to_vec(), spins, ..Method::default() };
        let mut keys = Keys::default();
        let first = keys.get(b"secret", &of(b"a", 1000)).expect("a key");
        assert_eq!((keys.get(b"secret", &of(b"a", 1000)), keys.spins), (Some(first), 1000));
        assert_ne!(keys.get(b"secret", &of(b"b", 1000)), Some(first));
        assert_ne!(keys.get(b"secret", &of(b"a", 1001)), Some(first));
        keys.spins = MAX_ALL_SPINS;
        assert_eq!(keys.get(b"secret", &of(b"c", 1)), None);
        assert_eq!(keys.get(b"secret", &of(b"a", 1000)), Some(first));
    }
}
