//! Office documents with a password (MS-OFFCRYPTO): a container of the old kind, with the encrypted package and how it is
//! encrypted. Agile encryption is that of Office since 2010, standard encryption that of 2007.

use std::io::{Cursor, Read};

use aes::cipher::{BlockCipherDecrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256, Block};
use cfb::CompoundFile;
use mail_parser::decoders::base64::base64_decode;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use crate::Problem;
use crate::kind::{OLD_OFFICE, binary};
use crate::package::xml::{self, Piece};

/// How containers of the old kind begin.
pub(crate) const CONTAINER: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
/// Parts of the container.
const INFO: &str = "EncryptionInfo";
pub(crate) const PACKAGE: &str = "EncryptedPackage";
/// Largest description, in bytes.
const MAX_INFO: u64 = 1 << 20;
/// How often the password may be hashed, by the specification.
pub(super) const MAX_SPINS: u32 = 10_000_000;
/// How often standard encryption hashes it.
const STANDARD_SPINS: u32 = 50_000;
pub(super) const BLOCK: usize = 16;
/// Bytes that agile encryption encrypts together.
const SEGMENT: usize = 4096;
/// What keys are made for.
const FOR_INPUT: [u8; 8] = [0xfe, 0xa7, 0xd2, 0x76, 0x3b, 0x4b, 0x9e, 0x79];
const FOR_HASH: [u8; 8] = [0xd7, 0xaa, 0x0f, 0x6d, 0x30, 0x61, 0x34, 0x4e];
const FOR_KEY: [u8; 8] = [0x14, 0x6e, 0x0b, 0xe7, 0xab, 0xac, 0xd0, 0xd6];

/// Whether bytes are a container of the old kind.
pub(crate) fn is_container(bytes: &[u8]) -> bool {
    bytes.starts_with(CONTAINER)
}

/// The package of a document that is encrypted.
///
/// # Errors
/// There is no password, it is wrong, or the document is damaged, not encrypted, or encrypted in another way.
pub(crate) fn decrypt(bytes: &[u8], password: Option<&str>) -> Result<Vec<u8>, Problem> {
    let damaged = |error: std::io::Error| Problem::Damaged { what: error.to_string() };
    let container = CompoundFile::open(Cursor::new(bytes));
    if container.as_ref().is_ok_and(|container| !container.is_stream(INFO)) {
        return Err(binary(OLD_OFFICE));
    }
    let password = password.ok_or(Problem::Encrypted)?;
    let mut container = container.map_err(damaged)?;
    let mut info = Vec::new();
    container.open_stream(INFO).map_err(damaged)?.take(MAX_INFO).read_to_end(&mut info).map_err(damaged)?;
    let mut package = Vec::new();
    // No stream is longer than the container.
    let limit = bytes.len() as u64;
    container
        .open_stream(PACKAGE)
        .map_err(damaged)?
        .take(limit)
        .read_to_end(&mut package)
        .map_err(damaged)?;
    let password: Vec<u8> = password.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut info = Fields(&info);
    let (major, minor) = (info.u16()?, info.u16()?);
    let (size, data) = package.split_at_checked(8).ok_or_else(too_short)?;
    let size = Fields(size).u64()?;
    let mut plain = match (major, minor) {
        (4, 4) => agile(&Agile::read(info.after(4)?)?, &password, data)?,
        (2..=4, 2) => standard(info, &password, data)?,
        _ => return Err(Problem::UnknownEncryption),
    };
    plain.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    Ok(plain)
}

/// Numbers in little-endian order.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self, count: usize) -> Result<u64, Problem> {
        Ok(self.bytes(count)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn u16(&mut self) -> Result<u16, Problem> {
        Ok(self.number(2)? as u16)
    }

    fn u32(&mut self) -> Result<u32, Problem> {
        Ok(self.number(4)? as u32)
    }

    fn u64(&mut self) -> Result<u64, Problem> {
        self.number(8)
    }

    /// What is left behind so many bytes.
    fn after(mut self, count: usize) -> Result<&'a [u8], Problem> {
        self.bytes(count)?;
        Ok(self.0)
    }
}

fn too_short() -> Problem {
    Problem::Damaged { what: format!("{INFO} or {PACKAGE} is too short") }
}

#[derive(Clone, Copy, Debug)]
enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    fn named(name: &str) -> Result<Hash, Problem> {
        match name {
            "SHA1" | "SHA-1" => Ok(Hash::Sha1),
            "SHA256" => Ok(Hash::Sha256),
            "SHA384" => Ok(Hash::Sha384),
            "SHA512" => Ok(Hash::Sha512),
            _ => Err(Problem::UnknownEncryption),
        }
    }

    fn of(self, parts: &[&[u8]]) -> Vec<u8> {
        fn hash<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
            let mut hash = D::new();
            parts.iter().for_each(|part| hash.update(part));
            hash.finalize().to_vec()
        }
        match self {
            Hash::Sha1 => hash::<Sha1>(parts),
            Hash::Sha256 => hash::<Sha256>(parts),
            Hash::Sha384 => hash::<Sha384>(parts),
            Hash::Sha512 => hash::<Sha512>(parts),
        }
    }

    /// The hash of a password, so often that guessing takes long.
    fn of_password(self, salt: &[u8], password: &[u8], spins: u32) -> Vec<u8> {
        let first = self.of(&[salt, password]);
        (0..spins).fold(first, |hash, i| self.of(&[&i.to_le_bytes(), &hash]))
    }
}

/// Decrypts whole blocks, each for itself or, with the vector before the first, in a chain.
pub(super) fn aes(key: &[u8], vector: Option<&[u8]>, data: &[u8]) -> Result<Vec<u8>, Problem> {
    fn blocks<C: BlockCipherDecrypt<BlockSize = aes::cipher::consts::U16> + KeyInit>(
        key: &[u8],
        vector: Option<&[u8]>,
        data: &[u8],
    ) -> Option<Vec<u8>> {
        let cipher = C::new_from_slice(key).ok()?;
        let mut plain = Vec::with_capacity(data.len());
        let mut before = vector;
        for chunk in data.chunks_exact(BLOCK) {
            let mut block = Block::try_from(chunk).ok()?;
            cipher.decrypt_block(&mut block);
            if let Some(before) = before {
                block.iter_mut().zip(before).for_each(|(byte, before)| *byte ^= before);
            }
            plain.extend(&block[..]);
            before = before.map(|_| chunk);
        }
        Some(plain)
    }
    let plain = match key.len() {
        16 => blocks::<Aes128>(key, vector, data),
        24 => blocks::<Aes192>(key, vector, data),
        32 => blocks::<Aes256>(key, vector, data),
        _ => None,
    };
    plain.ok_or(Problem::UnknownEncryption)
}

/// Bytes of this length: cut, or filled.
fn of_length(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    bytes.resize(length, 0x36);
    bytes
}

/// How agile encryption encrypts the package, or the key of the package.
#[derive(Debug)]
struct Method {
    salt: Vec<u8>,
    key_bytes: usize,
    hash: Hash,
}

/// The description of agile encryption.
#[derive(Debug)]
struct Agile {
    package: Method,
    key: Method,
    spins: u32,
    verifier: Vec<u8>,
    verifier_hash: Vec<u8>,
    encrypted_key: Vec<u8>,
}

impl Agile {
    fn read(info: &[u8]) -> Result<Agile, Problem> {
        let (mut package, mut agile) = (None, None);
        let text = String::from_utf8_lossy(info);
        xml::read(INFO, text.trim_end_matches('\0'), |piece| {
            let Piece::Start(element) = piece else { return Ok(()) };
            let text = |name: &str| element.attribute(name).unwrap_or_default();
            let bytes = |name: &str| base64_decode(text(name).as_bytes()).ok_or(Problem::UnknownEncryption);
            let method = || {
                if text("cipherAlgorithm") != "AES" || text("cipherChaining") != "ChainingModeCBC" {
                    return Err(Problem::UnknownEncryption);
                }
                let key_bytes = match text("keyBits").as_str() {
                    "128" => 16,
                    "192" => 24,
                    "256" => 32,
                    _ => return Err(Problem::UnknownEncryption),
                };
                Ok(Method {
                    salt: bytes("saltValue")?,
                    key_bytes,
                    hash: Hash::named(&text("hashAlgorithm"))?,
                })
            };
            match element.name.as_str() {
                "keyData" => package = Some(method()?),
                // Other keys are for certificates.
                "encryptedKey" if !text("spinCount").is_empty() => {
                    agile = Some((
                        method()?,
                        text("spinCount").parse().ok().filter(|spins| *spins <= MAX_SPINS),
                        bytes("encryptedVerifierHashInput")?,
                        bytes("encryptedVerifierHashValue")?,
                        bytes("encryptedKeyValue")?,
                    ));
                }
                _ => {}
            }
            Ok(())
        })?;
        let (Some(package), Some((key, Some(spins), verifier, verifier_hash, encrypted_key))) =
            (package, agile)
        else {
            return Err(Problem::UnknownEncryption);
        };
        Ok(Agile { package, key, spins, verifier, verifier_hash, encrypted_key })
    }
}

fn agile(info: &Agile, password: &[u8], data: &[u8]) -> Result<Vec<u8>, Problem> {
    let (key, hash) = (&info.key, info.key.hash);
    let hashed = hash.of_password(&key.salt, password, info.spins);
    let vector = of_length(key.salt.clone(), BLOCK);
    let open = |purpose: &[u8], data: &[u8]| {
        aes(&of_length(hash.of(&[&hashed, purpose]), key.key_bytes), Some(&vector), data)
    };
    let verifier = hash.of(&[&open(&FOR_INPUT, &info.verifier)?[..]]);
    if !open(&FOR_HASH, &info.verifier_hash)?.starts_with(&verifier) {
        return Err(Problem::WrongPassword);
    }
    let package_key = of_length(open(&FOR_KEY, &info.encrypted_key)?, info.package.key_bytes);
    let mut plain = Vec::with_capacity(data.len());
    for (i, segment) in data.chunks(SEGMENT).enumerate() {
        let vector = info.package.hash.of(&[&info.package.salt, &(i as u32).to_le_bytes()]);
        plain.extend(aes(&package_key, Some(&of_length(vector, BLOCK)), segment)?);
    }
    Ok(plain)
}

fn standard(mut info: Fields, password: &[u8], data: &[u8]) -> Result<Vec<u8>, Problem> {
    let _flags = info.u32()?;
    let header_bytes = info.u32()? as usize;
    let mut header = Fields(info.bytes(header_bytes)?);
    header.bytes(8)?; // flags and a reserved number
    let (algorithm, hash) = (header.u32()?, header.u32()?);
    let key_bytes = header.u32()? as usize / 8;
    // AES with keys of 128, 192 and 256 bits; SHA-1 or what the algorithm says, which is that.
    if !matches!(algorithm, 0x660e..=0x6610)
        || !matches!(hash, 0 | 0x8004)
        || !matches!(key_bytes, 16 | 24 | 32)
    {
        return Err(Problem::UnknownEncryption);
    }
    let salt_bytes = info.u32()? as usize;
    let salt = info.bytes(salt_bytes)?;
    let verifier = info.bytes(BLOCK)?;
    let _hash_bytes = info.u32()?;
    let verifier_hash = info.bytes(2 * BLOCK)?;
    let hash = Hash::Sha1;
    let hashed = hash.of(&[&hash.of_password(salt, password, STANDARD_SPINS), &[0; 4]]);
    let half = |fill: u8| {
        let mut filled = [fill; 64];
        filled.iter_mut().zip(&hashed).for_each(|(byte, hashed)| *byte ^= hashed);
        hash.of(&[&filled])
    };
    let key = [half(0x36), half(0x5c)].concat();
    let key = &key[..key_bytes];
    if !aes(key, None, verifier_hash)?.starts_with(&hash.of(&[&aes(key, None, verifier)?[..]])) {
        return Err(Problem::WrongPassword);
    }
    aes(key, None, data)
}
