//! The launchers of the device kernels in cuda/ and their parameters ([`graph`](crate::graph) is the only
//! caller). Each launcher exists twice: compiled by nvcc for GPUs (feature `cuda`), and by the host's compiler
//! for the emulator, a crate for tests. The task says which one is called. Addresses are the device's.
//!
//! Public for the emulator only.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use ggml::DeviceTask;

/// CUDA's error number for an invalid argument.
pub(crate) const INVALID_VALUE: i32 = 1;
/// CUDA's error number for a missing feature: this build has no kernels for the device.
const NOT_SUPPORTED: i32 = 801;

/// Makes constants and `repr(C)` structs of the list in device/calls.rs.
macro_rules! device_calls {
    (
        constants { $($(#[$constant_doc:meta])* $constant:ident = $value:literal;)* }
        $($(#[$doc:meta])* struct $call:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* })*
    ) => {
        $($(#[$constant_doc])* pub(crate) const $constant: usize = $value;)*
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $call { $($(#[$field_doc])* pub $field: $ty,)* }
        )*
    };
}
include!("calls.rs");

impl Lanes {
    /// No lanes.
    pub(crate) const NONE: Lanes = Lanes {
        lanes: [Lane {
            k: null_mut(),
            v: null_mut(),
            k_head_stride: 0,
            v_head_stride: 0,
            heads: 0,
            capacity: 0,
            first_position: 0,
            compensated: 0,
        }; MAX_LANES],
        count: 0,
        head_dim: 0,
        k_type: 0,
        v_type: 0,
        kv_heads: [0; MAX_KV_HEADS],
    };
}

/// Head numbers in the form of the calls. Fails with [`INVALID_VALUE`] where there are too many or one is too
/// large.
pub(crate) fn head_numbers(heads: &[u32]) -> Result<[u8; MAX_KV_HEADS], i32> {
    let mut numbers = [0; MAX_KV_HEADS];
    if heads.len() > MAX_KV_HEADS {
        return Err(INVALID_VALUE);
    }
    for (number, head) in numbers.iter_mut().zip(heads) {
        *number = u8::try_from(*head).map_err(|_| INVALID_VALUE)?;
    }
    Ok(numbers)
}

/// A function that launches a kernel on a stream. It returns 0 or a number of CUDA's errors.
pub type Launcher<Call> = unsafe extern "C" fn(*const Call, *mut c_void) -> c_int;

/// Calls the macro `$with` with the list of launchers: their parameters, and their names in the two builds.
#[doc(hidden)]
#[macro_export]
macro_rules! launchers {
    ($with:ident) => {
        $with! {
            /// Writes rows behind the live ones.
            append(AppendCall): longhand_cuda_append, longhand_emulated_append;
            /// Writes positions behind those of the live rows.
            append_positions(PositionsCall): longhand_cuda_append_positions, longhand_emulated_append_positions;
            /// Attention of few queries, phase 1: writes the partials.
            attend_decode(AttendCall): longhand_cuda_attend_decode, longhand_emulated_attend_decode;
            /// Attention of many queries: writes the result, or the partials where rows are split.
            attend_prefill(AttendCall): longhand_cuda_attend_prefill, longhand_emulated_attend_prefill;
            /// Attention, phase 2: merges the partials.
            combine(AttendCall): longhand_cuda_combine, longhand_emulated_combine;
            /// Evicts rows of a lane.
            evict(EvictCall): longhand_cuda_evict, longhand_emulated_evict;
            /// Fills a lane from complete rows.
            select(SelectCall): longhand_cuda_select, longhand_emulated_select;
            /// Stores queries in a ring.
            store_queries(StoreQueriesCall): longhand_cuda_store_queries, longhand_emulated_store_queries;
            /// Measures rows.
            measure(MeasureCall): longhand_cuda_measure, longhand_emulated_measure;
            /// Writes predicted scores of new rows.
            predict(PredictCall): longhand_cuda_predict, longhand_emulated_predict;
            /// Adds up attention weights row by row.
            accumulate(AccumulateCall): longhand_cuda_accumulate, longhand_emulated_accumulate;
        }
    };
}

macro_rules! define {
    ($($(#[$doc:meta])* $name:ident($call:ident): $cuda:ident, $emulated:ident;)*) => {
        /// The launchers of an emulator. Each may be called with addresses of the host that cover the shapes of its call.
        #[derive(Debug)]
        pub struct Launchers {
            $($(#[$doc])* pub $name: Launcher<$call>,)*
        }
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The addresses in `call` are the device's and cover their shapes until the work is done.
            pub(crate) unsafe fn $name(task: &DeviceTask, call: &$call) -> Result<(), i32> {
                #[cfg(feature = "cuda")]
                unsafe extern "C" {
                    fn $cuda(call: *const $call, stream: *mut c_void) -> c_int;
                }
                #[cfg(feature = "cuda")]
                const CUDA: Option<Launcher<$call>> = Some($cuda);
                #[cfg(not(feature = "cuda"))]
                const CUDA: Option<Launcher<$call>> = None;

                let launcher = if task.emulated() { EMULATOR.get().map(|emulator| emulator.$name) } else { CUDA };
                // SAFETY: the caller's promise; the struct is copied before the launcher returns.
                let error = launcher.map_or(NOT_SUPPORTED, |launch| unsafe { launch(call, task.stream()) });
                if error == 0 { Ok(()) } else { Err(error) }
            }
        )*
    };
}
launchers!(define);

static EMULATOR: OnceLock<&Launchers> = OnceLock::new();

/// Sets the launchers that emulated devices call, once: later calls change nothing.
pub fn emulate(launchers: &'static Launchers) {
    EMULATOR.get_or_init(|| launchers);
}
