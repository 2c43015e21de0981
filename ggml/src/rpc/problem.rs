//! What can be wrong with a server.

/// Why a server cannot compute, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RpcProblem {
    /// The address has another form.
    #[error("this is not an address: HOST:PORT is needed")]
    Address,
    /// The system knows no address for the name.
    #[error("the name does not resolve: {0}")]
    Unresolved(String),
    /// No connection.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The server accepts the connection, and does not answer.
    #[error("it gave no answer for {0} seconds")]
    Silent(u64),
    /// What answers has another protocol.
    #[error("the program that answers is no RPC server of ggml, or its protocol is too old")]
    NotRpc,
    /// The server has another version of the protocol. Operations may have other numbers there.
    #[error("it has version {found} of ggml's RPC protocol, this program has {needed}")]
    Version {
        /// The server's version.
        found: String,
        /// The version of this program.
        needed: String,
    },
    /// The server offers no device, or more than a program may use.
    #[error("it offers {0} devices; 1 to 64 can be used")]
    Devices(u32),
    /// The server was given twice, perhaps by another name.
    #[error("it was given twice, perhaps by another name")]
    Twice,
    /// An answer of the server is none of its protocol.
    #[error("it gave a wrong answer: {0}")]
    WrongAnswer(String),
    /// The connection ended.
    #[error("the connection was lost: {0}")]
    Lost(String),
}
