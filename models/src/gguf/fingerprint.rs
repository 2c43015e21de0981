//! Identifies a model by its content, so that what was kept for one model (head profiles, caches, sessions) is not used
//! with another one. It covers the metadata of the architecture and every byte of every tensor.
//!
//! The data of each tensor are hashed in pieces, by several threads. The fingerprint is the hash of what describes the
//! model and of the hashes of all pieces, in an order that does not depend on how the file was written or split. XXH3
//! finds accidents and edits. It is no protection against somebody who makes two files with the same fingerprint.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use twox_hash::XxHash3_128;

use super::{GgufFile, Value};

/// Bytes that are hashed at once. A part of what a fingerprint is: with another number all fingerprints are others.
const PIECE_BYTES: usize = 4 << 20;
/// What ends a fingerprint: the hash function.
const SUFFIX: &str = "-xxh3";
/// Hexadecimal digits of a hash.
const DIGITS: usize = 32;

/// Computes the fingerprint with up to `threads` threads, the caller's included. The caller's thread reports the bytes
/// hashed so far. `None` where `go_on` gives false.
pub(super) fn fingerprint(
    file: &GgufFile,
    threads: usize,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Option<String> {
    let tensors = || file.by_name.iter().map(|i| &file.tensors[*i as usize]);
    let pieces: Vec<&[u8]> = tensors().flat_map(|tensor| file.data(tensor).chunks(PIECE_BYTES)).collect();
    let mut hashes = hash_all(&pieces, threads, go_on)?.into_iter();

    let mut hash = XxHash3_128::new();
    let arch = file.str("general.architecture").ok().flatten().unwrap_or_default();
    let prefix = format!("{arch}.");
    field(&mut hash, arch.as_bytes());
    for &i in &file.by_key {
        let (key, value) = &file.metadata[i as usize];
        if key.starts_with(&prefix) {
            field(&mut hash, key.as_bytes());
            field(&mut hash, value.type_name().as_bytes());
            match value {
                Value::Array(array) => field(&mut hash, array.raw()),
                Value::String(text) => field(&mut hash, text.as_bytes()),
                scalar => field(&mut hash, scalar.to_string().as_bytes()),
            }
        }
    }
    for tensor in tensors() {
        field(&mut hash, tensor.name.as_bytes());
        field(&mut hash, format!("{:?} {}", tensor.dims, tensor.ty).as_bytes());
        let pieces = file.data(tensor).len().div_ceil(PIECE_BYTES);
        hashes.by_ref().take(pieces).for_each(|piece| hash.write(&piece.to_le_bytes()));
    }
    Some(format!("{:032x}{SUFFIX}", hash.finish_128()))
}

/// Whether a text may be a fingerprint that [`GgufFile::fingerprint`] gives.
pub fn is_fingerprint(text: &str) -> bool {
    let is_hash = |text: &str| {
        text.len() == DIGITS && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    text.strip_suffix(SUFFIX).is_some_and(is_hash)
}

/// Hashes the length of `bytes` and then the bytes, so that the boundaries between fields count.
fn field(hash: &mut XxHash3_128, bytes: &[u8]) {
    hash.write(&(bytes.len() as u64).to_le_bytes());
    hash.write(bytes);
}

/// The hash of each piece.
fn hash_all(pieces: &[&[u8]], threads: usize, go_on: &mut dyn FnMut(u64) -> bool) -> Option<Vec<u128>> {
    // Other threads may have taken all pieces before this one takes any.
    if !go_on(0) {
        return None;
    }
    let hashes = Mutex::new(vec![0; pieces.len()]);
    let (next, done, stopped) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    // Hashes the next piece; false where there is none.
    let step = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(piece) = pieces.get(number).filter(|_| !stopped.load(Ordering::Relaxed)) else {
            return false;
        };
        let hash = XxHash3_128::oneshot(piece);
        hashes.lock().unwrap_or_else(PoisonError::into_inner)[number] = hash;
        done.fetch_add(piece.len() as u64, Ordering::Relaxed);
        true
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(pieces.len()) {
            // Without a further thread it takes longer.
            let _ = thread::Builder::new().spawn_scoped(scope, || while step() {});
        }
        while step() {
            if !go_on(done.load(Ordering::Relaxed)) {
                stopped.store(true, Ordering::Relaxed);
            }
        }
    });
    let hashes = hashes.into_inner().unwrap_or_else(PoisonError::into_inner);
    (!stopped.into_inner()).then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        let pieces: Vec<&[u8]> = bytes.chunks(777).collect();
        let mut told = Vec::new();
        let one = hash_all(&pieces, 1, &mut |bytes| {
            told.push(bytes);
            true
        });
        assert!(told.is_sorted() && told.len() == pieces.len() + 1 && told.last() == Some(&100_000));
        assert_eq!(one.as_deref().map(|hashes| hashes[3]), Some(XxHash3_128::oneshot(pieces[3])));
        for threads in [0, 2, 7, 1000] {
            assert_eq!(hash_all(&pieces, threads, &mut |_| true), one);
        }
        assert_eq!(hash_all(&[], 4, &mut |_| true), Some(vec![]));
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        let mut calls = 0;
        let stopped = hash_all(&[&[1_u8][..]; 100], 1, &mut |_| {
            calls += 1;
            calls < 3
        });
        assert_eq!((stopped, calls), (None, 3));
    }

    #[test]
    fn fingerprints_are_told_from_other_texts() {
        let hash = "0123456789abcdef0123456789abcdef";
        assert!(is_fingerprint(&format!("{hash}-xxh3")));
        let others = [format!("{hash}0-xxh3"), format!("{}-xxh3", hash.to_uppercase())];
        for other in ["", "00ff", "-xxh3", hash, &others[0], &others[1]] {
            assert!(!is_fingerprint(other), "{other}");
        }
    }
}
