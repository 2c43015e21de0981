//! Errors of ggml and of the checks in front of it.

use crate::Shape;

/// A failure reported by ggml or by the checks in front of it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The operands' shapes or types do not fit the operation. This is a mistake of the caller, on which ggml
    /// would abort.
    #[error("ggml operation `{op}` does not accept {inputs}")]
    Operands {
        /// Name of the operation.
        op: &'static str,
        /// The operands as text: type and shape of each.
        inputs: String,
    },
    /// A custom operation cannot be built of what it was given.
    #[error("operation `{op}`: {problem}")]
    Unfit {
        /// Name of the operation.
        op: &'static str,
        /// Which tensor does not fit, and why.
        problem: String,
    },
    /// An operation would write to memory that one of its other operands lies in.
    #[error("operation `{op}` would write to tensor `{tensor}`, which shares memory with another operand")]
    Overlap {
        /// Name of the operation.
        op: &'static str,
        /// Name of the tensor that would be written.
        tensor: String,
    },
    /// The context was created for fewer tensors than were made in it.
    #[error("a ggml context made for {capacity} tensors is full")]
    ContextFull {
        /// Number of tensors it was made for.
        capacity: usize,
    },
    /// An allocation failed.
    #[error("cannot allocate {bytes} bytes for {what} on {device}")]
    OutOfMemory {
        /// What the memory was for.
        what: String,
        /// Bytes requested.
        bytes: usize,
        /// Name of the device or buffer type.
        device: String,
    },
    /// An allocation would exceed the limit that was set on the device's memory.
    #[error("{what} need {bytes} bytes on {device}, of which {used} of {limit} are taken")]
    OverBudget {
        /// What the memory was for.
        what: String,
        /// Bytes requested.
        bytes: usize,
        /// Name of the device or buffer type.
        device: String,
        /// Bytes taken before the request.
        used: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Data of the wrong length, or a tensor without memory.
    #[error("{what}: tensor `{tensor}` has {expected} bytes, {found} were given")]
    DataSize {
        /// The attempted access.
        what: &'static str,
        /// The tensor's name.
        tensor: String,
        /// Bytes of the tensor.
        expected: usize,
        /// Bytes of the caller's data, offset included.
        found: usize,
    },
    /// Data of a type that is not the tensor's.
    #[error("tensor `{tensor}` has elements of type {ty}, not {given}")]
    ElementType {
        /// The tensor's name.
        tensor: String,
        /// The tensor's type.
        ty: &'static str,
        /// The type of the caller's data.
        given: &'static str,
    },
    /// A tensor that has no memory yet was read, written or computed with.
    #[error("tensor `{0}` has no memory")]
    NotAllocated(String),
    /// A tensor in read-only memory was to be written.
    #[error("tensor `{0}` lies in read-only memory")]
    ReadOnly(String),
    /// Repacked memory holds weight matrices that the CPU multiplies, and nothing else. Matrices are written
    /// as a whole, and are neither read nor cleared.
    #[error("tensor `{tensor}` cannot be {access} repacked memory, which holds whole weight matrices only")]
    Repacked {
        /// The tensor's name.
        tensor: String,
        /// The attempted access, such as "read from".
        access: &'static str,
    },
    /// An operand of another context is the result of an operation, has no memory, or has its memory from a
    /// graph allocator.
    #[error("ggml operation `{op}` cannot use tensor `{tensor}` of another context")]
    ForeignOperand {
        /// Name of the operation.
        op: &'static str,
        /// The operand's name.
        tensor: String,
    },
    /// Mapped memory does not meet ggml's alignment.
    #[error("tensor `{tensor}` lies at an address that is not a multiple of {alignment}")]
    Misaligned {
        /// The tensor's name.
        tensor: String,
        /// Required alignment in bytes.
        alignment: usize,
    },
    /// A graph's memory was handed to another graph before it was computed.
    #[error("a compute graph was used after its allocator served another graph")]
    StaleGraph,
    /// A table has no row of this number.
    #[error("tensor `{tensor}` selects row {row} of a table of {rows} rows")]
    Row {
        /// Name of the tensor with the rows' numbers.
        tensor: String,
        /// The wrong number.
        row: i32,
        /// Rows of the table.
        rows: usize,
    },
    /// A graph's tensor lies in memory that the backend cannot reach.
    #[error("the {backend} backend cannot reach tensor `{tensor}`, which lies in {memory} memory")]
    Unreachable {
        /// The backend's name.
        backend: String,
        /// The tensor's name.
        tensor: String,
        /// Name of the kind of memory.
        memory: String,
    },
    /// The backend cannot compute an operation with these operands.
    #[error("the {backend} backend cannot compute operation {op} of tensor `{tensor}`")]
    Unsupported {
        /// The backend's name.
        backend: String,
        /// ggml's name of the operation.
        op: String,
        /// Name of the result.
        tensor: String,
    },
    /// The implementation of a custom operation reported a failure, or panicked.
    #[error("a custom operation failed: {0}")]
    Failed(String),
    /// The computation was stopped by its [`InterruptFlag`](crate::InterruptFlag).
    #[error("interrupted")]
    Interrupted,
    /// The backend could not be started.
    #[error("the {0} backend could not be started")]
    Backend(&'static str),
    /// The system does not allow as many threads.
    #[error("cannot start {threads} threads{}: {reason}", only(*started))]
    Threads {
        /// Threads asked for, the caller's included.
        threads: usize,
        /// Threads that could run, the caller's included; 0 where that is not known.
        started: usize,
        /// The system's reason.
        reason: String,
    },
    /// CUDA cannot be used.
    #[error("{0}")]
    NoCuda(#[from] crate::NoCuda),
    /// HIP cannot be used.
    #[error("{0}")]
    NoHip(#[from] crate::NoHip),
    /// Metal cannot be used.
    #[error("{0}")]
    NoMetal(#[from] crate::NoMetal),
    /// Vulkan cannot be used.
    #[error("{0}")]
    NoVulkan(#[from] crate::NoVulkan),
    /// libcublas was not found. Holds the loader's message.
    #[error("libcublas, which products with F32, F16 and BF16 matrices need on a GPU, was not found: {0}")]
    NoCublas(String),
    /// A GPU cannot multiply matrices of this type.
    #[error("on a GPU there is no product with matrices of type {0}")]
    NoProducts(&'static str),
    /// There are fewer GPUs.
    #[error("there is no GPU number {index}, only {gpus} from 0 on")]
    NoSuchGpu {
        /// The number asked for.
        index: usize,
        /// Number of GPUs.
        gpus: usize,
    },
    /// A server of devices cannot be used, or is lost.
    #[cfg(feature = "rpc")]
    #[error("RPC server {server}: {problem}")]
    Rpc {
        /// The server as it was given, such as `192.168.1.7:50052`.
        server: String,
        /// What is wrong.
        problem: crate::rpc::RpcProblem,
    },
    /// The servers have fewer devices.
    #[cfg(feature = "rpc")]
    #[error("there is no device rpc:{index}; the RPC servers have {devices} devices, with numbers from 0 on")]
    NoSuchRpcDevice {
        /// The number asked for.
        index: usize,
        /// Number of devices of all servers.
        devices: usize,
    },
    /// Work could not be launched on a device, or failed there.
    #[error("the device failed: {0}")]
    Device(String),
    /// ggml gave up and would abort the process. Only the hook of [`crate::on_fatal`] is given this error.
    #[error("{message}")]
    Aborted {
        /// ggml's message.
        message: String,
        /// Whether memory was refused.
        out_of_memory: bool,
    },
    /// ggml reported a failure of the computation.
    #[error("ggml failed to compute a graph (status {0}){1}")]
    Compute(i32, String),
}

/// Text for [`Error::Operands`]: `f32 [64, 8], q8_0 [256]`.
pub(crate) fn describe(operands: &[(&str, Shape)]) -> String {
    let list: Vec<String> = operands.iter().map(|(ty, shape)| format!("{ty} {shape}")).collect();
    list.join(", ")
}

fn only(started: usize) -> String {
    if started > 0 { format!(", only {started}") } else { String::new() }
}
