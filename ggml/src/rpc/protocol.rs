//! ggml's RPC protocol, as far as a connection has to know it: which commands are answered, how long the answers are, which
//! are impossible, and what is answered in the place of a server that is lost.
//!
//! A command is a byte, the length of its content as a u64, and the content. An answer is its length as a u64 and its content.
//! Numbers are little-endian, as on all machines that longhand supports.

use super::problem::RpcProblem;

/// The version of the protocol that the sources of ggml have.
pub(super) const VERSION: [u8; 3] = [7, 0, 0];

pub(super) const HELLO: u8 = 14;
pub(super) const DEVICE_COUNT: u8 = 15;
pub(super) const GET_DEVICE_MEMORY: u8 = 11;
pub(super) const FREE_BUFFER: u8 = 4;
pub(super) const GRAPH_COMPUTE: u8 = 10;
pub(super) const GRAPH_RECOMPUTE: u8 = 16;
pub(super) const ALLOC_BUFFER: u8 = 0;
pub(super) const GET_ALIGNMENT: u8 = 1;
const GET_MAX_SIZE: u8 = 2;
const BUFFER_GET_BASE: u8 = 3;
const SET_TENSOR_HASH: u8 = 7;
const GET_TENSOR: u8 = 8;
const COPY_TENSOR: u8 = 9;
const GET_ALLOC_SIZE: u8 = 13;

/// Bytes of what a client says of itself in its first command.
pub(super) const CAPABILITIES: usize = 24;
/// Bytes of the answer: the version, a byte that is not used, and capabilities.
pub(super) const HELLO_ANSWER: usize = 4 + CAPABILITIES;
/// Bytes before the content of a command.
pub(super) const HEADER: usize = 1 + size_of::<u64>();

/// More than any machine has, and few enough that sums do not overflow.
pub(super) const MAX_BYTES: u64 = 1 << 46;
/// Addresses up to here do not overflow when such a size is added.
const MAX_ADDRESS: u64 = 1 << 62;
/// A multiple of the alignment of every backend.
const ANY_ALIGNMENT: u64 = 4096;

/// The answer that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awaited {
    pub(super) command: u8,
    /// Bytes.
    pub(super) size: u64,
    /// The bytes that an allocation asks for.
    wanted: u64,
    /// What is asked about: a device, or a buffer by the server's number for it.
    pub(super) subject: u64,
}

/// The device that most commands begin with.
pub(super) fn device(content: &[u8]) -> u32 {
    content.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// The number of eight bytes there, 0 if there are fewer.
pub(super) fn number(content: &[u8], at: usize) -> u64 {
    let bytes = content.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

impl Awaited {
    /// The answer to a command with this content; `None` where there is none.
    pub(super) fn of(command: u8, content: &[u8]) -> Option<Awaited> {
        let last = || content.last_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let size = match command {
            HELLO => HELLO_ANSWER as u64,
            ALLOC_BUFFER | GET_DEVICE_MEMORY => 16,
            GET_ALIGNMENT | GET_MAX_SIZE | BUFFER_GET_BASE | GET_ALLOC_SIZE => 8,
            SET_TENSOR_HASH | COPY_TENSOR => 1,
            DEVICE_COUNT => 4,
            // The content ends with the number of bytes that are read.
            GET_TENSOR => last(),
            _ => return None,
        };
        Some(Awaited {
            command,
            size,
            wanted: if command == ALLOC_BUFFER { last() } else { 0 },
            subject: if command == BUFFER_GET_BASE { number(content, 0) } else { device(content).into() },
        })
    }

    /// Whether the server has given this answer when the connection was made.
    pub(super) fn is_hello(&self) -> bool {
        self.command == HELLO
    }

    /// Refuses content on which ggml would abort the process, or compute sizes that overflow. The server has `devices`, and the
    /// memory that is asked about an `alignment`.
    pub(super) fn check(
        &self,
        content: &[u8],
        devices: u32,
        alignment: Option<u64>,
    ) -> Result<(), RpcProblem> {
        let first = number(content, 0);
        let size = number(content, 8);
        let problem = match self.command {
            ALLOC_BUFFER if first != 0 && !(self.wanted..MAX_BYTES).contains(&size) => {
                format!("memory of {size} bytes instead of {}", self.wanted)
            }
            GET_ALIGNMENT if !first.is_power_of_two() || first > ANY_ALIGNMENT => {
                format!("an alignment of {first}")
            }
            BUFFER_GET_BASE
                if first == 0
                    || first > MAX_ADDRESS
                    || !alignment.is_some_and(|alignment| first.is_multiple_of(alignment)) =>
            {
                format!("memory at the address {first}")
            }
            GET_ALLOC_SIZE if first > MAX_BYTES => format!("a tensor of {first} bytes"),
            DEVICE_COUNT if content != devices.to_ne_bytes() => "another number of devices".into(),
            _ => return Ok(()),
        };
        Err(RpcProblem::WrongAnswer(problem))
    }

    /// What is answered in the place of a server that is lost: there is no memory, and all that was written is zero.
    pub(super) fn substitute(&self, content: &mut [u8], devices: u32) {
        content.fill(0);
        let bytes = match self.command {
            GET_ALIGNMENT | BUFFER_GET_BASE => ANY_ALIGNMENT.to_ne_bytes(),
            GET_MAX_SIZE => MAX_BYTES.to_ne_bytes(),
            // It is there, it was copied.
            SET_TENSOR_HASH | COPY_TENSOR => 1u64.to_le_bytes(),
            DEVICE_COUNT => u64::from(devices).to_le_bytes(),
            _ => return,
        };
        let size = content.len().min(bytes.len());
        content[..size].copy_from_slice(&bytes[..size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_would_abort_the_process_are_refused() {
        let of = |command, content: &[u8]| Awaited::of(command, content).expect("an answer");
        let refused = |awaited: Awaited, numbers: &[u64]| {
            let content: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
            assert_eq!(awaited.size, content.len() as u64);
            awaited.check(&content, 2, Some(32)).is_err()
        };
        let alloc = of(ALLOC_BUFFER, &[[0, 0, 0, 0].as_slice(), &100u64.to_ne_bytes()].concat());
        assert!(!refused(alloc, &[7, 100]) && !refused(alloc, &[0, 0]), "memory, or none");
        assert!(refused(alloc, &[7, 99]) && refused(alloc, &[7, u64::MAX]));
        let alignment = of(GET_ALIGNMENT, &[]);
        assert!(!refused(alignment, &[32]) && refused(alignment, &[0]) && refused(alignment, &[48]));
        let base = of(BUFFER_GET_BASE, &[]);
        assert!(!refused(base, &[64]) && refused(base, &[0]) && refused(base, &[1]) && refused(base, &[48]));
        assert!(refused(base, &[u64::MAX - 31]));
        assert!(refused(of(GET_ALLOC_SIZE, &[]), &[u64::MAX]));
        assert!(of(DEVICE_COUNT, &[]).check(&3u32.to_ne_bytes(), 2, None).is_err());
        assert_eq!(of(GET_TENSOR, &[[0; 304].as_slice(), &9u64.to_ne_bytes()].concat()).size, 9);
        assert_eq!(Awaited::of(FREE_BUFFER, &[0; 8]), None);
    }

    #[test]
    fn substitutes_are_answers_of_the_protocol() {
        for command in
            [ALLOC_BUFFER, GET_ALIGNMENT, GET_MAX_SIZE, BUFFER_GET_BASE, GET_ALLOC_SIZE, DEVICE_COUNT]
        {
            let awaited = Awaited::of(command, &[0; 12]).expect("an answer");
            let mut content = vec![7; awaited.size as usize];
            awaited.substitute(&mut content, 2);
            assert_eq!(awaited.check(&content, 2, Some(32)), Ok(()), "{command}");
        }
    }
}
