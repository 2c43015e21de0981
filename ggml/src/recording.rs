//! What a GPU has recorded of a graph: the first time a graph is launched operation by operation, the second time its
//! launches are recorded, and from then on the recording is started ([`Backend::compute`](crate::Backend::compute)).
//! Without the feature `cuda` nothing is recorded.

#[cfg(feature = "cuda")]
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(any(feature = "cuda", test))]
use ggml_sys as sys;

use crate::Tensor;
#[cfg(feature = "cuda")]
use crate::cuda::stream::Recording;

/// What a GPU has recorded of a graph.
pub(crate) struct DeviceRecording {
    #[cfg(feature = "cuda")]
    state: Mutex<RecordingState>,
}

/// Whether a graph's launches were recorded on a GPU.
#[cfg(feature = "cuda")]
pub(crate) enum RecordingState {
    /// The graph was never computed.
    Never,
    /// It was computed once.
    Once,
    /// It was recorded, on the stream of the backend with this number. The addresses of memory that ggml
    /// allocates for the length of an operation are part of the recording. ggml keeps such memory for later
    /// operations, and frees it only where the GPU has none left: `frees` is how often it had when this was recorded.
    Recorded { recording: Recording, backend: u64, frees: u64 },
    /// It cannot be recorded.
    Unrecordable,
}

impl DeviceRecording {
    /// Of a graph with these nodes, which was never computed. The caller holds a lock on their context.
    #[cfg(feature = "cuda")]
    pub(crate) fn new(nodes: impl Iterator<Item = Tensor>) -> DeviceRecording {
        let state = if may_wait(nodes) { RecordingState::Unrecordable } else { RecordingState::Never };
        DeviceRecording { state: Mutex::new(state) }
    }

    #[cfg(not(feature = "cuda"))]
    pub(crate) fn new(_: impl Iterator<Item = Tensor>) -> DeviceRecording {
        DeviceRecording {}
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn state(&self) -> MutexGuard<'_, RecordingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a recording.
    pub(crate) fn is_recorded(&self) -> bool {
        #[cfg(feature = "cuda")]
        return matches!(&*self.state(), RecordingState::Recorded { .. });
        #[cfg(not(feature = "cuda"))]
        false
    }
}

/// Whether ggml's CUDA backend may wait for the GPU within these nodes, which then cannot be recorded. It sorts the
/// tokens of chosen matrices on the host, where it has no kernel for the type or the number of tokens. It has one
/// for a single token and quantised matrices. It sorts rows of more than 1024 numbers by a library that cannot be
/// recorded. The caller holds a lock on the nodes' context.
#[cfg(any(feature = "cuda", test))]
fn may_wait(mut nodes: impl Iterator<Item = Tensor>) -> bool {
    nodes.any(|node| {
        // SAFETY: fields of a live node that never change.
        let (op, matrices) = unsafe { ((*node.raw.as_ptr()).op, (*node.raw.as_ptr()).src[0]) };
        match (op, std::ptr::NonNull::new(matrices)) {
            (sys::GGML_OP_ARGSORT, _) => node.dim(0) > 1024,
            (sys::GGML_OP_MUL_MAT_ID, Some(matrices)) => {
                node.dim(2) > 1 || node.context.handle(matrices).ty().block_elements() == 1
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Type};

    #[test]
    fn graphs_that_wait_for_a_gpu_are_known() {
        let waits = |ty: Type, tokens: usize, chosen: bool| {
            let context = Context::new(16);
            let matrices = context.tensor(ty, [64, 8, 4]);
            let x = context.tensor(Type::F32, [64, 1, tokens]);
            let nodes = match chosen {
                true => {
                    let scores = context.tensor(Type::F32, [4, tokens]);
                    let ids = context.top_k(&scores, 2);
                    vec![ids.clone(), context.mul_mat_id(&matrices, &x, &ids)]
                }
                false => {
                    let x = context.tensor(Type::F32, [64, 3, 4]);
                    vec![context.mul_mat(&context.rows(&matrices, 0, 8), &x)]
                }
            };
            assert!(context.check().is_ok());
            may_wait(nodes.into_iter())
        };
        assert!(!waits(Type::Q8_0, 1, true));
        assert!(waits(Type::Q8_0, 2, true), "many tokens");
        assert!(waits(Type::F16, 1, true), "no kernel");
        assert!(!waits(Type::F16, 1, false));
    }
}
